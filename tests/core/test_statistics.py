"""One value for what was learned: sums add up, sketches stay within bounds, nothing mutates."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.lossy.summary import LossyGram
from fedbandit.core.statistics import Base
from tests.core.histories import assert_psd_order, histories

Array = NDArray[np.float64]
D = 6
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=3, agents=2),
    "FSCLB.lean": fb.FSCLB.lean(dimension=D, sketch_size=3, agents=2),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=2),
    "FedLinUCB, int8": fb.FedLinUCB(dimension=D, agents=2, wire="int8"),
}
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
finite = st.floats(-1e3, 1e3)


def observed(recipe: fb.Recipe, arms: Array, rewards: Sequence[float]) -> fb.Statistics:
    """What an agent sends of these observations, asked at once."""
    agent = recipe.agent(0)
    parts = []
    for x, reward in zip(arms, rewards, strict=True):
        if (upload := agent.observe(x, reward)) is not None:
            parts.append(upload)
    last = agent.receive(fb.Collect())
    assert last is not None
    server = recipe.server()
    for upload in [*parts, last]:
        server.receive(upload)
    return server.statistics


def dense(summary: fb.Sketch | fb.Gram | LossyGram) -> Array:
    if isinstance(summary, fb.Gram | LossyGram):
        return summary.matrix
    return summary.rows.T @ summary.rows


@every_recipe
@given(arms=histories(dimension=D, most=20), data=st.data())
def test_rewards_are_summed_over_every_observation(
    recipe: fb.Recipe, arms: Array, data: st.DataObject
) -> None:
    paid = data.draw(st.lists(finite, min_size=len(arms), max_size=len(arms)))
    statistics = observed(recipe, arms, paid)
    assert statistics.count == statistics.rewards.count == len(arms)
    np.testing.assert_allclose(statistics.rewards.total, np.sum(paid), atol=1e-9 * (1 + len(arms)))
    np.testing.assert_allclose(statistics.rewards.squares, np.dot(paid, paid), rtol=1e-9)


@every_recipe
@given(arms=histories(dimension=D, most=25), share=st.floats(1e-3, 1.0))
def test_scaled_statistics_are_those_of_lighter_observations(
    recipe: fb.Recipe, arms: Array, share: float
) -> None:
    whole = observed(recipe, arms, [1.0] * len(arms))
    less = whole.scaled(share)
    scale = 1.0 + float(np.sum(arms**2))
    np.testing.assert_allclose(
        dense(less.summary), share * dense(whole.summary), atol=1e-12 * scale
    )
    np.testing.assert_allclose(less.moment, share * whole.moment)
    assert less.count == whole.count
    if isinstance(less.summary, fb.Sketch):
        lifted = dense(less.summary) + less.summary.shed * np.eye(D)
        assert_psd_order(share * arms.T @ arms, lifted, scale=scale)
    if isinstance(less.summary, LossyGram):
        lifted = less.summary.weight * less.summary.matrix + np.diag(less.summary.bound)
        assert_psd_order(share * arms.T @ arms, lifted, scale=scale)
    recipe.parts.memory.check(less)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan"), float("inf")])
def test_a_share_is_above_0_and_at_most_1(share: float) -> None:
    statistics = RECIPES["FSCLB"].parts.memory.empty()
    with pytest.raises(ValueError, match="share must be above 0"):
        statistics.scaled(share)


@every_recipe
def test_nothing_in_them_can_be_changed(recipe: fb.Recipe) -> None:
    statistics = observed(recipe, np.eye(D), [1.0] * D)
    with pytest.raises(FrozenInstanceError):
        statistics.count = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        statistics.moment[0] = 1.0


class Counting:
    """A memory that counts how often summaries are read."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self.reads = memory, 0

    def __getattr__(self, name: str) -> object:
        if name == "read":
            self.reads += 1
        return getattr(self._memory, name)


def test_a_base_reads_theta_once_and_only_when_asked() -> None:
    recipe = RECIPES["FSCLB.lean"]
    memory = Counting(recipe.parts.memory)
    statistics = observed(recipe, np.eye(D), [1.0] * D)
    base = Base(statistics, memory)  # type: ignore[arg-type]
    assert memory.reads == 0
    assert base.reference is not None
    assert base.theta is base.theta
    assert base.reading is base.reading
    assert memory.reads == 1


@every_recipe
@pytest.mark.parametrize(
    "rewards", [fb.Rewards(-1), fb.Rewards(99), fb.Rewards(1, np.nan), fb.Rewards(1, 0.0, np.inf)]
)
def test_sums_that_cannot_be_are_refused(recipe: fb.Recipe, rewards: fb.Rewards) -> None:
    good = observed(recipe, np.eye(D), [1.0] * D)
    with pytest.raises(fb.errors.InvalidMessage, match="rewards"):
        recipe.parts.memory.check(replace(good, rewards=rewards))


def test_what_came_without_rewards_is_not_in_their_sums() -> None:
    """An upload in format 1 of the wire carries none."""
    recipe = RECIPES["FedLinUCB"]
    agent, server = recipe.agent(0), recipe.server()
    for reward in (1.0, 3.0):
        agent.observe(np.eye(D)[0], reward)
        upload = agent.receive(fb.Collect())
        assert upload is not None
        old = wire.decode(wire.encode(upload, format=1))
        assert isinstance(old, fb.Upload)
        server.receive(old if reward == 1.0 else upload)
    assert server.count == 2
    assert server.statistics.rewards == fb.Rewards(1, 3.0, 9.0)


def test_what_a_caller_writes_later_is_not_in_it() -> None:
    moment = np.ones(D)
    statistics = fb.Statistics(fb.Gram(np.eye(D)), moment, 1)
    moment[:] = 7.0
    np.testing.assert_array_equal(statistics.moment, np.ones(D))


@every_recipe
def test_what_was_sent_stays_as_it_was(recipe: fb.Recipe) -> None:
    agent, rng = recipe.agent(0), np.random.default_rng(0)
    for x in rng.standard_normal((4, D)):
        agent.observe(x, 1.0)
    sent = agent.receive(fb.Collect())
    assert sent is not None
    before = wire.encode(sent)
    for x in rng.standard_normal((9, D)):
        agent.observe(x, -1.0)
    assert wire.encode(sent) == before
