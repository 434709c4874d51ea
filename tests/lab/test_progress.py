"""What a person sees: bars on a terminal, few lines elsewhere."""

import os
import re
from collections import Counter
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st

from fedbandit.lab.progress import Bars, Lines, progress_on


@given(st.lists(st.sampled_from(["FSCLB", "Random", "SOFUL"]), min_size=1, max_size=30))
def test_lines_say_each_algorithm_once_when_it_is_finished(order: list[str]) -> None:
    out = StringIO()
    lines = Lines(out)
    lines.begin(total=Counter({name: 10 * n for name, n in Counter(order).items()}), done=Counter())
    for algorithm in order:
        lines.advance(algorithm, 10)
    lines.end()
    last = {name: place for place, name in enumerate(order)}
    expected = [f"{name}: done" for name in sorted(last, key=lambda name: last[name])]
    assert out.getvalue().splitlines() == expected


def test_lines_count_what_was_there_already() -> None:
    out = StringIO()
    lines = Lines(out)
    lines.begin(total={"FSCLB": 30}, done={"FSCLB": 20})
    lines.advance("FSCLB", 10)
    assert out.getvalue() == "FSCLB: done\n"


def test_a_terminal_gets_bars_with_rate_and_time_left() -> None:
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal:
        progress = progress_on(terminal)
        assert isinstance(progress, Bars)
        progress.begin(total={"FSCLB": 100, "[Random]": 50}, done={"FSCLB": 20, "[Random]": 0})
        progress.advance("FSCLB", 30)
        progress.end()
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(reader, 100_000).decode())
    os.close(reader)
    final = {
        line.split()[0]: line for line in shown.replace("\r", "\n").split("\n") if line.strip()
    }
    assert "50 %" in final["FSCLB"]
    assert "rounds/s" in final["FSCLB"]
    assert "left" in final["FSCLB"]
    assert "0 %" in final["[Random]"]
    assert "33 %" in final["all"]


def test_anything_else_gets_lines() -> None:
    assert isinstance(progress_on(StringIO()), Lines)
