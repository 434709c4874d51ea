"""What a person sees: bars on a terminal, few lines elsewhere."""

import os
import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.lab.runs.progress import Bars, Lines, progress_on


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(0, 200))
def test_lines_say_every_tenth_once(runs: list[int], stored: int) -> None:
    total = sum(runs) + stored
    out = StringIO()
    lines = Lines(out)
    lines.begin(total={"FSCLB": total}, done={"FSCLB": stored})
    for rounds in runs:
        lines.advance("FSCLB", rounds)
    lines.end()
    shown = [int(line.split()[0]) for line in out.getvalue().splitlines()]
    reached = [stored + sum(runs[:count]) for count in range(len(runs) + 1)]
    tenths = [rounds * 10 // total * 10 for rounds in reached]
    assert shown == sorted(set(tenths) - {tenths[0]})
    assert shown[-1:] in ([], [100])


def test_lines_say_of_how_much() -> None:
    out = StringIO()
    lines = Lines(out)
    lines.begin(total={"FSCLB": 1000, "Random": 1000}, done={"FSCLB": 500, "Random": 0})
    lines.advance("Random", 1000)
    assert out.getvalue() == "70 % of 2,000 rounds\n"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def final_lines(total: dict[str, int], done: dict[str, int]) -> dict[str, str]:
    """What bars show in the end on a terminal, after FSCLB has advanced by 30."""
    terminal = Terminal()
    progress = progress_on(terminal)
    assert isinstance(progress, Bars)
    progress.begin(total=total, done=done)
    progress.advance("FSCLB", 30)
    progress.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    lines = [line for line in shown.replace("\r", "\n").split("\n") if line.strip()]
    assert max(map(len, lines)) <= int(os.environ["COLUMNS"])
    return {name: line for line in lines for name in (*total, "all") if line.startswith(name)}


def test_a_terminal_gets_bars_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    final = final_lines({"FSCLB": 100, "[Random]": 50}, {"FSCLB": 20, "[Random]": 0})
    assert " 50 %" in final["FSCLB"]
    assert "rounds/s" in final["FSCLB"]
    assert "left" in final["FSCLB"]
    assert "━" in final["FSCLB"]
    assert "  0 %" in final["[Random]"]
    assert " 33 %" in final["all"]


@pytest.mark.parametrize("columns", [30, 40, 45, 52, 60, 70, 80, 90, 120])
def test_no_name_and_no_number_is_cut(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("FSCLB", "FedLinUCB (published)")
    final = final_lines(dict.fromkeys(names, 100), {"FSCLB": 20, "FedLinUCB (published)": 0})
    assert final.keys() == {"FSCLB", "FedLinUCB (published)", "all"}
    assert " 50 %" in final["FSCLB"]
    assert not any("…" in line for line in final.values())


def test_an_algorithm_may_be_called_all() -> None:
    terminal = Terminal()
    bars = Bars(terminal)
    bars.begin(total={"all": 10, "x": 30}, done={"all": 0, "x": 0})
    bars.advance("all", 10)
    bars.end()
    assert "100 %" in terminal.getvalue()
    assert " 25 %" in terminal.getvalue()


def test_anything_else_gets_lines() -> None:
    assert isinstance(progress_on(StringIO()), Lines)
