"""Sums of rewards that few groups cannot make what they like: agents measure the noise by them.

With ``radius="auto"`` agents explore by the mean of r^2 that they are told, less what theta
explains of it (``core.parts.radius``). One group with squares that are too large makes everybody
play at random, and one with many rewards of 0 makes nobody explore. So where the mean is not about
what the groups say, agents are told another one: what theta explains, and the mean of what it
leaves of the squares q of the groups, each with a weight,

    w = min(1, Q / q, N / n),

Q the sum of the q of all groups but the ``_FEW`` with most, N the same of their numbers n. A weight
leaves the mean of a group as it is: who has most of the rounds of an honest fleet is told as one of
several. If at most ``_FEW`` groups lie, Q is at most the honest groups' sum, and N that of their
numbers: each liar adds at most as much as all honest ones have.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.membership import WATCHED_FROM

_FEW = 3
_OFF = 1.5  # a mean that is wrong by less is told as it is


def believed(
    whole: Rewards,
    sums: Sequence[Rewards],
    *,
    trusted: Sequence[bool],
    explained: Callable[[], tuple[Array, float]],
) -> Rewards:
    """Return the sums to tell in place of the whole's; its own where they are about right.

    They are while too few groups have had a reward that is not 0 to tell what is usual.
    ``trusted``: those that are not agents'. ``explained``: what theta explains of the squares of
    each, and of the mean that agents are told; asked for only where something is wrong.
    """
    counts = np.array([each.count for each in sums], dtype=np.float64)
    squares = np.array([each.squares for each in sums], dtype=np.float64)
    past = np.array(trusted, dtype=bool)
    if (squares[~past] > 0.0).sum() < WATCHED_FROM:
        return whole
    weights = _weights(squares, counts, past)
    if _is_about(whole, float(weights @ squares) / max(float(weights @ counts), 1.0)):
        return whole
    theirs, ours = explained()
    left = np.maximum(squares - theirs, 0.0)
    weights = _weights(left, counts, past)
    count, total = float(weights @ counts), float(weights @ [each.total for each in sums])
    mean, number = float(weights @ left) / max(count, 1.0) + ours, min(ceil(count), whole.count)
    return whole if _is_about(whole, mean) else Rewards(number, total, mean * number)


def _is_about(whole: Rewards, mean: float) -> bool:
    """Say whether the mean of the whole's squares is about this one."""
    own = whole.squares / max(whole.count, 1)
    return mean <= _OFF * own and own <= _OFF * mean


def _weights(squares: Array, counts: Array, trusted: NDArray[np.bool_]) -> Array:
    """Return the weight of each group (N)."""
    most = [
        values[trusted].sum() + np.sort(values[~trusted])[:-_FEW].sum()
        for values in (squares, counts)
    ]
    weights = np.minimum(most[0] / np.maximum(squares, 1e-300), most[1] / np.maximum(counts, 1.0))
    return np.where(trusted, 1.0, np.minimum(weights, 1.0))
