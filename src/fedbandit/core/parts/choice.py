"""Rules for choosing an arm: UCB, and uniformly at random.

A choice is a pure function of the policy, the arms, the agent and the number of the decision. So it
needs no lock, and a restored agent makes the choices that it would have made.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import arms_not_finite
from fedbandit.core.kernels.linalg import Array
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


class Turn(NamedTuple):
    """The agent's index and the number of its decision, from 0: what random choices depend on."""

    agent: int
    number: int


class Chosen(NamedTuple):
    """The index of the chosen arm, and the probability with which it was chosen.

    ``arms`` is a copy of the K arms, ``squared_widths`` (K) has x^T V^{-1} x of each.
    """

    arm: int
    probability: float
    arms: Array | SparseArms
    squared_widths: Array


class Choice(Protocol):
    """A rule for choosing one of K arms, whose shape has been checked."""

    @property
    def learns(self) -> bool:
        """Whether choices depend on rewards; if not, agents absorb and send nothing."""
        ...

    def __call__(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        turn: Turn,
        /,
        *,
        reuse: Chosen | None = None,
    ) -> Chosen:
        """Choose one arm; raise InvalidArms if a score is not finite.

        ``reuse``: an earlier result that is no longer needed, whose arrays may be overwritten.
        """
        ...

    def many(self, policy: Policy, arms: Array, turn: Turn, /) -> NDArray[np.int64]:
        """Choose for B decisions (arms B x K x d) of one agent; the first of them is ``turn``."""
        ...


@dataclass(frozen=True, slots=True)
class Ucb:
    """The arm with the largest <theta, x> + beta |x|_{V^-1} (paper, Alg. 1 line 3).

    Of scores that agree to nine digits, the first wins.
    """

    learns = True

    def __call__(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        _turn: Turn,
        /,
        *,
        reuse: Chosen | None = None,
    ) -> Chosen:
        """Choose one arm. Cost O(K l d) on a sketch, O(K d^2) on a Gram matrix."""
        if isinstance(arms, SparseArms):
            return _sparse_ucb(policy, arms)
        if reuse is None or isinstance(reuse.arms, SparseArms) or len(reuse.arms) != len(arms):
            shown, widths = np.empty_like(arms), np.empty(len(arms))
        else:
            shown, widths = reuse.arms, reuse.squared_widths
        arm = policy.reading.best(arms, policy.theta, policy.radius, shown, widths)
        if arm < 0:
            raise arms_not_finite(arms)
        return Chosen(arm, 1.0, shown, widths)

    def many(self, policy: Policy, arms: Array, _turn: Turn, /) -> NDArray[np.int64]:
        """Choose for B decisions with one matrix product. Cost B times that of one decision."""
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
    """Every arm with probability 1 / K; rewards are ignored."""

    seed: int = 0

    learns = False

    def __call__(
        self,
        _policy: Policy,
        arms: Array | SparseArms,
        turn: Turn,
        /,
        *,
        reuse: Chosen | None = None,  # noqa: ARG002 - reusing arrays would save nothing here
    ) -> Chosen:
        """Choose one arm. Cost O(K d), for a copy of the arms."""
        entries = arms.data if isinstance(arms, SparseArms) else arms
        if not np.isfinite(entries).all():
            raise arms_not_finite(arms.dense() if isinstance(arms, SparseArms) else arms)
        shown = arms if isinstance(arms, SparseArms) else np.array(arms)
        arm = int(self._draw(turn) * len(shown))
        return Chosen(arm, 1.0 / len(shown), shown, np.zeros(len(shown)))

    def many(self, _policy: Policy, arms: Array, turn: Turn, /) -> NDArray[np.int64]:
        """Choose for B decisions at once."""
        if not np.isfinite(arms).all():
            raise arms_not_finite(arms.reshape(-1, arms.shape[2]))
        turns = (Turn(turn.agent, turn.number + b) for b in range(len(arms)))
        return np.array([int(self._draw(each) * arms.shape[1]) for each in turns], dtype=np.int64)

    def _draw(self, turn: Turn) -> float:
        """Return a number in [0, 1) that depends only on seed, agent and number of decision."""
        block, place = divmod(turn.number, _DRAWS)
        return float(_draws(self.seed, turn.agent, block)[place])


@lru_cache(maxsize=1024)
def _draws(seed: int, agent: int, block: int) -> Array:
    return np.random.default_rng([seed, agent, block]).random(_DRAWS)


UCB: Final = Ucb()
