"""What hangs on one group of agents is told as uncertain, however certain it looks.

Lies that are no larger than noise are not found out. Where few have tried something, they are
enough to make it look worse than the rest, and nobody tries it again. So a group is asked by how
much the estimate would differ without it,

    delta = theta - theta without g = (V - G)^-1 (b - G theta),

V the ridge and all G. An agent expects of an arm x up to x^T theta + beta sqrt(x^T V^-1 x), with
its radius beta. Of groups that move the estimate by far more than others do, V' is told in place
of V:

    V'^-1 = V^-1 + (2 / beta^2) sum of delta delta^T.

Then an agent expects no less of any arm than it would without one of them, and be less sure:

    x^T theta + beta sqrt(x^T V'^-1 x) >= x^T (theta - delta) + beta sqrt(x^T V^-1 x / 2),

since sqrt(a^2 + 2 c^2) >= c + a / sqrt(2). So what one group speaks against is tried until others
have tried it as well, and then the group moves nothing, or is found out.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.groups.certainty import Fair
from fedbandit.service.groups.sums import SILENT, GroupSum, symmetric

_MORE = 2.0  # times as far as the median group moves the estimate
_MATTERS = 0.5  # of beta^2: the square of a shift, as V measures lengths, from which on it counts
_TINY = 1e-300


def without_leaning(
    part: Fair,
    weights: Array,
    theta: Array,
    *,
    radius: float,
    ridge: float,
    trusted: Sequence[bool],
) -> Fair:
    """Return what is told, with V' for V; itself where nothing hangs on one group. O(N d^3).

    ``weights``: how much each group counts in theta. What is ``trusted`` moves nothing.
    """
    if part.told is None:
        return part
    found, lengths = shifts(part.sums, weights, theta, ridge=ridge, trusted=trusted)
    speak = np.array([one.mass > SILENT * ridge for one in part.sums])
    much = lengths > _MORE * float(np.median(lengths[speak])) if speak.any() else speak
    much &= lengths > _MATTERS * radius * radius
    if not much.any() or not np.isfinite(found[much]).all():
        return part
    told = less_certain(part.told, found[much], radius=radius)
    return replace(part, told=told, cut=True)


def shifts(
    sums: Sequence[GroupSum], weights: Array, theta: Array, *, ridge: float, trusted: Sequence[bool]
) -> tuple[Array, Array]:
    """Return the delta of each group (N x d), and delta^T V delta (N)."""
    each = np.array([one.square + np.diag(one.spread) for one in sums])
    held = np.maximum(each.diagonal(axis1=1, axis2=2), 0.0) + _TINY
    whole = np.tensordot(weights, each, 1) + ridge * np.eye(len(theta))
    pull = np.array([one.moment for one in sums]) - each @ theta
    pull = pull - held / held.sum(axis=0) * (ridge * theta)  # its share of the ridge
    pull *= np.where(trusted, 0.0, weights)[:, None]
    others = whole - weights[:, None, None] * each
    found = np.linalg.solve(others, pull[:, :, None])[:, :, 0]
    return found, np.einsum("ni,ij,nj->n", found, whole, found)


def less_certain(told: Array, deltas: Array, *, radius: float) -> Array:
    """Return V' for the V that is told (d x d). O(k d^2)."""
    known = deltas @ told
    inner = 0.5 * radius * radius * np.eye(len(deltas)) + known @ deltas.T
    return symmetric(told - known.T @ np.linalg.solve(inner, known))
