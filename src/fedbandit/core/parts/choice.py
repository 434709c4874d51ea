"""Which arm to play, and with which probability: a part that recipes choose.

A choice is a pure function of the policy, the arms, the agent and the number of the decision, so
that deciding takes no lock and a restored agent goes on as it would have.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import arms_not_finite
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import first_best, first_best_of_each
from fedbandit.core.memory.contract import Reading

_DRAWS = 1024  # made at once


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """What an agent decides with; made anew, whole, whenever its data changes."""

    reading: Reading
    theta: Array
    radius: float


@dataclass(slots=True, eq=False)
class Chosen:
    """The arm to play, by its index, and with which probability it was chosen.

    ``arms`` is a copy of the arms that were shown, ``squared_widths`` their x^T V^{-1} x.
    """

    arm: int
    probability: float
    arms: Array | SparseArms
    squared_widths: Array


class Choice(Protocol):
    """A rule for choosing among K checked arms."""

    @property
    def learns(self) -> bool:
        """Whether what arms have paid makes a difference; if not, nothing is absorbed or sent."""
        ...

    def choose(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        agent: int,
        number: int,
        into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm; raise InvalidArms, and write nothing, if a score is not finite.

        Chance depends on the agent and on the number of its decision alone. ``into`` is a result
        that is no longer needed: it may be written over and returned, so nothing is allocated.
        """
        ...

    def choose_many(
        self, policy: Policy, arms: Array, agent: int, number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions at once (arms B x K x d), the first of them with this number."""
        ...


@dataclass(frozen=True, slots=True)
class Ucb:
    """The arm with the largest <theta, x> + beta |x|_{V^-1} (paper, Alg. 1 line 3).

    Where scores tie, to nine digits, the first of them.
    """

    learns = True

    def choose(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        _agent: int,
        _number: int,
        into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm. Cost O(K l d) on a sketch, O(K d^2) on a Gram matrix."""
        if isinstance(arms, SparseArms):
            return _sparse_ucb(policy, arms)
        if into is None or len(into.squared_widths) != len(arms):
            into = Chosen(-1, 1.0, np.empty_like(arms), np.empty(len(arms)))
        shown = into.arms
        if isinstance(shown, SparseArms):
            shown = into.arms = np.empty_like(arms)
        arm = policy.reading.best(arms, policy.theta, policy.radius, shown, into.squared_widths)
        if arm < 0:
            raise arms_not_finite(arms)
        into.arm = arm
        return into

    def choose_many(
        self, policy: Policy, arms: Array, _agent: int, _number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions at once: one product serves all."""
        flat = arms.reshape(-1, arms.shape[2])
        with np.errstate(all="ignore"):
            bonus = policy.radius * np.sqrt(policy.reading.squared_widths(flat))
            scores = (flat @ policy.theta + bonus).reshape(arms.shape[:2])
        if not np.isfinite(scores).all():
            raise arms_not_finite(flat)
        return first_best_of_each(scores)


def _sparse_ucb(policy: Policy, arms: SparseArms) -> Chosen:
    with np.errstate(all="ignore"):
        widths = policy.reading.sparse_squared_widths(arms)
        scores = arms.times(policy.theta) + policy.radius * np.sqrt(widths)
    arm = first_best(scores)
    if arm < 0:
        raise arms_not_finite(arms.dense())
    return Chosen(arm, 1.0, arms, widths)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any arm, each as likely as the others, whatever they have paid."""

    seed: int = 0

    learns = False

    def choose(
        self,
        _policy: Policy,
        arms: Array | SparseArms,
        agent: int,
        number: int,
        _into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm. Cost O(K d), for a copy of the arms."""
        entries = arms.data if isinstance(arms, SparseArms) else arms
        if not np.isfinite(entries).all():
            raise arms_not_finite(arms.dense() if isinstance(arms, SparseArms) else arms)
        shown = arms if isinstance(arms, SparseArms) else np.array(arms)
        arm = int(self._draw(agent, number) * len(shown))
        return Chosen(arm, 1.0 / len(shown), shown, np.zeros(len(shown)))

    def choose_many(
        self, _policy: Policy, arms: Array, agent: int, number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions at once."""
        if not np.isfinite(arms).all():
            raise arms_not_finite(arms.reshape(-1, arms.shape[2]))
        draws = [self._draw(agent, number + b) for b in range(len(arms))]
        chosen: NDArray[np.int64] = (np.array(draws) * arms.shape[1]).astype(np.int64)
        return chosen

    def _draw(self, agent: int, number: int) -> float:
        """Return a number in [0, 1) that depends on seed, agent and decision alone."""
        return _draws(self.seed, agent, number // _DRAWS)[number % _DRAWS]


@lru_cache(maxsize=1024)
def _draws(seed: int, agent: int, block: int) -> list[float]:
    draws: list[float] = np.random.default_rng([seed, agent, block]).random(_DRAWS).tolist()
    return draws


UCB: Final = Ucb()
