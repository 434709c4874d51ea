"""When an agent uploads, and when it must not: the growth of det V, for each memory."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit import parts
from fedbandit.core.kernels.linalg import Array

D = 4
CLOSE = 1e-9
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Fixed:
    """The same threshold for every count."""

    limit: float

    def threshold(self, _count: int, /) -> float:
        return self.limit


TRIGGERS: dict[str, Callable[[float], parts.Trigger]] = {
    "never": lambda _: parts.Never(),
    "growth": parts.Growth,
    "wait": parts.GrowthTimesWait,
    "fixed": Fixed,
}
MEMORIES: dict[str, parts.Memory] = {
    "gram": parts.GramMemory(D, 1.0),
    "sketch": parts.SketchMemory(D, 1.0, size=D + 1),
}


@parts.recipe()
def Triggered(*, dimension: int, agents: int, memory: str, kind: str, limit: float) -> parts.Parts:
    """Upload by one of the package's triggers, or by a fixed threshold."""
    assert (dimension, agents) == (D, 1)
    return parts.Parts(memory=MEMORIES[memory], trigger=TRIGGERS[kind](limit))


def uploads(kind: str, limit: float, memory: str, arms: Array) -> list[bool]:
    """Return for each observation whether it was followed by an upload, up to the first one."""
    recipe = Triggered(dimension=D, agents=1, memory=memory, kind=kind, limit=limit)
    agent, fired = recipe.agent(0), list[bool]()
    for arm in arms:
        fired.append(agent.observe(arm, 1.0) is not None)
        if fired[-1]:
            break
    return fired


def growths(arms: Array) -> list[float]:
    """Return log det V after each observation; before the first it is 0."""
    matrix, found = np.eye(D), list[float]()
    for arm in arms:
        matrix = matrix + np.outer(arm, arm)
        found.append(float(np.linalg.slogdet(matrix)[1]))
    return found


both = pytest.mark.parametrize("memory", MEMORIES)


@both
@given(seed=seeds, alpha=st.floats(0.1, 30.0))
def test_growth_fires_once_the_determinant_has_grown_by_so_much(
    memory: str, seed: int, alpha: float
) -> None:
    arms = np.random.default_rng(seed).standard_normal((D, D))
    for fired, growth in zip(uploads("growth", alpha, memory, arms), growths(arms), strict=False):
        if abs(growth - np.log1p(alpha)) > CLOSE:
            assert fired == (growth > np.log1p(alpha))


@both
@given(seed=seeds, product=st.floats(0.1, 30.0))
def test_waiting_longer_asks_for_less_growth(memory: str, seed: int, product: float) -> None:
    arms = np.random.default_rng(seed).standard_normal((D, D))
    told = zip(uploads("wait", product, memory, arms), growths(arms), strict=False)
    for count, (fired, growth) in enumerate(told, start=1):
        if abs(count * growth - product) > CLOSE * product:
            assert fired == (count * growth > product)


@both
@given(seed=seeds)
def test_never_and_infinity_never_fire(memory: str, seed: int) -> None:
    arms = 10.0 * np.random.default_rng(seed).standard_normal((D, D))
    assert not any(uploads("never", 1.0, memory, arms))
    assert not any(uploads("fixed", inf, memory, arms))


@both
def test_a_threshold_below_zero_always_fires(memory: str) -> None:
    assert uploads("fixed", -1.0, memory, np.zeros((1, D))) == [True]


@pytest.mark.parametrize("trigger", [parts.Never(), parts.GrowthTimesWait(3.0)])
def test_without_observations_nothing_is_due(trigger: parts.Trigger) -> None:
    assert trigger.threshold(0) == inf
