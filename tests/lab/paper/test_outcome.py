"""What a person sees when a reproduction ends, on terminals of any width."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.summary import summarise
from fedbandit.lab.analysis.text import compact, number, plus_minus
from fedbandit.lab.paper.claims import claims, findings
from fedbandit.lab.paper.outcome import show
from fedbandit.lab.study.settings import SETTINGS
from tests.lab.made_runs import paper_runs


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_no_name_no_number_and_no_word_is_cut(columns: int) -> None:
    found = curves(paper_runs(reward=123456.5, lead=1234567.0, wobble=3.0))
    rows = summarise(found)
    tuned = findings(found, SETTINGS, radius="tuned")
    out = StringIO()
    show(rows, tuned, paths=[Path("a/place")], on=Console(file=out, width=columns))
    shown = out.getvalue()
    for row in rows:
        estimates = row.estimates
        line = next(line for line in shown.splitlines() if line.startswith(row.algorithm + "  "))
        assert row.radius in line
        assert plus_minus(estimates["reward"]) in line
        assert number(estimates["seconds"].mean) in line
        assert line.rstrip().endswith(compact(estimates["scalars"].mean))
    words = {word for claim in claims(tuned) for word in f"{claim.test} {claim.measured}".split()}
    assert words <= set(shown.split())
    assert "…" not in shown
