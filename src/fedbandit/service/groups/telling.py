"""What agents are told in place of everything that was merged, for a model with groups.

Agents need not know: a download carries V and a moment b, and its receiver computes theta = V^-1 b.
So to tell another theta, the moment that is told is V times that. To tell another V too, a whole
state is told in place of the server's (``certainty``).

In models that earlier versions made, each group gives an estimate of theta, and agents are told
their geometric median: the point with the least sum of distances. It stays near the honest groups'
estimates as long as more than half of the groups have no liar, however large the lies in the others
are. V is that of the whole in these.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.reading import LossyGramReading, LossyReading
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.reading import SketchReading
from fedbandit.core.memory.summary import Gram
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Base
from fedbandit.service.bookkeeping.recipes import server_at

_STEPS: Final = 50
_NEAR: Final = 1e-9  # a point this near, relative to the spread, is the median


def geometric_median(points: Array) -> Array:
    """Return the point with the least sum of distances to the points (n x d), by Weiszfeld's steps.

    They start at the median of each coordinate. Points that are too far off for their distance to
    be a number pull no more than none. Cost O(n d) a step, 50 steps at most.
    """
    guess: Array = np.median(points, axis=0)
    spread = float(np.median(np.abs(points - guess).max(axis=1)))
    if spread == 0.0:
        return guess
    for _ in range(_STEPS):
        distances = np.maximum(np.linalg.norm(points - guess, axis=1), _NEAR * spread)
        weights = 1.0 / distances
        better: Array = weights @ points / weights.sum()
        moved = float(np.abs(better - guess).max())
        guess = better
        if moved <= _NEAR * spread:
            break
    return guess


def told_moment(recipe: Recipe, whole: Server, groups: Mapping[int, Server]) -> Array:
    """Return the moment that agents are told: V times the median of the groups' estimates.

    Groups that have merged nothing have no say.
    """
    thetas = [each for each in map(partial(_estimate, recipe), groups.values()) if each is not None]
    if not thetas:
        return whole.moment
    with np.errstate(all="ignore"):  # numbers that are too large are found below
        told = moment_for(recipe, whole, geometric_median(np.array(thetas)))
        if not np.isfinite(told).all():
            told = moment_for(recipe, whole, np.median(thetas, axis=0))
    return told if np.isfinite(told).all() else whole.moment


def _estimate(recipe: Recipe, group: Server) -> Array | None:
    """Return a group's estimate; None if it has merged nothing, or has none that is finite."""
    if not group.count:
        return None
    try:
        with np.errstate(all="ignore"):
            theta = Base(group.statistics, recipe.parts.memory).theta
    except np.linalg.LinAlgError:
        return None
    return theta if np.isfinite(theta).all() else None


def moment_for(recipe: Recipe, whole: Server, theta: Array) -> Array:
    """Return V theta, with the V of the whole that estimates are made with."""
    memory, summary = recipe.parts.memory, whole.summary
    reading = memory.read(summary)
    match reading:
        case SketchReading():
            told = reading.estimate_ridge * theta + (summary.rows @ theta) @ summary.rows
        case LossyReading() | LossyGramReading() if reading.lift is None:
            rows_only = replace(summary, lost=0.0)
            told = summary.weight * rows_only.times(theta)
            told = told + (memory.ridge + summary.bound) * theta
        case _:
            told = memory.ridge * theta + _times(summary, theta)
    return np.asarray(told)


def _times(summary: Gram | LossyRows | LossyGram, theta: Array) -> Array:
    """Return what stands for X^T X, times theta."""
    return summary.matrix @ theta if isinstance(summary, Gram) else summary.times(theta)


def as_told(recipe: Recipe, server: Server, told: bytes) -> Server:
    """Return the server that agents are told of: itself if ``told`` is empty.

    ``told`` is its moment, in float64, or all of its state, if V is another one too.
    """
    if not told:
        return server
    if len(told) != server.moment.nbytes:
        other = server_at(recipe, told)
        other.version = server.version
        return other
    other = recipe.server()
    moment = np.frombuffer(told, "<f8").astype(np.float64)
    other.adopt(replace(server.statistics, moment=moment), version=server.version)
    return other
