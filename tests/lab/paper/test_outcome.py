"""What a person sees when a reproduction ends, on terminals of any width."""

from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.summary import summarise
from fedbandit.lab.analysis.text import compact, number, percent, plus_minus
from fedbandit.lab.paper.claims import claims, findings
from fedbandit.lab.paper.gains import gains
from fedbandit.lab.paper.outcome import show
from fedbandit.lab.study.settings import SETTINGS
from tests.lab.made_runs import made_trials, paper_runs

LEAN = made_trials(
    {"reward": [980.0] * 4, "regret": [120.0] * 4, "bytes": [10_200.0] * 4, "seconds": [0.2] * 4},
    algorithm="FSCLB.lean",
)


@pytest.mark.parametrize("columns", [40, 60, 80, 90, 120, 200])
def test_no_name_no_number_and_no_word_is_cut(columns: int) -> None:
    made = paper_runs(reward=123456.5, lead=1234567.0, wobble=3.0)
    found = curves(pa.concat_tables([made, LEAN]))
    rows, gained = summarise(found), gains(found, SETTINGS)
    tuned = findings(found, SETTINGS, radius="tuned")
    out = StringIO()
    show(rows, gained, tuned, paths=[Path("a/place")], on=Console(file=out, width=columns))
    shown = out.getvalue()
    assert max(map(len, shown.splitlines())) <= columns
    told = " ".join(shown.split())
    for row in rows:
        estimates = row.estimates
        assert row.algorithm in shown
        assert plus_minus(estimates["reward"]) in told
        for cell in (row.radius, number(estimates["seconds"].mean)):
            assert cell in told or columns == 60  # left out
        assert compact(estimates["bytes"].mean) in told
    words = {word for claim in claims(tuned) for word in f"{claim.test} {claim.measured}".split()}
    assert words <= {word.rstrip(":;") for word in told.split()} | set(told.split())
    assert "…" not in shown


def test_gains_come_before_what_does_not_hold() -> None:
    found = curves(pa.concat_tables([paper_runs(reward=900.0), LEAN]))
    (gain,) = gained = gains(found, SETTINGS)
    assert percent(gain.bytes.mean) == "2.5 %"  # 10,200 of 8 x 51,000
    assert percent(gain.regret.mean) == "10.9 %"  # 120 of 1,100
    assert percent(gain.loss.mean) == "2.0 %"  # 980 of a lead of 1,000
    out = StringIO()
    tuned = findings(found, SETTINGS, radius="tuned")
    show(summarise(found), gained, tuned, paths=[], on=Console(file=out, width=300))
    shown = out.getvalue()
    verdicts = [line for line in shown.splitlines() if line.endswith("setting")]
    assert shown.index("2.5 %") < shown.index("does not hold")
    assert [" not " in line for line in verdicts] == sorted(" not " in line for line in verdicts)
    assert any(" not " in line for line in verdicts)


def test_without_lean_nothing_is_said_of_gains() -> None:
    found = curves(paper_runs())
    assert gains(found, SETTINGS) == ()
    out = StringIO()
    tuned = findings(found, SETTINGS, radius="tuned")
    show(summarise(found), (), tuned, paths=[], on=Console(file=out, width=120))
    assert "FSCLB.lean gains" not in out.getvalue()
