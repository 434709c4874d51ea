"""Journals of earlier versions of fedbandit are read for ever.

``journals/format-1-RECIPE`` were written before any record changed, by an agent that was killed at
60 s of running. In flight: a reward of 1 for arm 0; waiting: one for arm 1; pending: one for arm 2.
"never-shown" (arm 4) and "shown" (arm 5, since 30 s) were deferred, and only "shown" was activated;
"open" (arm 3) waits since 30 s; "pushed-out" was forgotten; three ids have their reward.
"""

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit.client.state.agent_state import Waiting
from fedbandit.client.state.journal import Journal, split
from fedbandit.client.state.records import FORMAT
from fedbandit.errors import InvalidState, SettledDecision
from tests.client.faults import Clock
from tests.client.twin import Twin, joined_to

D = 6
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=3, agents=4),
    "FSCLB.lean": fb.FSCLB(  # as it was then
        dimension=D,
        sketch_size="auto",
        agents=4,
        cadence="buffered",
        estimate="corrected",
        wire="int8",
        budget=150,
    ),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=4),
}
JOURNALS = Path(__file__).with_name("journals")


@pytest.mark.parametrize("name", RECIPES)
def test_an_agent_goes_on_from_a_journal_of_format_1(tmp_path: Path, name: str) -> None:
    shutil.copy(JOURNALS / f"format-1-{name}", tmp_path / "journal")
    twin, clock = Twin(RECIPES[name]), Clock()
    waiting = Waiting(wait=100.0, default=-2.0, clock=clock)
    twin.down = True
    with joined_to(twin, state_dir=tmp_path, waiting=waiting) as agent:
        status = agent.status()
        assert (status.open, status.pending, status.undelivered) == (3, 1, 2)
        for settled in ("settled-before", "waits", "paid", "pushed-out"):
            with pytest.raises(SettledDecision):
                agent.reward(settled, 1.0)
        agent.reward("open", 4.0)
        clock.now = 39.9  # 99.9 s after it began to run
        agent.sync(timeout=0.0)
        assert agent.status().open == 2
        clock.now = 40.0  # "never-shown" has waited since it was decided, at 0 s
        agent.sync(timeout=0.0)
        assert (agent.status().open, agent.status().forgotten) == (1, 1)
        clock.now = 70.0
        agent.sync(timeout=0.0)
        assert (agent.status().open, agent.status().defaults) == (0, 1)
        twin.down = False
        assert agent.sync(everything=True)
    assert twin.server.count == 5
    expected = np.array([1.0, 1.0, 1.0, 4.0, 0.0, -2.0])
    if name == "FSCLB.lean":  # corrects its moment for what the sketch leaves out
        assert_array_equal(np.sign(twin.server.moment), np.sign(expected))
    else:
        assert_array_equal(twin.server.moment, expected)


@pytest.mark.parametrize("number", [0, FORMAT + 1])
def test_a_journal_of_another_format_is_left_alone(tmp_path: Path, number: int) -> None:
    head, *rest = split((JOURNALS / "format-1-FSCLB").read_bytes())[0]
    tag, written, *fields = msgspec.msgpack.decode(head)
    assert (tag, written) == ("header", 1)
    changed = msgspec.msgpack.encode([tag, number, *fields])
    made = Journal.create(tmp_path / "j", [changed, *rest])
    made.rename(tmp_path / "journal")
    made.close()
    before = (tmp_path / "journal").read_bytes()
    with pytest.raises(InvalidState, match=f"of format {number}, not 1 to {FORMAT}"):
        joined_to(Twin(RECIPES["FSCLB"]), state_dir=tmp_path)
    assert (tmp_path / "journal").read_bytes() == before
