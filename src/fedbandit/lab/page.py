"""Pages that need nothing beside them: templates, and plotly's script packed into the page."""

import gzip
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedbandit.lab.analysis.table import Table
from fedbandit.lab.analysis.text import number, percent, percent_interval, plus_minus, unbroken
from fedbandit.lab.figures.charts import Chart
from fedbandit.lab.runs.output import writing


@dataclass(frozen=True)
class Section:
    """A part of a page: what it shows in words, charts, tables."""

    title: str
    words: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()

    @property
    def id(self) -> str:
        """Where links to it lead."""
        return self.title.lower().replace(" ", "-")


def write_page(template: str, path: Path, values: Mapping[str, Any]) -> Path:
    """Render a template to a file; the same values give the same bytes."""
    pages = Environment(
        loader=PackageLoader("fedbandit.lab"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(
        number=number,
        plusminus=plus_minus,
        percent=percent,
        interval=percent_interval,
        unbroken=unbroken,
    )
    page = pages.get_template(template).render(plotly=_packed_plotly(), **values)
    with writing(path):
        path.write_text(page, encoding="utf-8")
    return path


@cache
def _packed_plotly() -> str:
    """Return plotly's script, compressed: 1.9 MB in place of 4.8 MB; browsers unpack it."""
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return b64encode(gzip.compress(script, mtime=0)).decode("ascii")
