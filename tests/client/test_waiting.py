"""How long a decision has waited, and that it is settled, is known over restarts."""

from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit.client.decisions import REMEMBERED
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.state.agent_state import Waiting
from fedbandit.client.state.journal import Journal, split
from fedbandit.client.state.records import Header, Settled, bytes_of, decode_all
from fedbandit.errors import DuplicateDecision, SettledDecision, UnknownDecision
from tests.client.faults import Clock, abandon, abandon_state
from tests.client.twin import Twin, joined_to, state_of

D = 6
LAZY = fb.FSCLB(dimension=D, sketch_size=3, agents=4, alpha=1e9)
WAIT = 20.0


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(2, 9), st.integers(0, 1000), st.booleans()), min_size=3, max_size=8
    )
)
def test_running_time_adds_up_over_restarts_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, bool]]
) -> None:
    place, twin, clock = tmp_path_factory.mktemp("state"), Twin(LAZY), Clock()
    waiting = Waiting(wait=WAIT, default=-2.0, clock=clock)
    ran = 0
    with joined_to(twin, state_dir=place, waiting=waiting) as agent:
        agent.decide(np.eye(D)[:1], id="never-paid")
    for seconds, booted, killed in runs:
        clock.now = float(booted)  # a clock of a machine that was started anew, say
        agent = joined_to(twin, state_dir=place, waiting=waiting)
        clock.now, ran = clock.now + seconds, ran + seconds  # and then looks at the time:
        agent.sync()
        assert agent.status().open == (ran < WAIT)
        abandon(agent) if killed else agent.close()
    with joined_to(twin, state_dir=place, waiting=waiting) as agent:
        agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [-2.0 * (ran >= WAIT)] + [0.0] * (D - 1))


def test_a_kill_costs_what_came_after_the_last_record(tmp_path: Path) -> None:
    twin, clock = Twin(LAZY), Clock()
    waiting = Waiting(wait=100.0, clock=clock)
    agent = joined_to(twin, state_dir=tmp_path, waiting=waiting)
    agent.decide(np.eye(D)[:1], id="early")
    agent.decide(np.eye(D)[1:2], id="deferred", defer=True)
    clock.now = 30.0
    agent.activate("deferred")
    clock.now = 60.0
    agent.decide(np.eye(D)[2:3], id="late")
    clock.now = 69.0  # too soon for another note
    agent.sync()
    abandon(agent)
    state = state_of(twin, state_dir=tmp_path, waiting=waiting)
    waited = {}
    while (oldest := state.log.oldest()) is not None:
        name, decision = oldest
        waited[name] = state.log.running_time - decision.since
        state.log.forget(name)
    assert waited == {"early": 60.0, "deferred": 30.0, "late": 0.0}
    state.close()


@pytest.mark.parametrize(
    ("wait", "between"), [(0.01, 1.0), (5.0, 1.0), (100.0, 10.0), (3600.0, 60.0), (1e9, 60.0)]
)
def test_the_running_time_is_noted_while_somebody_waits(
    tmp_path: Path, wait: float, between: float
) -> None:
    twin, clock = Twin(LAZY), Clock()
    state = state_of(twin, state_dir=tmp_path, waiting=Waiting(wait=wait, clock=clock))
    journal, sizes, pauses = tmp_path / "journal", [], []
    state.log.decide("waits", np.eye(D)[0], active=True, chosen=True)
    for now in (0.0, between * 0.75, between, between * 1.75, between * 2):
        clock.now = now
        pauses.append(state.log.write_running_time(every=Waiting(wait=wait).write_time_every))
        sizes.append(journal.stat().st_size)
    grown = [later > earlier for earlier, later in pairwise(sizes)]
    assert grown == [False, True, False, True]
    assert_array_equal(pauses, np.array([1.0, 0.25, 1.0, 0.25, 1.0]) * between)
    assert 0.0 < Delivery(state, twin).do_housekeeping() <= between
    state.close()


def test_no_note_where_nobody_waits(tmp_path: Path) -> None:
    twin, clock = Twin(LAZY), Clock()
    for waiting in (Waiting(clock=clock), Waiting(wait=5.0, clock=clock)):
        state = state_of(twin, state_dir=tmp_path, waiting=waiting)
        before = (tmp_path / "journal").read_bytes()
        clock.now += 1000.0
        Delivery(state, twin).do_housekeeping()
        assert (tmp_path / "journal").read_bytes() == before
        state.close()


