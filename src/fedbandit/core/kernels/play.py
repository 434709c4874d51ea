"""Rounds of one agent in one loop: choose with a V that stays, keep the played arm as a row.

Each loop plays the rounds of ``arms`` (B x K x d) with ``rewards`` (B x K) until one needs more. It
returns how many it played and the bound on the growth of log det V after them, and stops

- before a round for which ``pending`` has no room (``filled`` rows, at most ``most`` after it), or
  whose numbers are not finite or too large;
- after a round with which the bound exceeds ``threshold``.

It writes the chosen arms to ``chosen`` (B), the played arms to ``pending``, and adds reward x to
``moment``; ``shown`` and ``widths`` end up with the arms of the last round and their squared
widths. All of it is what ``choose`` and ``observe`` compute round by round, to the last bit.
"""

from collections.abc import Callable
from math import log1p
from typing import Any

import numpy as np

from fedbandit.core.kernels.compiler import exact_kernel, kernel, kernel_or
from fedbandit.core.kernels.frequent_directions import FAINT, shed_one
from fedbandit.core.kernels.linalg import LARGEST, Array, append_row
from fedbandit.core.kernels.ucb import (
    Integers,
    diagonal_ucb,
    diagonal_widths_numpy,
    first_best_of_each,
    gram_ucb,
    gram_widths_numpy,
    scores_numpy,
    sketch_ucb,
    sketch_widths_numpy,
)

_AHEAD = 32  # rounds that numpy plays at once; those after the last one played were in vain


@exact_kernel
def raised(bound: float, squared_width: float, slack: float, square: float) -> float:
    """Return the bound on the growth of log det V after one more observation."""
    return bound + log1p(squared_width + slack * square)


@exact_kernel
def lifted(bound: float, shed: float, trace: float) -> float:
    """Return the bound after something was shed: V grows by it in every direction."""
    return bound + shed * trace


def by_numpy(widths_of: Callable[..., Array]) -> Callable[..., tuple[int, float]]:
    """Return a loop that plays by numpy, ``_AHEAD`` rounds at once.

    ``widths_of`` returns squared widths (B x K) of arms (B x K x d) and what else there is of V.
    """

    def play(
        arms: Array,
        rewards: Array,
        theta: Array,
        radius: float,
        threshold: float,
        chosen: Integers,
        shown: Array,
        widths: Array,
        *rest: Any,
    ) -> tuple[int, float]:
        *reading, pending, filled, most, moment, bound, slack = rest
        played, many, going = 0, min(len(arms), most - filled), True
        while going and played < many:
            ahead = arms[played : min(played + _AHEAD, many)]
            squared = widths_of(ahead, *reading)
            scores = scores_numpy(ahead, theta, radius, squared)
            each, best = np.arange(len(ahead)), first_best_of_each(scores)
            picked, paid = ahead[each, best], rewards[played + each, best]
            paid[~np.isfinite(scores.sum(axis=1))] = np.inf  # such a round is left out
            count, bound = _quiet(picked, paid, squared[each, best], threshold, bound, slack)
            going = count == len(ahead) and bound <= threshold
            if count:
                pending[filled + played : filled + played + count] = picked[:count]
                _add_in_turn(moment, paid[:count, None] * picked[:count])
                chosen[played : played + count] = best[:count]
                shown[:], widths[:] = ahead[count - 1], squared[count - 1]
                played += count
        return played, bound

    return play


def _quiet(
    picked: Array, paid: Array, squared: Array, threshold: float, bound: float, slack: float
) -> tuple[int, float]:
    """Return how many of these observations are played before one needs more, and the bound."""
    count = 0
    for x, reward, width in zip(picked, paid.tolist(), squared.tolist(), strict=True):
        square = float(x.dot(x))
        if not square * max(1.0, reward * reward) < LARGEST:
            break
        count, bound = count + 1, bound + log1p(width + slack * square)
        if bound > threshold:
            break
    return count, bound


def _add_in_turn(moment: Array, added: Array) -> None:
    """Add rows (n x d) to the moment, one after the other, so that the bits are the same."""
    added[0] += moment
    moment[:] = np.add.accumulate(added)[-1]


@kernel_or(by_numpy(sketch_widths_numpy))
def play_sketch(
    arms: Array,
    rewards: Array,
    theta: Array,
    radius: float,
    threshold: float,
    chosen: Integers,
    shown: Array,
    widths: Array,
    rows: Array,
    squares: Array,
    ridge: float,
    pending: Array,
    filled: int,
    most: int,
    moment: Array,
    bound: float,
    slack: float,
) -> tuple[int, float]:
    """Play rounds with V = cI + S^T S, see ``sketch_ucb``. Cost O(K k d) a round."""
    for b in range(min(len(arms), most - filled)):
        arm = sketch_ucb(arms[b], theta, radius, rows, squares, ridge, shown, widths)
        if arm < 0:
            return b, bound
        square = append_row(pending, filled + b, moment, shown[arm], rewards[b, arm])
        if square < 0.0:
            return b, bound
        chosen[b] = arm
        bound = raised(bound, widths[arm], slack, square)
        if bound > threshold:
            return b + 1, bound
    return min(len(arms), most - filled), bound


