"""Advice as files: a table, everything for programs, a page and a figure for people."""

import csv
import math
from pathlib import Path

import msgspec

from fedbandit.lab.advice.page import write_advice_page
from fedbandit.lab.analysis.advice import Advice
from fedbandit.lab.analysis.statistics import Estimate
from fedbandit.lab.figures.advice import draw_advice
from fedbandit.lab.runs.output import writable_directory, writing

_PROSPECTS = ("tail", "epsilon_l", "message_bytes_float64", "message_bytes_lean")
_MEASURES = ("regret", "loss", "bytes")


def write_advice(advice: Advice, out: Path) -> list[Path]:
    """Write ``advice.csv``, ``.json`` and ``.html`` and the figure ``advice`` to ``out``.

    The CSV has a row for each recipe and size, with what was known of that size beforehand (empty
    if nothing was). The JSON is all of the Advice.
    """
    table = writable_directory(out) / "advice.csv"
    with writing(table), table.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerows(advice_rows(advice))
    everything = out / "advice.json"
    with writing(everything):
        everything.write_bytes(msgspec.json.format(msgspec.json.encode(advice)) + b"\n")
    return [
        table,
        everything,
        write_advice_page(advice, out / "advice.html"),
        *draw_advice(advice, out),
    ]


def advice_rows(advice: Advice) -> list[list[str]]:
    """Return the CSV's header and rows."""
    estimates = [f"{name}_{part}" for name in _MEASURES for part in ("mean", "ci95")]
    ahead = {
        each.sketch_size: (each.tail, each.epsilon, each.bytes_float64, each.bytes_lean)
        for each in advice.prospects
    }
    rows = [["recipe", "sketch_size", *_PROSPECTS, *estimates]]
    for each in advice.measured:
        known = ahead.get(each.sketch_size) if isinstance(each.sketch_size, int) else None
        size = "" if each.sketch_size is None else f"{each.sketch_size}"
        before = [""] * len(_PROSPECTS) if known is None else list(map(repr, known))
        after = [text for name in _MEASURES for text in _written(getattr(each, name))]
        rows.append([each.recipe, size, *before, *after])
    return rows


def _written(measured: Estimate) -> list[str]:
    return ["" if math.isnan(each) else repr(each) for each in (measured.mean, measured.ci95)]
