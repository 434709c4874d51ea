"""Sums of rewards that few groups cannot make what they like: agents measure the noise by them.

With ``radius="auto"`` agents explore by the mean of r^2 that they are told (``core.parts.radius``).
One group with squares that are too large makes everybody play at random, and one with many rewards
of 0 makes nobody explore. So the sums of a group g are told with a weight,

    w = min(1, S / squares of g, C / count of g),

S the sum of the squares of all groups but the ``_FEW`` with most of them, C the same of their
counts. A weight leaves the mean of a group as it is: who has most of the rounds of an honest fleet
is told as one of several. If at most ``_FEW`` groups lie, S is at most the honest groups' sum of
squares, and C that of their counts: each liar adds at most as much as all honest ones have.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.membership import WATCHED_FROM

_FEW = 3
_OFF = 1.5  # a mean that is wrong by less is told as it is


def believed(whole: Rewards, sums: Sequence[Rewards]) -> Rewards:
    """Return the sums to tell in place of the whole's; its own where they are about right.

    They are while too few groups have had a reward that is not 0 to tell what is usual.
    """
    counts = np.array([each.count for each in sums], dtype=np.float64)
    squares = np.array([each.squares for each in sums], dtype=np.float64)
    if (squares > 0.0).sum() < WATCHED_FROM:
        return whole
    most = np.minimum(_usual(squares) / np.maximum(squares, 1e-300), 1.0)
    weights = np.minimum(most, _usual(counts) / np.maximum(counts, 1.0))
    count, total = float(weights @ counts), float(weights @ [each.total for each in sums])
    mean, told = float(weights @ squares) / max(count, 1.0), whole.squares / max(whole.count, 1)
    if mean <= _OFF * told and told <= _OFF * mean:
        return whole
    number = min(ceil(count), whole.count)
    return Rewards(number, total, mean * number)


def _usual(values: Array) -> float:
    """Return the sum of all but the largest few."""
    return float(np.sort(values)[:-_FEW].sum())
