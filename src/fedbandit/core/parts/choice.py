"""Rules for choosing an arm: UCB, and uniformly at random. ``drawn.py`` has Thompson and Mixed.

A choice is a pure function of the policy, the arms, the agent and the number of the decision. So it
needs no lock, and a restored agent makes the choices that it would have made.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import arms_not_finite
from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import first_best, first_best_of_each
from fedbandit.core.memory.contract import Reading

_DRAWS = 1024  # random numbers that are drawn, and cached, at once


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """What an agent decides with: V, theta (d) and beta; replaced whenever its data changes."""

    reading: Reading
    theta: Array
    radius: float


@dataclass(slots=True, eq=False)
class Chosen:
    """The index of the chosen arm, and the probability with which it was chosen.

    NaN stands for a probability that is estimated only if it is asked for. ``arms`` is a copy of
    the K arms, ``squared_widths`` (K) has x^T V^{-1} x of each.
    """

    arm: int
    probability: float
    arms: Any
    squared_widths: Array


class Choice(Protocol):
    """A rule for choosing one of K arms, whose shape has been checked."""

    @property
    def learns(self) -> bool:
        """Whether choices depend on rewards; if not, agents absorb and send nothing."""
        ...

    @property
    def exact(self) -> bool:
        """Whether probabilities are exact, or estimated by draws."""
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
        """Choose for B decisions (arms B x K x d) of one agent, the first with this number."""
        ...

    def probabilities(self, policy: Policy, chosen: Chosen, agent: int, number: int, /) -> Array:
        """Return the probability of every arm (K) for a choice that was made with this policy."""
        ...


@dataclass(frozen=True, slots=True)
class Ucb:
    """The arm with the largest <theta, x> + beta |x|_{V^-1} (paper, Alg. 1 line 3).

    Of scores that agree to nine digits, the first wins.
    """

    learns = True
    exact = True

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
        if into is None or type(shown := into.arms) is SparseArms or len(shown) != len(arms):
            shown = np.empty_like(arms)
            into = Chosen(-1, 1.0, shown, np.empty(len(arms)))
        arm = policy.reading.best(arms, policy.theta, policy.radius, shown, into.squared_widths)
        if arm < 0:
            raise arms_not_finite(arms)
        into.arm, into.probability = arm, 1.0
        return into

    def choose_many(
        self, policy: Policy, arms: Array, _agent: int, _number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions with one matrix product. Cost B times that of one decision."""
        flat = arms.reshape(-1, arms.shape[2])
        with np.errstate(all="ignore"):
            bonus = policy.radius * np.sqrt(policy.reading.squared_widths(flat))
            scores = (flat @ policy.theta + bonus).reshape(arms.shape[:2])
        if not np.isfinite(scores).all():
            raise arms_not_finite(flat)
        return first_best_of_each(scores)

    def probabilities(self, _policy: Policy, chosen: Chosen, _agent: int, _number: int, /) -> Array:
        """Return 1 for the arm that was chosen, 0 for the others."""
        certain = np.zeros(len(chosen.arms))
        certain[chosen.arm] = 1.0
        return certain


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
    """Every arm with probability 1 / K; rewards are ignored."""

    seed: int = 0

    learns = False
    exact = True

    def choose(
        self,
        _policy: Policy,
        arms: Array | SparseArms,
        agent: int,
        number: int,
        into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm. Cost O(K d), for a copy of the arms."""
        many = len(arms)
        arm, probability = int(uniform_draw(self.seed, agent, number) * many), 1.0 / many
        if isinstance(arms, SparseArms):
            if not _are_finite(arms.data):
                raise arms_not_finite(arms.dense())
            return Chosen(arm, probability, arms, np.zeros(many))
        if not _are_finite(arms):
            raise arms_not_finite(arms)
        if into is None or type(into.arms) is SparseArms or len(into.arms) != many:
            return Chosen(arm, probability, arms.copy(), np.zeros(many))
        into.arms[...], into.squared_widths[...] = arms, 0.0
        into.arm, into.probability = arm, probability
        return into

    def choose_many(
        self, _policy: Policy, arms: Array, agent: int, number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions at once."""
        if not _are_finite(arms):
            raise arms_not_finite(arms.reshape(-1, arms.shape[2]))
        first, last = number // _DRAWS, (number + max(1, len(arms)) - 1) // _DRAWS
        blocks = [_draws(self.seed, agent, block) for block in range(first, last + 1)]
        draws, start = np.concatenate(blocks) if last > first else blocks[0], number % _DRAWS
        chosen: NDArray[np.int64] = (draws[start : start + len(arms)] * arms.shape[1]).astype(
            np.int64
        )
        return chosen

    def probabilities(self, _policy: Policy, chosen: Chosen, _agent: int, _number: int, /) -> Array:
        """Return 1 / K for every arm."""
        return np.full(len(chosen.arms), 1.0 / len(chosen.arms))


def uniform_draw(seed: int, agent: int, number: int) -> float:
    """Return a number in [0, 1) that depends only on seed, agent and number of decision."""
    return _draws(seed, agent, number // _DRAWS).item(number % _DRAWS)


def _are_finite(entries: Array) -> bool:
    """Say whether all entries are finite: mostly told by the sum of their squares."""
    return isfinite(np.vdot(entries, entries)) or bool(np.isfinite(entries).all())


@lru_cache(maxsize=1024)
def _draws(seed: int, agent: int, block: int) -> Array:
    return read_only(np.random.default_rng([seed, agent, block]).random(_DRAWS))


UCB: Final = Ucb()
