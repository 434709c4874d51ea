"""Thompson sampling draws from the law that it names, and probabilities are frequencies."""

import json
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.identity import told_params
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.reading import LossyGramReading, LossyReading
from fedbandit.core.memory.reading import GramReading, SketchReading
from fedbandit.core.parts.drawn import choice_of, plain

D = 6
KINDS: dict[str, fb.Recipe] = {
    "sketch": fb.FSCLB(dimension=D, sketch_size=4, agents=1, radius=0.7),
    "narrow sketch": fb.FSCLB(dimension=D, sketch_size=4, agents=1, wire="int8", radius=0.7),
    "corrected sketch": fb.FSCLB(dimension=D, sketch_size=3, agents=1, estimate="corrected"),
    "uncompensated sketch": fb.SOFUL(dimension=D, sketch_size=4),
    "gram": fb.FedLinUCB(dimension=D, agents=1),
    "triangle": fb.FedLinUCB(dimension=D, agents=1, wire="int8"),
    "own gram": fb.LinUCB(dimension=D),
    "lossy": fb.FSCLB.lean(dimension=D, agents=1, sketch_size=3, radius=0.7),
    "lossy, at the server": fb.FSCLB.lean(dimension=D, agents=1, radius=0.7),
}
every_kind = pytest.mark.parametrize("recipe", KINDS.values(), ids=KINDS)
seeds = st.integers(0, 2**32 - 1)


def learned(recipe: fb.Recipe, seed: int, rounds: int = 25) -> tuple[fb.Agent, Any]:
    """An agent of the recipe after some observations, and the reading of its server."""
    agent, server, rng = recipe.agent(0), recipe.server(), np.random.default_rng(seed)
    for x in rng.standard_normal((rounds, D)):
        upload = agent.observe(x, float(rng.standard_normal()))
        for answer in server.receive(upload) if upload is not None else ():
            agent.receive(answer.message)
    memory = recipe.parts.memory
    return agent, memory.read(server.statistics.summary)


def matrix_of(reading: Any) -> Array:
    """V in full, from what the reading is made of, not by its methods."""
    match reading:
        case GramReading():
            return np.asarray(np.linalg.inv(reading.inverse))
        case SketchReading():
            return reading.rows.T @ reading.rows + reading.ridge * np.eye(D)
        case LossyReading():
            added = np.diag(reading.base_ridge + reading.bound)
            return reading.weight * reading.rows.T @ reading.rows + added
        case LossyGramReading():
            return reading.weight * reading.matrix + np.diag(reading.base_ridge + reading.bound)
    raise AssertionError(reading)


@every_kind
@settings(max_examples=15)
@given(seed=seeds, many=st.integers(1, 2 * D))
def test_whitened_arms_have_the_products_of_the_inverse(
    recipe: fb.Recipe, seed: int, many: int
) -> None:
    agent, at_server = learned(recipe, seed)
    arms = np.random.default_rng(seed).standard_normal((many, D))
    for reading in (agent.policy.reading, at_server):
        made = reading.whitened(arms)
        expected = arms @ np.linalg.solve(matrix_of(reading), arms.T)
        np.testing.assert_allclose(made @ made.T, expected, rtol=1e-8, atol=1e-10)


@every_kind
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(recipe: fb.Recipe) -> None:
    """The scores of the unit vectors are theta itself: 4,000 of them, from as many decisions."""
    agent, _ = learned(recipe, 5)
    policy, rule, n = agent.policy, fb.Thompson(1.7, seed=2), 4000
    thetas = np.array([rule.scores(policy, np.eye(D), 3, number) for number in range(n)])
    covariance = (1.7 * policy.radius) ** 2 * np.linalg.inv(matrix_of(policy.reading))
    whiten = np.linalg.cholesky(np.linalg.inv(covariance)).T
    z = (thetas - policy.theta) @ whiten.T  # standard normal, if the law is the one it names
    assert np.abs(z.mean(axis=0)).max() < 5 / sqrt(n)
    sampled = z.T @ z / n
    assert np.abs(sampled - np.eye(D)).max() < 5 * sqrt(2 / n)


@pytest.mark.parametrize(
    "rule", [fb.Thompson(2.0), fb.Mixed(0.2, over=fb.Thompson(2.0)), fb.Mixed(0.2, seed=4)]
)
def test_probabilities_are_the_frequencies_of_decisions(rule: fb.Thompson | fb.Mixed) -> None:
    agent, _ = learned(KINDS["sketch"], 1)
    arms, n = np.random.default_rng(0).standard_normal((4, D)), 4000
    chosen = [rule.choose(agent.policy, arms, 0, number) for number in range(n)]
    frequencies = np.bincount([each.arm for each in chosen], minlength=4) / n
    told = rule.probabilities(agent.policy, chosen[0], 0, 0)
    room = 5 * np.sqrt(told * (1 - told) * (1 / n + (not rule.exact) / 1000)) + 2e-3
    assert (np.abs(frequencies - told) < room).all()


