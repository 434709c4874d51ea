"""``fb.evaluate`` on logs whose truth is known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.errors import DataError, InvalidParameter
from fedbandit.features import Encoder
from fedbandit.logs import Event, LogWriter
from fedbandit.logs.records import Decided, LoggedAction
from fedbandit.offline import always, uniform
from fedbandit.offline.estimates import METHODS
from fedbandit.offline.policies import arms_of
from tests.offline import known_truth
from tests.offline.known_truth import D, draw

RECIPE = fb.FSCLB(dimension=D, sketch_size=D + 1, agents=1, radius=0.3)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return draw(np.random.default_rng(7), 3000).events()


def test_a_fixed_policy_is_found_by_every_method(events: list[Event]) -> None:
    found = fb.evaluate(events, known_truth.policy, level=0.999)
    for method in METHODS:
        estimate = found.of("policy", method)
        assert estimate.low <= known_truth.truth() <= estimate.high
    assert found.of("policy", "dr").verdict == "better"
    assert "It would have earned more." in found.sentence


def test_what_was_done_gains_nothing(events: list[Event]) -> None:
    def same(event: Event) -> known_truth.Array:
        assert event.arms is not None
        return known_truth.softmax(event.arms @ known_truth.TOWARDS)

    found = fb.evaluate(events, same)
    assert found.of("same", "ips").gain == pytest.approx(0.0, abs=1e-12)
    assert found.of("same", "snips").effective == pytest.approx(len(events))
    assert found.now.value == pytest.approx(np.mean([event.reward for event in events]))


def test_replay_of_a_learner_is_a_run_of_its_own_on_the_matches() -> None:
    """On uniform logs every match counts: by hand, the same agent sees the same rewards."""
    events = draw(np.random.default_rng(5), 1500, uniform=True).events()
    found = fb.evaluate(events, RECIPE).of("FSCLB", "replay")
    agent, server, rewards = RECIPE.agent(0), RECIPE.server(), []
    for event in events:
        assert event.arms is not None
        if agent.choose(event.arms) == event.chosen:
            rewards.append(event.reward)
            upload = agent.observe(event.arms[event.chosen], event.reward)
            for directed in [] if upload is None else server.receive(upload):
                agent.receive(directed.message)
    assert found.effective == pytest.approx(len(rewards))
    assert found.value == pytest.approx(np.mean(rewards))
    assert 0.2 < len(rewards) / len(events) < 0.3


LEARNER = fb.LinUCB(dimension=D, agents=1, radius=0.3)
EARNED = 0.6285
"""The mean of ``online(seed)`` over the seeds 10,000 to 13,999."""


def online(seed: int) -> float:
    """Return what the learner earns a decision when it decides itself, as long as in a replay."""
    rng = np.random.default_rng(seed)
    agent, rewards = LEARNER.agent(0), []
    for _ in range(rng.binomial(600, 1.0 / known_truth.K)):
        (arms,) = known_truth.drawn_arms(rng, 1)
        chosen = agent.choose(arms)
        rewards.append(float(rng.random() < known_truth.means(arms)[chosen]))
        agent.observe(chosen, rewards[-1])
    return float(np.mean(rewards))


def test_replay_intervals_of_a_learner_cover_what_it_earns_online() -> None:
    inside = []
    for seed in range(40):
        rows = draw(np.random.default_rng(seed), 600, uniform=True)
        estimate = fb.evaluate(rows.events(), LEARNER).of("LinUCB", "replay")
        inside.append(estimate.low <= EARNED <= estimate.high)
    assert np.mean(inside) >= 0.85
    assert np.mean([online(seed) for seed in range(50)]) == pytest.approx(EARNED, abs=0.02)


def test_the_best_is_picked_on_one_half_and_judged_on_the_other(events: list[Event]) -> None:
    found = fb.evaluate(events, {"chance": uniform, "good": known_truth.policy, "first": always(0)})
    assert found.best is not None
    assert found.best.among == 3
    assert found.best.outcome.name == "good"
    assert found.best.outcome.estimate.rows == len(events) // 2
    assert "best of 3 on the first half, judged on the second" in found.sentence


def test_a_radius_is_a_candidate_each(events: list[Event]) -> None:
    found = fb.evaluate(events[:600], RECIPE, radius=[0.1, 1.0])
    assert {each.name for each in found.outcomes} == {"FSCLB, radius 0.1", "FSCLB, radius 1"}
    text = json.dumps(found.plain(), allow_nan=False)
    assert json.loads(text)["sentence"] == found.sentence


def test_logs_without_chance_are_no_basis(events: list[Event]) -> None:
    certain = [
        Event(id=e.id, chosen=0, probability=1.0, reward=e.reward, arms=e.arms) for e in events
    ]
    found = fb.evaluate(certain, known_truth.policy)
    assert not any(each.estimate.enough for each in found.outcomes)
    assert "Nothing is concluded" in found.sentence
    assert "fb.Mixed" in found.sentence


def test_files_and_events_give_the_same(tmp_path: Path, events: list[Event]) -> None:
    log = LogWriter(tmp_path)
    for event in events[:500]:
        assert event.arms is not None
        log.decided(
            Decided(
                id=event.id,
                chosen=event.chosen,
                probability=event.probability,
                arms=event.arms.tolist(),
            )
        )
        log.rewarded(event.id, event.reward)
    log.close()
    calls: list[tuple[int, int]] = []
    one = fb.evaluate(tmp_path, RECIPE, progress=lambda *given: calls.append(given))
    other = fb.evaluate(events[:500], RECIPE)
    assert one.plain() == other.plain()


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, events: list[Event]) -> None:
    wrong = fb.FSCLB(dimension=3, sketch_size=2, agents=1)
    with pytest.raises(InvalidParameter, match=f"got dimension 3; expected {D}"):
        fb.evaluate(events, wrong)
    with pytest.raises(InvalidParameter, match=r"policy: got .* for event 0; expected 4 prob"):
        fb.evaluate(events, lambda _: np.ones(2))
    with pytest.raises(InvalidParameter, match="policies: got none"):
        fb.evaluate(events, {})
    LogWriter(tmp_path).close()
    with pytest.raises(DataError, match="got no events"):
        fb.evaluate(tmp_path, uniform)
    other = Event(id="odd", chosen=0, probability=1.0, reward=1.0, arms=np.ones((2, 3)))
    with pytest.raises(DataError, match="3 numbers an arm in event odd, 4 before"):
        fb.evaluate([*events[:10], other], uniform)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"probability": 0.0}, "event odd, probability: got 0.0"),
        ({"probability": float("nan")}, "event odd, probability: got nan"),
        ({"chosen": 4}, "event odd, chosen: got 4"),
        ({"chosen": -1}, "event odd, chosen: got -1"),
        ({"reward": float("inf")}, "event odd, reward: got inf"),
    ],
)
def test_events_that_make_no_sense_are_refused_by_name(
    events: list[Event], wrong: dict[str, float], said: str
) -> None:
    odd = replace(events[0], id="odd", **wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=said):
        fb.evaluate([*events[:10], odd], uniform)


def test_named_features_that_come_again_become_the_same_arms() -> None:
    recipe = fb.LinUCB(dimension=8, features=fb.Features({"price": "0..9"}))
    arms, encoder = arms_of(recipe), Encoder(recipe.parts.features, 8)
    for price in (1, 2, 1, True, 1.0):
        actions = [LoggedAction("a", {"price": price}), LoggedAction("b", {"price": 3})]
        event = Event(id="", chosen=0, probability=1.0, reward=0.0, context={}, actions=actions)
        features = [each.features for each in actions]
        found = arms(event)
        assert (found == encoder.encode_named({}, ["a", "b"], features).arms).all()
        assert arms(event) is found
        assert not found.flags.writeable
