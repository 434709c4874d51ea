"""An explanation adds up to the score that decided, and says truly what the runner-up lacks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedbandit as fb
from fedbandit.client.decisions import Decision
from fedbandit.client.explaining import explain
from fedbandit.core.statistics import Base
from fedbandit.core.weights import inverse_diagonal, noise_of, weights_of
from fedbandit.errors import InvalidParameter
from tests.client.twin import Twin, joined_to

D = 24
CHOICES: dict[str, Any] = {
    "ucb": "ucb",
    "thompson": fb.Thompson(0.7),
    "mixed": fb.Mixed(0.4),
    "mixed thompson": fb.Mixed(0.4, over="thompson"),
}
words = st.sampled_from(["a", "b", "c"])
row = st.fixed_dictionaries({"kind": words, "size": st.floats(-2, 2)})


def taught(agent: fb.ConnectedAgent, rng: np.random.Generator) -> None:
    """Let it learn something, by name and by numbers."""
    for _ in range(15):
        kind, size = str(rng.choice(["a", "b", "c"])), float(rng.standard_normal())
        decision = agent.decide(context={"hour": "9"}, actions=[{"kind": kind, "size": size}])
        agent.reward(decision.id, (kind == "b") + 0.3 * size)
    assert agent.sync(everything=True)


def check(decision: Decision) -> None:
    told = explain(decision)
    assert sum(each.value for each in told.contributions) == pytest.approx(told.mean, abs=1e-9)
    assert told.mean == pytest.approx(decision.mean[decision.index])
    assert told.mean + told.added == pytest.approx(told.score)
    assert (told.index, told.action) == (decision.index, decision.action)
    other = told.runner_up
    assert other is not None
    assert other.index != told.index
    gains = {each.name: each.value for each in other.differences}
    assert sum(gains.values()) == pytest.approx(other.gap, abs=1e-9)
    assert told.score - other.score == pytest.approx(other.gap, abs=1e-9)
    assert told.by_chance or told.by_baseline or other.gap > -1e-6
    if other.gap > 0:  # with as much from these it wins, and not with one of them less
        assert sum(gains[name] for name in other.would_win) >= other.gap - 1e-9
        assert sum(gains[name] for name in other.would_win[:-1]) < other.gap + 1e-9
    assert str(told).count("\n") >= 2


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_explanations_add_up(choice: Any) -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=16, agents=2, alpha=1e9, choice=choice)
    rng = np.random.default_rng(1)
    with joined_to(Twin(recipe)) as agent:
        taught(agent, rng)

        @settings(max_examples=25, deadline=None)
        @given(actions=st.lists(row, min_size=2, max_size=5))
        def named(actions: Any) -> None:
            check(agent.decide(context={"hour": "9"}, actions=actions))

        named()
        arms = rng.standard_normal((5, D)) / 5
        for arms_given in (arms, sparse.csr_array(arms)):
            check(agent.decide(arms_given, exclude=[1], top=2))
        shadowed = agent.decide(arms, baseline=3)
        check(shadowed)
        assert agent.explain(shadowed).by_baseline
        alone = agent.explain(agent.decide(arms[:1]))
        assert alone.runner_up is None
        assert alone.contributions[0].name.startswith("feature ")


def test_how_often_chance_decided_is_told() -> None:
    recipe = fb.FedLinUCB(dimension=D, agents=1, choice=fb.Mixed(0.4))
    with joined_to(Twin(recipe)) as agent:
        drawn = [agent.explain(agent.decide(np.eye(3, D))).by_chance for _ in range(500)]
    assert 0.3 < np.mean(drawn) < 0.5


def test_only_a_decision_can_be_explained() -> None:
    with pytest.raises(InvalidParameter, match="decide returned"):
        explain("x")  # type: ignore[arg-type]


def test_the_weights_of_a_made_world_are_found_in_order() -> None:
    """Words pay 0.8, 0.4, -0.2 and -0.7, whatever else there is; every arm is the word alone."""
    truth = {"kind=w": 0.8, "kind=x": 0.4, "kind=y": -0.2, "kind=z": -0.7}
    recipe = fb.FSCLB.lean(dimension=128, agents=1, features=fb.Features(interactions="none"))
    rng = np.random.default_rng(0)
    with joined_to(Twin(recipe)) as agent:
        assert next(each.name for each in agent.weights()).startswith("feature")
        for _ in range(300):
            word = str(rng.choice(list("wxyz")))
            decision = agent.decide(actions=[{"kind": word}])
            noise = 0.1 * float(rng.standard_normal())
            agent.reward(decision.id, truth[f"kind={word}"] + noise)
        assert agent.sync(everything=True)
        found = {each.name: each for each in agent.weights()}
        constant = found["(constant)"]
        order = sorted(truth, key=lambda name: -found[name].weight)
        assert order == list(truth)
        for name in truth:
            each = found[name]
            assert not each.shared
            assert each.low < each.weight < each.high
            assert each.unknown < 0.3  # constant and words together are known to be one too many
            pays = (each.weight + constant.weight) / np.sqrt(2.0)  # arms have length 1
            assert pays == pytest.approx(truth[name], abs=0.05)
        assert agent.theta.shape == (128,)


@pytest.mark.parametrize(
    "recipe",
    [
        fb.FedLinUCB(dimension=8, agents=1),
        fb.FSCLB(dimension=8, sketch_size=9, agents=1, radius="auto"),
    ],
    ids=["a matrix", "a sketch that keeps all"],
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(recipe: fb.Recipe) -> None:
    hits = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(8)
        server, agent = recipe.server(), recipe.agent(0)
        for x in rng.standard_normal((200, 8)):
            upload = agent.observe(x, float(x @ theta + rng.standard_normal()))
            for answer in server.receive(upload) if upload is not None else ():
                agent.receive(answer.message)
        server.receive(agent.collect())
        base = Base(server.statistics, recipe.parts.memory)
        np.testing.assert_allclose(
            inverse_diagonal(base.reading, 8),
            [base.reading.solve(unit)[j] for j, unit in enumerate(np.eye(8))],
        )
        assert noise_of(base) == pytest.approx(1.0, abs=0.2)
        made = weights_of(base.reading, base.theta, ridge=1.0, noise=noise_of(base), radius=1.0)
        truth = {f"feature {j}": theta[j] for j in range(8)}
        hits += [each.low <= truth[each.name] <= each.high for each in made]
    assert 0.90 <= np.mean(hits) <= 0.99
