"""Deciding and rewarding: what is chosen, what is counted, what is refused."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.connecting import Durability
from fedbandit.client.state.agent_state import Waiting
from fedbandit.errors import (
    Closed,
    DuplicateDecision,
    InvalidArms,
    InvalidParameter,
    InvalidReward,
    SettledDecision,
    UnknownDecision,
    Unreachable,
)
from tests.client.faults import Clock, eventually, stop_thread
from tests.client.twin import LIMITS, Twin, joined_to

D = 6
RECIPE = fb.FSCLB(dimension=D, sketch_size=3, agents=4, radius=0.7)
LAZY = fb.FSCLB(dimension=D, sketch_size=3, agents=4, alpha=1e9)


def taught(twin: Twin) -> np.random.Generator:
    """Teach the twin something; return the stream that was used."""
    rng = np.random.default_rng(1)
    with joined_to(twin) as agent:
        for _ in range(30):
            arms = rng.standard_normal((4, D))
            decision = agent.decide(arms)
            agent.reward(decision.id, float(arms[decision.index, 0]))
    return rng


def test_a_decision_is_the_papers_rule_on_the_download() -> None:
    twin = Twin(RECIPE)
    rng = taught(twin)
    with joined_to(twin) as agent:
        sketch = twin.server.summary
        assert isinstance(sketch, fb.Sketch)
        V = (1.0 + sketch.shed) * np.eye(D) + sketch.rows.T @ sketch.rows
        inverse = np.linalg.inv(V)
        for _ in range(20):
            arms = rng.standard_normal((5, D))
            decision = agent.decide(arms)
            bonus = 0.7 * np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))
            mean = arms @ inverse @ twin.server.moment
            np.testing.assert_allclose(decision.mean, mean, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(decision.bonus, bonus, rtol=1e-8)
            assert decision.index == np.argmax(mean + bonus)


def test_ids_differ_and_rewards_find_their_decision_in_any_order() -> None:
    twin = Twin(LAZY)
    with joined_to(twin) as agent:
        made = [agent.decide(np.eye(D)[i : i + 1]) for i in range(D)]
        assert len({decision.id for decision in made}) == D
        for i in (3, 0, 5, 1, 4, 2):
            agent.reward(made[i].id, 10.0 + i)
        assert agent.sync(everything=True)
    np.testing.assert_array_equal(twin.server.moment, 10.0 + np.arange(D))
    assert twin.server.count == D


def test_a_reward_is_counted_once() -> None:
    twin = Twin(LAZY)
    with joined_to(twin) as agent:
        decision = agent.decide(np.eye(D))
        agent.reward(decision.id, 1.0)
        with pytest.raises(SettledDecision, match="Give every reward once"):
            agent.reward(decision.id, 1.0)
        with pytest.raises(UnknownDecision, match="'nobody'"):
            agent.reward("nobody", 1.0)
        assert agent.status().pending == 1


def soon_rewarded(agent: fb.ConnectedAgent, decision: str) -> None:
    """Reward it, as soon as the background thread is not learning."""
    while not agent.reward_at_once(decision, 1.0):
        time.sleep(0.001)


def test_a_reward_at_once_is_the_same_reward(tmp_path: Path) -> None:
    twins = Twin(LAZY), Twin(LAZY)
    for twin, at_once in zip(twins, (False, True), strict=True):
        rng = np.random.default_rng(2)
        with joined_to(twin, state_dir=tmp_path / str(at_once)) as agent:
            for _ in range(20):
                decision = agent.decide(rng.standard_normal((4, D)))
                value = float(rng.normal())
                if not at_once:
                    agent.reward(decision.id, value)
                while at_once and not agent.reward_at_once(decision.id, value):
                    time.sleep(0.001)  # the background thread was just learning
            with pytest.raises(SettledDecision):
                soon_rewarded(agent, decision.id)
            assert agent.status().rewards == 20
            assert agent.sync(everything=True)
    np.testing.assert_array_equal(twins[0].server.moment, twins[1].server.moment)


def test_a_reward_that_would_wait_for_the_disk_is_not_given_at_once(tmp_path: Path) -> None:
    with joined_to(Twin(LAZY), state_dir=tmp_path, durability="machine") as agent:
        decision = agent.decide(np.eye(D))
        assert not agent.reward_at_once(decision.id, 1.0)
        assert (agent.status().open, agent.status().rewards) == (1, 0)
        agent.reward(decision.id, 1.0)
        assert (agent.status().open, agent.status().rewards) == (0, 1)


def test_a_reward_that_would_wait_for_another_thread_is_not_given_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushing, go_on, flush = Event(), Event(), os.fsync

    def slow_disk(handle: int) -> None:
        flushing.set()
        assert go_on.wait(30.0)
        flush(handle)

    with joined_to(Twin(LAZY), state_dir=tmp_path) as agent:
        first, second = agent.decide(np.eye(D)), agent.decide(np.eye(D))
        agent.reward(first.id, 1.0)
        with monkeypatch.context() as patched, ThreadPoolExecutor() as threads:
            patched.setattr(os, "fsync", slow_disk)
            delivering = threads.submit(agent.sync, everything=True)
            assert flushing.wait(30.0)
            assert not agent.reward_at_once(second.id, 1.0)
            go_on.set()
            assert delivering.result()
        assert agent.status().rewards == 1
        agent.reward(second.id, 1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, "x", "1", None, 1e9])
def test_a_bad_reward_changes_nothing(value: float) -> None:
    with joined_to(Twin(LAZY)) as agent:
        decision = agent.decide(np.eye(D))
        with pytest.raises(InvalidReward):
            agent.reward(decision.id, value)
        assert (agent.status().open, agent.status().pending) == (1, 0)
        agent.reward(decision.id, 1.0)


@pytest.mark.parametrize(
    "arms", [np.eye(D + 1), np.zeros((0, D)), np.full((2, D), np.nan), 1e7 * np.eye(D), "arms"]
)
def test_bad_arms_open_nothing(arms: np.typing.ArrayLike) -> None:
    with joined_to(Twin(RECIPE)) as agent:
        with pytest.raises(InvalidArms):
            agent.decide(arms)
        assert (agent.status().open, agent.status().decisions) == (0, 0)


def test_ids_of_the_callers_own() -> None:
    with joined_to(Twin(LAZY)) as agent:
        assert agent.decide(np.eye(D), id="event-1").id == "event-1"
        with pytest.raises(DuplicateDecision, match="not used before"):
            agent.decide(np.eye(D), id="event-1")
        agent.reward("event-1", 1.0)
        with pytest.raises(DuplicateDecision, match="not used before"):
            agent.decide(np.eye(D), id="event-1")
        for good in ("...", "..a", ".x", "~."):
            agent.decide(np.eye(D), id=good)
        for bad in ("", "a b", "x" * 129, "a/b", "ä", ".", "..", "..\n"):
            with pytest.raises(InvalidParameter, match="letters, digits"):
                agent.decide(np.eye(D), id=bad)


def test_what_is_never_paid_gets_the_default() -> None:
    twin, clock = Twin(LAZY), Clock()
    waiting = Waiting(wait=10.0, default=-2.0, clock=clock)
    with joined_to(twin, waiting=waiting) as agent:
        first = agent.decide(np.eye(D)[:1])
        clock.now = 6.0
        second = agent.decide(np.eye(D)[1:2])
        clock.now = 9.9
        agent.sync()
        assert agent.status().open == 2
        clock.now = 10.0
        agent.sync()
        assert agent.status().open == 1
        with pytest.raises(SettledDecision):
            agent.reward(first.id, 5.0)
        agent.reward(second.id, 5.0)
        agent.sync(everything=True)
    np.testing.assert_array_equal(twin.server.moment, [-2.0, 5.0, 0, 0, 0, 0])


def test_without_a_default_what_is_never_paid_teaches_nothing() -> None:
    twin, clock = Twin(LAZY), Clock()
    with joined_to(twin, waiting=Waiting(wait=1.0, default=None, clock=clock)) as agent:
        agent.decide(np.eye(D))
        clock.now = 2.0
        agent.sync(everything=True)
        assert (agent.status().open, agent.status().forgotten) == (0, 1)
        assert agent.status().defaults == 0
    assert twin.server.count == 0


def test_the_thread_itself_settles_what_was_not_paid() -> None:
    twin = Twin(LAZY)
    with joined_to(twin, waiting=Waiting(wait=0.05, default=1.0)) as agent:
        agent.decide(np.eye(D)[:1])
        assert eventually(lambda: agent.status().pending == 1)


def test_deferred_decisions_count_once_activated_or_paid() -> None:
    twin, clock = Twin(LAZY), Clock()
    with joined_to(twin, waiting=Waiting(wait=10.0, default=3.0, clock=clock)) as agent:
        for i, name in enumerate(("never", "shown", "paid")):
            agent.decide(np.eye(D)[i : i + 1], id=name, defer=True)
        clock.now = 9.0
        agent.activate("shown")
        agent.activate("shown")
        agent.reward("paid", 7.0)
        clock.now = 10.0
        agent.sync()
        assert (agent.status().open, agent.status().forgotten) == (1, 1)
        with pytest.raises(SettledDecision):
            agent.activate("never")
        clock.now = 19.0
        agent.sync(everything=True)
        status = agent.status()
        assert (status.rewards, status.defaults, status.forgotten) == (1, 1, 1)
    np.testing.assert_array_equal(twin.server.moment, [0.0, 3.0, 7.0, 0, 0, 0])


def test_too_many_open_decisions_push_out_the_oldest() -> None:
    with joined_to(Twin(LAZY), max_open=3) as agent:
        made = [agent.decide(np.eye(D)) for _ in range(5)]
        assert (agent.status().open, agent.status().forgotten) == (3, 2)
        for decision in made[:2]:
            with pytest.raises(SettledDecision, match="given up"):
                agent.reward(decision.id, 1.0)
        for decision in made[2:]:
            agent.reward(decision.id, 1.0)
        assert agent.status().pending == 3


@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("saved", [False, True])
def test_many_threads(tmp_path: Path, saved: bool, durability: Durability) -> None:
    d, threads, each = 40, 4, 10
    twin = Twin(fb.FSCLB(dimension=d, sketch_size=3, agents=4))
    place = tmp_path if saved else None
    with joined_to(twin, state_dir=place, durability=durability) as agent:

        def work(thread: int) -> None:
            for i in range(thread * each, thread * each + each):
                decision = agent.decide(np.eye(d)[i : i + 1])
                agent.reward(decision.id, 1.0 + i)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        assert agent.sync(everything=True)
        assert agent.status().rewards == agent.status().decisions == d
    np.testing.assert_array_equal(twin.server.moment, 1.0 + np.arange(d))


def test_after_close_nothing_more() -> None:
    agent = joined_to(Twin(RECIPE))
    assert agent.close()
    assert agent.close()
    with pytest.raises(Closed, match="Connect again"):
        agent.decide(np.eye(D))
    with pytest.raises(Closed):
        agent.reward("x", 1.0)


def test_uploads_stand_for_no_more_than_the_coordinator_takes() -> None:
    limits = wire.Limits(arm_norm=LIMITS.arm_norm, reward=LIMITS.reward, count=7)
    twin = Twin(LAZY, limits=limits)
    with joined_to(twin) as agent:
        twin.down = True
        for _ in range(30):
            agent.reward(agent.decide(np.eye(D)[:1]).id, 1.0)
        assert agent.status().undelivered == 28
        twin.down = False
        assert agent.sync()
        assert agent.status().uploads == 4
    assert (twin.server.count, twin.server.version) == (30, 5)


def test_what_the_coordinator_would_refuse_is_refused_here() -> None:
    limits = wire.Limits(arm_norm=2.0, reward=3.0, count=100)
    twin = Twin(LAZY, limits=limits)
    with pytest.raises(InvalidParameter, match="default_reward"):
        joined_to(twin, waiting=Waiting(wait=1.0, default=3.5))
    twin.down = True
    with joined_to(twin, recipe=LAZY) as agent:  # it does not know the limits yet
        early = agent.decide(2.5 * np.eye(D)[:1])
        twin.down = False
        assert agent.sync()
        with pytest.raises(InvalidArms, match=r"length 2\.5"):
            agent.reward(early.id, 1.0)
        with pytest.raises(InvalidArms, match=r"length 2\.5"):
            agent.decide(2.5 * np.eye(D)[:1])
        fine = agent.decide(2.0 * np.eye(D)[:1])
        with pytest.raises(InvalidReward, match=r"at most 3\.0"):
            agent.reward(fine.id, -3.1)
        agent.reward(fine.id, -3.0)
        assert agent.sync(everything=True)
    assert twin.server.count == 1


def test_a_thread_that_has_ended_is_told() -> None:
    agent = joined_to(Twin(LAZY))
    stop_thread(agent)
    assert "has ended" in str(agent.status().trouble)
    assert not agent.sync(everything=True, timeout=5.0) or agent.status().pending == 0
    agent.close(timeout=0.01)


def test_no_first_connection_without_a_coordinator_or_a_recipe() -> None:
    twin = Twin(RECIPE)
    twin.down = True
    with pytest.raises(Unreachable):
        joined_to(twin)
    with joined_to(twin, recipe=RECIPE) as agent:
        agent.reward(agent.decide(np.eye(D)).id, 1.0)
        twin.down = False
        assert agent.sync(everything=True)
    assert twin.server.count == 1


@pytest.mark.parametrize("recipe", [fb.LinUCB(dimension=2), fb.DisLinUCB(dimension=2, agents=2)])
def test_recipes_that_cannot_be_answered_one_by_one(recipe: fb.Recipe) -> None:
    with pytest.raises(InvalidParameter, match="FSCLB or FedLinUCB"):
        joined_to(Twin(recipe), recipe=recipe)