@kernel
def play_shedding(
    arms: Array,
    rewards: Array,
    theta: Array,
    radius: float,
    threshold: float,
    chosen: Integers,
    shown: Array,
    widths: Array,
    rows: Array,
    squares: Array,
    ridge: float,
    pending: Array,
    norms: Array,
    most: int,
    moment: Array,
    bound: float,
    slack: float,
    trace: float,
    shed: float,
) -> tuple[int, float, float, int]:
    """Play rounds as ``play_sketch`` does, each of which sheds a row, see ``shed_one``.

    ``pending`` (l x d) is full but for its last row, the others are orthogonal with the squared
    norms ``norms`` (l - 1), which change in place; ``trace`` is that of V^{-1}. Plays at most
    ``most`` rounds, and stops if fewer rows are left, or faint ones. Returns what was shed, and how
    many rows are left, as well.
    """
    last = len(norms)
    for b in range(min(len(arms), most)):
        arm = sketch_ucb(arms[b], theta, radius, rows, squares, ridge, shown, widths)
        if arm < 0:
            return b, bound, shed, last
        square = append_row(pending, last, moment, shown[arm], rewards[b, arm])
        if square < 0.0:
            return b, bound, shed, last
        chosen[b] = arm
        kept, turned, delta = shed_one(pending, norms)
        bound = raised(bound, widths[arm], slack, square)
        bound, shed = lifted(bound, delta, trace), shed + delta
        for i in range(kept):
            norms[i] = turned[i]
        if kept < last or norms[0] <= FAINT or bound > threshold:
            return b + 1, bound, shed, kept
    return min(len(arms), most), bound, shed, last


@kernel_or(by_numpy(diagonal_widths_numpy))
def play_diagonal(
    arms: Array,
    rewards: Array,
    theta: Array,
    radius: float,
    threshold: float,
    chosen: Integers,
    shown: Array,
    widths: Array,
    explained: Array,
    inverse: Array,
    pending: Array,
    filled: int,
    most: int,
    moment: Array,
    bound: float,
    slack: float,
) -> tuple[int, float]:
    """Play rounds with V^-1 = diag(inverse) - W^T W, see ``diagonal_ucb``."""
    for b in range(min(len(arms), most - filled)):
        arm = diagonal_ucb(arms[b], theta, radius, explained, inverse, shown, widths)
        if arm < 0:
            return b, bound
        square = append_row(pending, filled + b, moment, shown[arm], rewards[b, arm])
        if square < 0.0:
            return b, bound
        chosen[b] = arm
        bound = raised(bound, widths[arm], slack, square)
        if bound > threshold:
            return b + 1, bound
    return min(len(arms), most - filled), bound


@kernel_or(by_numpy(gram_widths_numpy))
def play_gram(
    arms: Array,
    rewards: Array,
    theta: Array,
    radius: float,
    threshold: float,
    chosen: Integers,
    shown: Array,
    widths: Array,
    inverse: Array,
    pending: Array,
    filled: int,
    most: int,
    moment: Array,
    bound: float,
    slack: float,
) -> tuple[int, float]:
    """Play rounds with V by its inverse (d x d), see ``gram_ucb``. Cost O(K d^2) a round."""
    for b in range(min(len(arms), most - filled)):
        arm = gram_ucb(arms[b], theta, radius, inverse, shown, widths)
        if arm < 0:
            return b, bound
        square = append_row(pending, filled + b, moment, shown[arm], rewards[b, arm])
        if square < 0.0:
            return b, bound
        chosen[b] = arm
        bound = raised(bound, widths[arm], slack, square)
        if bound > threshold:
            return b + 1, bound
    return min(len(arms), most - filled), bound


def sums_paid_numpy(
    rewards: Array, chosen: Integers, played: int, total: float, squares: float
) -> tuple[float, float]:
    """Return what ``sums_paid`` does, by numpy."""
    for reward in rewards[np.arange(played), chosen[:played]].tolist():
        total += reward
        squares += reward * reward
    return total, squares


@kernel_or(sums_paid_numpy, exact=True)
def sums_paid(
    rewards: Array, chosen: Integers, played: int, total: float, squares: float
) -> tuple[float, float]:
    """Add the rewards of the rounds that were played, and their squares, one after the other."""
    for b in range(played):
        reward = rewards[b, chosen[b]]
        total += reward
        squares += reward * reward
    return total, squares
