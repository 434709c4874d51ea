"""What shadow mode says is true, and it says what it rests on."""

import numpy as np
import pytest

from fedbandit.offline.shadow import BLOCK, BLOCKS, Seen, Shadow, ShadowScore, shadow_of
from tests.offline.known_truth import K, Rows, draw, logged_truth, truth


def scored(rows: Rows, *, certain: bool = False) -> ShadowScore:
    """Score the policy to be judged, as an agent that expects 0.5 of everything."""
    score, flat = ShadowScore(), np.full(K, 0.5)
    for i, reward in enumerate(rows.reward.tolist()):
        probability = 1.0 if certain else float(rows.probability[i])
        seen = Seen.of(int(rows.chosen[i]), probability, rows.target[i], flat, 0.1 * np.ones(K))
        score.decided(f"{i}", seen)
        score.rewarded(f"{i}", reward)
    return score


def test_intervals_of_the_gain_cover_the_truth() -> None:
    gain, inside = truth() - logged_truth(), []
    for seed in range(40):
        found = scored(draw(np.random.default_rng(seed), 800)).report()
        assert found.basis == "weights"
        inside.append(found.gain_low <= gain <= found.gain_high)
    assert np.mean(inside) >= 0.85


def test_without_chance_it_rests_on_the_model_and_says_so() -> None:
    rows = draw(np.random.default_rng(0), 800)
    found = scored(rows, certain=True).report()
    assert found.basis == "model"
    assert "its own model's word" in found.sentence
    otherwise = 1.0 - rows.target[np.arange(800), rows.chosen]
    assert found.gain_high - found.gain_low > 2 * 0.1 * otherwise.mean()


@pytest.mark.parametrize("rows", [0, 1, 99])
def test_too_little_is_not_safe(rows: int) -> None:
    found = scored(draw(np.random.default_rng(0), rows)).report()
    assert (found.basis, found.safe, found.gain) == ("none", False, 0.0)
    assert found.rewarded == rows
    assert "Too little to tell" in found.sentence


def test_an_agent_that_does_the_same_is_safe() -> None:
    score, same = ShadowScore(), np.array([1.0, 0.0])
    for i in range(200):
        score.decided(f"{i}", Seen.of(0, 1.0, same, np.array([0.3, 0.6]), np.ones(2)))
        score.rewarded(f"{i}", float(i % 2))
    found = score.report()
    assert (found.agreement, found.gain, found.gain_low, found.safe) == (1.0, 0.0, 0.0, True)


def test_memory_is_bounded_and_rewards_of_others_are_ignored() -> None:
    score, seen = ShadowScore(most=10), Seen(1.0, 1.0, 0.5, 0.5, 0.0)
    for i in range(20):
        score.decided(f"{i}", seen)
    for i in range(20):
        score.rewarded(f"{i}", 1.0)
    score.rewarded("another", 1.0)
    assert (score.report().decisions, score.report().rewarded) == (20, 10)
    for i in range(BLOCK * BLOCKS + 700):
        score.decided(f"{i}", seen)
        score.rewarded(f"{i}", float(i >= 700))
    assert score.report().baseline > 0.99


def test_a_log_says_the_same_but_for_the_models_doubt() -> None:
    rows = draw(np.random.default_rng(2), 500)
    events = [
        type(event)(
            id=event.id,
            chosen=event.chosen,
            probability=event.probability,
            reward=event.reward,
            arms=event.arms,
            own=rows.target[i],
            means=np.full(K, 0.5),
        )
        for i, event in enumerate(rows.events())
    ]
    assert shadow_of(events) == scored(rows).report()
    assert shadow_of(rows.events()) == Shadow()
