"""What hangs on one group of agents is told as uncertain, however certain it looks.

Lies that are no larger than noise are not found out. Where few have tried something, they are
enough to make it look worse than the rest, and nobody tries it again. So a group is asked by how
much the estimate would differ without it,

    delta = theta - theta without g = (V - G)^-1 (b - G theta),

V the ridge and all G. An agent expects of an arm x up to x^T theta + beta |x|, with its radius beta
and |x|^2 = x^T V^-1 x, so that the group takes x^T delta from it. Of that bonus, beta |x|, no group
may take more than a part tau, whatever x is. So V' is told in place of V, with

    delta^T V' delta <= tau^2 beta^2,    for each group,                                    (1)

by V'^-1 = V^-1 + a delta delta^T and the least a that does, one group after the other. What one
group speaks against is tried until others have tried it as well, and then it moves nothing, or is
found out.

Agents know no less than the ridge, so that V' is at least that. Where little more is known,
theta' = theta - (1 - t) delta is told, with the largest t <= 1 for which

    (t delta)^T V' D^2 (t delta) <= tau^2 beta^2,    D = V' / (V' - 0.98 ridge).            (2)

D is about 1 where much is known, and 50 where nothing is: the less others have seen of something,
the less one group moves what is expected of it. So much holds for each group by itself: where (2)
takes parts of several, each is taken as if it were the only one, and theta' may go too far.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.groups.certainty import Fair
from fedbandit.service.groups.sums import GroupSum, positive, symmetric

TAU = 0.35
_FAINT = 0.02  # of the ridge: data that is next to nothing
_ROUNDING = 1e-6


def without_leaning(
    part: Fair, theta: Array, deltas: Array, *, radius: float, ridge: float
) -> Fair:
    """Return what is told, with V' and theta' for V and ``theta``; itself where (1) and (2) hold.

    ``deltas``: those of the groups (N x d). O(N d^2), and O(d^3) where it does not hold.
    """
    if part.told is None or not np.isfinite(deltas).all():
        return part
    most = (TAU * radius) ** 2
    told = less_certain(part.told, deltas, most=most)
    told = told if told is part.told else between(told, part.told, ridge)
    moved = less_moved(theta, told, deltas, most=most, ridge=ridge)
    if told is part.told and moved is theta:
        return part
    return replace(part, told=told, theta=moved, cut=True)


def shifts(
    sums: Sequence[GroupSum],
    weights: Array,
    theta: Array,
    *,
    ridge: float,
    ridges: Array | None = None,
    trusted: Sequence[bool],
) -> Array:
    """Return the delta of each group (N x d); ``weights``: how much each counts in theta. O(N d^3).

    ``ridges``: of each feature (d), if not one of all. What is ``trusted`` moves nothing.
    """
    each = np.array([one.square + np.diag(one.spread) for one in sums])
    held = np.full(len(theta), ridge) if ridges is None else ridges
    whole = np.tensordot(weights, each, 1) + np.diag(held)
    pull = np.array([one.moment for one in sums]) - each @ theta
    pull *= np.where(trusted, 0.0, weights)[:, None]
    others = whole - weights[:, None, None] * each
    return np.asarray(np.linalg.solve(others, pull[:, :, None])[:, :, 0])


def less_certain(told: Array, deltas: Array, *, most: float) -> Array:
    """Return V' for the V that is told (d x d), with delta^T V' delta <= ``most``; itself if so."""
    lengths = np.einsum("ni,ij,nj->n", deltas, told, deltas)
    less = told
    for place in np.argsort(-lengths).tolist():
        if lengths[place] <= most:
            break
        known = less @ deltas[place]
        length = float(known @ deltas[place])
        if length > most:  # V' = V - V delta delta^T V (1 - most / length) / length
            less = less - np.outer(known, known) * ((1.0 - most / length) / length)
    return less if less is told else symmetric(less)


def between(told: Array, certain: Array, ridge: float) -> Array:
    """Return V', no less than the ridge and no more than V in any direction. O(d^3).

    V' = ridge I + D^1/2 Q D^1/2 for the data D = V - ridge I; no eigenvalue of Q is below 0.
    """
    one = np.eye(len(told))
    try:
        np.linalg.cholesky(told - (1.0 - _ROUNDING) * ridge * one)
    except np.linalg.LinAlgError:
        values, turned = np.linalg.eigh(certain - ridge * one)
        some = values > _ROUNDING * ridge
        root, turned = np.sqrt(values[some]), turned[:, some]
        inner = turned.T @ (told - ridge * one) @ turned / np.outer(root, root)
        held = turned @ (positive(inner) * np.outer(root, root)) @ turned.T
        return symmetric(held) + ridge * one
    return told


def less_moved(theta: Array, told: Array, deltas: Array, *, most: float, ridge: float) -> Array:
    """Return theta', by (2). O(d^3)."""
    data = told - (1.0 - _FAINT) * ridge * np.eye(len(told))
    much = np.linalg.solve(data, told)
    metric = told @ much @ much
    lengths = np.einsum("ni,ij,nj->n", deltas, metric, deltas)
    for place in np.flatnonzero(lengths > (1.0 + _ROUNDING) * most).tolist():
        theta = theta - (1.0 - sqrt(most / lengths[place])) * deltas[place]
    return theta
