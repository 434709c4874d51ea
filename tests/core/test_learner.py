"""A learner is an agent and a server in one; an agent whose uploads go nowhere says so."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.parts.choice import Uniform

ALONE: dict[str, dict[str, Any]] = {
    "FSCLB": {"sketch_size": 3},
    "FSCLB.lean": {},
    "FedLinUCB": {},
    "AsyncLinUCB": {},
    "DisLinUCB": {},
    "LinUCB": {},
    "Centralised": {},
    "SOFUL": {"sketch_size": 3},
    "CBSCFD": {"sketch_size": 3},
    "Random": {},
}


def rounds(n: int, seed: int = 0) -> list[fb.Round]:
    return list(fb.worlds.Synthetic(dimension=4, arms=3, agents=1, seed=seed).rounds(n))


@pytest.mark.parametrize("name", fb.RECIPES)
def test_it_plays_as_a_simulation_of_one_agent_does(name: str) -> None:
    recipe = fb.RECIPES[name](dimension=4, agents=1, **ALONE[name])
    world = fb.worlds.Synthetic(dimension=4, arms=3, agents=1, seed=0)
    trace, learner = fb.simulate(recipe, world, rounds=80), fb.Learner(recipe)
    for this, arm in zip(rounds(80), trace.arm, strict=True):
        assert learner.choose(this.arms) == arm
        learner.observe(int(arm), float(this.rewards[arm]))
    learns = not isinstance(recipe.parts.choice, Uniform)
    assert learner.count == (80 if learns else 0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 40), st.integers(0, 3))
def test_a_log_is_learned_as_row_by_row(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arms, paid = rng.standard_normal((rows + 1, 4)), rng.standard_normal(rows + 1)
    at_once, one_by_one = (
        fb.Learner(fb.FSCLB(dimension=4, sketch_size=3, agents=1)) for _ in range(2)
    )
    at_once.learn(arms, paid)
    for arm, reward in zip(arms, paid, strict=True):
        one_by_one.observe(arm, reward)
    np.testing.assert_array_equal(at_once.theta, one_by_one.theta)


def test_it_goes_on_from_a_saved_state_with_the_same_bits() -> None:
    recipe = fb.FSCLB(dimension=4, sketch_size=3, agents=1)
    learner = fb.Learner(recipe)
    for this in rounds(30):
        learner.observe(arm := learner.choose(this.arms), float(this.rewards[arm]))
    again = fb.Learner.restore(recipe, learner.state())
    for this in rounds(30, seed=1):
        for each in (learner, again):
            each.observe(arm := each.choose(this.arms), float(this.rewards[arm]))
        np.testing.assert_array_equal(learner.theta, again.theta)
    assert learner.count == again.count == 60


def test_top_ranks_by_estimated_reward_and_keeps_the_last_choice() -> None:
    learner = fb.Learner(fb.LinUCB(dimension=2))
    learner.learn([[1.0, 0.0]] * 50 + [[0.0, 1.0]] * 50, [1.0] * 50 + [0.2] * 50)
    learner.choose([[1.0, 0.0], [0.0, 1.0]])
    assert learner.top([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], 3).tolist() == [1, 0, 3]
    learner.observe(1, 0.2)  # still an index into the two arms of choose
    with pytest.raises(fb.errors.InvalidParameter, match="count"):
        learner.top([[0.0, 1.0]], 2)


def test_a_log_that_is_wrong_is_not_learned_in_part() -> None:
    learner = fb.Learner(fb.LinUCB(dimension=2))
    for arms, paid in [
        ([[1.0, 0.0]], [1.0, 2.0]),
        ([[1.0, 0.0], [0.0, 1.0]], [1.0, float("nan")]),
        ([[1.0, 0.0], [0.0, float("inf")]], [1.0, 2.0]),
    ]:
        with pytest.raises(fb.errors.LocalError):
            learner.learn(arms, paid)
    assert learner.count == 0


def test_a_recipe_for_more_agents_is_refused() -> None:
    with pytest.raises(fb.errors.InvalidParameter, match="agents=1"):
        fb.Learner(fb.FSCLB(dimension=4, sketch_size=3, agents=2))


def play(agent: fb.Agent, keep: bool) -> None:
    for this in rounds(60):
        upload = agent.observe(arm := agent.choose(this.arms), float(this.rewards[arm]))
        if upload is not None and keep:
            agent.keep(upload)


def test_uploads_that_are_thrown_away_are_warned_of_once() -> None:
    agent = fb.FSCLB(dimension=4, sketch_size=3, agents=1).agent(0)
    with pytest.warns(fb.errors.NothingLearned, match="Learner") as caught:
        play(agent, keep=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not agent.theta.any()


def test_agents_that_learn_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(fb.FSCLB(dimension=4, sketch_size=3, agents=1).agent(0), keep=True)
        play(fb.AsyncLinUCB(dimension=4, agents=1).agent(0), keep=False)