def test_a_scale_of_zero_is_greedy_and_ties_go_to_the_first() -> None:
    agent, _ = learned(KINDS["gram"], 1)
    arms = np.random.default_rng(0).standard_normal((4, D))
    rule = fb.Thompson(0.0)
    chosen = rule.choose(agent.policy, arms, 0, 0)
    assert chosen.arm == int(np.argmax(arms @ agent.policy.theta))
    assert rule.probabilities(agent.policy, chosen, 0, 0)[chosen.arm] == 1.0
    same = fb.Thompson().choose(agent.policy, np.ones((3, D)), 0, 0)
    assert same.arm == 0
    told = fb.Thompson().probabilities(agent.policy, same, 0, 0)
    np.testing.assert_array_equal(told, [1.0, 0.0, 0.0])


def test_other_seeds_agents_and_decisions_draw_otherwise() -> None:
    agent, _ = learned(KINDS["sketch"], 1)
    first = fb.Thompson().scores(agent.policy, np.eye(D), 0, 0)
    for rule, who, number in ((fb.Thompson(seed=1), 0, 0), (fb.Thompson(), 1, 0)):
        assert (rule.scores(agent.policy, np.eye(D), who, number) != first).all()
    assert (fb.Thompson().scores(agent.policy, np.eye(D), 0, 1) != first).all()
    np.testing.assert_array_equal(fb.Thompson().scores(agent.policy, np.eye(D), 0, 0), first)


@pytest.mark.parametrize(
    ("rule", "as_json"),
    [
        ("ucb", "ucb"),
        ("thompson", "thompson"),
        (fb.Thompson(), "thompson"),
        (fb.Thompson(scale=2), {"rule": "thompson", "scale": 2.0}),
        (fb.Mixed(0.1), {"rule": "mixed", "epsilon": 0.1}),
        (fb.Mixed(0.1, over="thompson"), {"rule": "mixed", "epsilon": 0.1, "over": "thompson"}),
    ],
)
def test_a_choice_is_part_of_the_recipe_and_its_json(rule: Any, as_json: Any) -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=3, agents=2, choice=rule)
    assert recipe.params["choice"] == as_json
    again = fb.RECIPES["FSCLB"](**json.loads(json.dumps(recipe.params)))
    assert again == recipe
    assert again.parts.choice == recipe.parts.choice == choice_of(as_json)
    assert plain(choice_of(as_json)) == as_json
    assert ("choice" in recipe.identity) == (as_json != "ucb")


def test_agents_from_before_there_were_choices_can_build_what_they_are_told() -> None:
    default = fb.FedLinUCB(dimension=D, agents=2)
    assert "choice" not in told_params(default)
    assert fb.FedLinUCB(**told_params(default)) == default
    drawn = fb.FedLinUCB(dimension=D, agents=2, choice="thompson")
    assert fb.FedLinUCB(**told_params(drawn)) == drawn


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("thomson", "Did you mean 'thompson'"),
        (3, "fb.Thompson"),
        ({"rule": "thompson", "scal": 1.0}, "scale"),
        ({"rule": "mixed"}, "fb.Mixed"),
        ({"rule": "mixed", "epsilon": 2.0}, "epsilon"),
        ({"rule": "mixed", "epsilon": 0.1, "over": {"rule": "mixed", "epsilon": 0.1}}, "Mix once"),
        ({"rule": "thompson", "scale": -1.0}, "scale"),
        ({"rule": "thompson", "seed": -1}, "seed"),
    ],
)
def test_choices_that_do_not_exist_are_refused(rule: Any, said: str) -> None:
    with pytest.raises(fb.errors.FedbanditError, match=said):
        fb.FSCLB(dimension=D, sketch_size=3, agents=2, choice=rule)


def test_the_probability_of_an_estimate_is_gone_once_something_else_was_learned() -> None:
    agent = fb.LinUCB(dimension=D, choice="thompson").agent(0)
    agent.observe(agent.choose(np.eye(3, D)), 1.0)
    assert agent.probability is None
    agent.choose(np.eye(3, D))
    first = agent.probability
    assert first is not None
    assert 0.0 < first < 1.0
    assert agent.probability == first