@pytest.mark.parametrize("ending", ["closed", "killed", "rewritten and killed"])
def test_a_settled_id_is_settled_after_a_restart(tmp_path: Path, ending: str) -> None:
    twin = Twin(LAZY)
    agent = joined_to(twin, state_dir=tmp_path, max_open=2)
    for i, name in enumerate(("v0", "v1", "v2", "v3")):
        agent.decide(np.eye(D)[i : i + 1], id=name)  # v0 and v1 are pushed out
    agent.reward("v2", 1.0)
    for _ in range(3):
        agent.close() if ending == "closed" else abandon(agent)
        if "rewritten" in ending:
            state = state_of(twin, state_dir=tmp_path, max_open=2)
            state.log.rewrite()
            abandon_state(state)
        agent = joined_to(twin, state_dir=tmp_path, max_open=2)
        for name in ("v0", "v1", "v2"):
            with pytest.raises(SettledDecision, match="Give every reward once"):
                agent.reward(name, 1.0)
            with pytest.raises(DuplicateDecision):
                agent.decide(np.eye(D), id=name)
        with pytest.raises(UnknownDecision):
            agent.reward("v4", 1.0)
        assert agent.status().open == 1
    agent.reward("v3", 1.0)
    assert agent.sync(everything=True)
    agent.close()
    assert_array_equal(twin.server.moment, [0.0, 0.0, 1.0, 1.0] + [0.0] * (D - 4))


def test_the_latest_settled_ids_are_kept_and_no_more(tmp_path: Path) -> None:
    twin = Twin(LAZY)
    with joined_to(twin, state_dir=tmp_path) as agent:
        for i in range(REMEMBERED + 3):
            agent.decide(np.eye(D)[:1], id=f"v{i}")
            agent.reward(f"v{i}", 1.0)
    latest = [f"v{i}" for i in range(3, REMEMBERED + 3)]
    for _ in range(2):
        records = decode_all(split((tmp_path / "journal").read_bytes())[0])
        assert [each.ids for each in records if isinstance(each, Settled)] == [latest]
        with joined_to(twin, state_dir=tmp_path) as agent:
            for name in ("v3", f"v{REMEMBERED + 2}"):
                with pytest.raises(SettledDecision):
                    agent.reward(name, 1.0)
            with pytest.raises(UnknownDecision):
                agent.reward("v2", 1.0)
    with joined_to(twin, state_dir=tmp_path) as agent:
        agent.decide(np.eye(D)[:1], id="next")
        agent.reward("next", 1.0)
        with pytest.raises(UnknownDecision):
            agent.reward("v3", 1.0)


def test_a_journal_without_times_is_read_and_its_decisions_wait_from_then_on(
    tmp_path: Path,
) -> None:
    """Records as they were before they had times, made by hand."""
    twin, clock = Twin(LAZY), Clock()
    waiting = Waiting(wait=WAIT, default=3.0, clock=clock)
    joined_to(twin, state_dir=tmp_path).close()
    head, learned, *_ = split((tmp_path / "journal").read_bytes())[0]
    assert isinstance(next(decode_all([head])), Header)
    arms = [bytes_of(arm) for arm in np.eye(D)]
    old: list[list[object]] = [
        ["decided", "open", arms[0], True],
        ["decided", "shown", arms[1], False],
        ["activated", "shown"],
        ["decided", "paid", arms[2], True],
        ["rewarded", "paid", 7.0],
        ["decided", "given-up", arms[3], True],
        ["forgotten", "given-up"],
    ]
    made = Journal.create(tmp_path / "j", [head, learned, *map(msgspec.msgpack.encode, old)])
    made.rename(tmp_path / "journal")
    made.close()
    for start in (1000.0, 50.0):
        clock.now = start
        with joined_to(twin, state_dir=tmp_path, waiting=waiting) as agent:
            for name in ("paid", "given-up"):
                with pytest.raises(SettledDecision):
                    agent.reward(name, 1.0)
            clock.now = start + WAIT / 2 - 1.0
            agent.sync()
            assert agent.status().open == 2
    with joined_to(twin, state_dir=tmp_path, waiting=waiting) as agent:
        clock.now += 2.0
        agent.sync(everything=True)
        assert agent.status().open == 0
    assert_array_equal(twin.server.moment, [3.0, 3.0, 7.0] + [0.0] * (D - 3))
