"""Sums of rewards that few groups cannot make what they like: agents measure the noise by them.

With ``radius="auto"`` agents explore by the noise, the mean of r^2 that they are told less what
theta explains of it (``core.parts.radius``). One group with squares that are too large, or with
many observations that weigh nothing, makes everybody play at random; one with many rewards of 0
makes nobody explore. And where only a share of what was sent is told, theta explains only that. So
the noise is found by groups: of what theta leaves of their squares, q, the mean, with weights

    w = min(1, Q / q, N / n),

Q the sum of the q of all groups but the ``_FEW`` with most (but the one, where fewer than eight had
a reward that is not 0), N the same of their numbers n. A weight
leaves the mean of a group as it is: who has most of the rounds of an honest fleet is told as one of
several. If at most so many groups lie, Q is at most the honest groups' sum, and N that of their
numbers: each liar adds at most as much as all honest ones have.

What theta leaves of a group's squares is the least that several estimates leave: that from all, the
one that is told, and the group's own (``explained_by_own``). Where few groups share a feature the
second explains next to nothing, and one liar can turn the first there, so that what honest groups
learned would count as noise.

The radius also falls with the number of directions that data has shown. One group that claims a
little of every direction, within its share of each (``certainty``), shows all of them, and nobody
tries what is new. So that number is taken without the groups that show most, and where agents would
find far more in what they are told, they are told as much more noise as makes their radius the
same.
"""

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.membership import WATCHED_FROM
from fedbandit.service.groups.sums import SILENT, GroupSum

_FEW = 3
_EACH = 8  # one group of so many is left out where directions are counted
_MORE = 1.5  # times as many directions are told as they are
_FREE = 1.5  # rewards for each number that is fitted to them: fewer tell no noise
_OFF, _LITTLE = 1.5, 0.01  # a noise that is wrong by less, or by as much of r^2, is told as it is


def noise_of(sums: Sequence[Rewards], *, explained: Array, trusted: Sequence[bool]) -> float | None:
    """Return the mean square of the noise; None where one group at most had a reward but 0.

    ``explained``: what theta explains of the squares of each group. ``trusted``: those that are
    not agents'.
    """
    counts = np.array([each.count for each in sums], dtype=np.float64)
    squares = np.array([each.squares for each in sums], dtype=np.float64)
    past = np.array(trusted, dtype=bool)
    some = int((squares[~past] > 0.0).sum())
    if some <= 1:
        return None
    few = _FEW if some >= WATCHED_FROM else 1
    left = np.maximum(squares - explained, 0.0)
    weights = np.minimum(_weights(left, past, few), _weights(counts, past, few))
    return float(weights @ left) / max(float(weights @ counts), 1.0)


def explained_by_own(
    sums: Sequence[GroupSum], rewards: Sequence[Rewards], *, ridge: float
) -> Array:
    """Return what each group's own estimate explains of its squares (N); -inf of too few rewards.

    Where k numbers are fitted to n rewards, (n - k) / n of the noise is left on average, so that
    what is left counts for more. k = tr (ridge I + G)^-1 G is no more than the same of the diagonal
    of G. O(N d^3).
    """
    found = np.full(len(sums), -inf)
    for place, (one, told) in enumerate(zip(sums, rewards, strict=True)):
        held = np.maximum(one.diagonal, 0.0)
        fitted = float((held / (held + ridge)).sum())
        if told.count <= _FREE * fitted + 1.0:
            continue
        whole = one.square + np.diag(one.spread + ridge)
        theta = np.asarray(np.linalg.solve(whole, one.moment), dtype=np.float64)
        left = told.squares - float((2.0 * one.moment - one.times(theta)) @ theta)
        if np.isfinite(left):
            found[place] = told.squares - max(left, 0.0) * told.count / (told.count - fitted)
    return found


def _weights(values: Array, trusted: NDArray[np.bool_], few: int) -> Array:
    """Return what of each value is no more than all but the largest few have together (N)."""
    most = float(values[trusted].sum() + np.sort(values[~trusted])[:-few].sum())
    return np.where(trusted | (values <= most), 1.0, most / np.maximum(values, 1e-300))


def believed(whole: Rewards, *, noise: float, explained: float) -> Rewards:
    """Return the sums that say so much noise; the whole's own where they say about as much.

    ``explained``: what theta explains of the mean square, by what agents are told.
    """
    mean = whole.squares / max(whole.count, 1)
    own = max(mean - explained, 0.0)
    if abs(own - noise) <= _LITTLE * mean or (own <= _OFF * noise and noise <= _OFF * own):
        return whole
    squares = (noise + explained) * whole.count
    most = sqrt(max(whole.count * squares, 0.0))
    return Rewards(whole.count, min(max(whole.total, -most), most), max(squares, 0.0))


def shown_by_several(sums: Sequence[GroupSum], *, ridge: float, trusted: Sequence[bool]) -> float:
    """Return how many directions were shown by all but the groups that show most. O(N d^2 + d^3).

    d - ridge tr (ridge I + G)^-1, as agents count them (``core.parts.radius``).
    """
    each = [one.square + np.diag(one.spread) for one in sums]
    d, speak = len(sums[0].moment), sum(one.mass > SILENT * ridge for one in sums)
    inverse = np.linalg.inv(sum(each, ridge * np.eye(d)))
    most = [
        -inf if past else float(np.vdot(inverse, one))
        for one, past in zip(each, trusted, strict=True)
    ]
    several = np.argsort(most)[::-1][max(1, speak // _EACH) :]
    rest = sum((each[place] for place in several), ridge * np.eye(d))
    return d - ridge * float(np.linalg.inv(rest).trace())


def noise_for_fewer(*, told: float, shown: float, ridge: float, length: float) -> float:
    """Return the noise (a root) that stands for directions that are told, and that few have shown.

    ``told``: how many agents find in what they are told; ``shown``: by several groups. ``length``:
    |theta|. 0 where they differ little.
    """
    if told <= _MORE * shown:
        return 0.0
    return 2.0 * length * (sqrt(ridge / max(shown, 1.0)) - sqrt(ridge / max(told, 1.0)))
