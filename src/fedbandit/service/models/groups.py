"""Groups of agents, for a model that few liars must not sway: how many, and who is in which.

What agents send is merged into the whole, as ever, and into the sum of the sender's group as well.
They are weighed (``models.weighing``). In models that earlier versions made, each group
gives an estimate of theta, and agents are told their geometric median: the point with the least sum
of distances. It stays near the honest groups' estimates as long as more than half of the groups
have no liar, however large the lies in the others are. V, the certainty, is that of the whole.

Agents need not know: a download carries V and a moment b, and its receiver computes theta = V^-1 b.
So the moment that it is told is V times the median.

Which group an agent is in depends on its name and on when the model was made, so that it cannot be
chosen from outside.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
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
from fedbandit.errors import InvalidParameter, complaint

MOST_GROUPS: Final = 256
FEWEST_GROUPS: Final = 5
"""Fewer do not outvote one."""

ADVISED_GROUPS: Final = 24
FEWEST_AGENTS: Final = 10
"""Fewer agents fill too few groups to tell a liar from the others."""

_KEYS, _CLOSED = 1000, 500
_STEPS: Final = 50
_NEAR: Final = 1e-9  # a point this near, relative to the spread, is the median


def group_of(created: float, groups: int, agent: str) -> int:
    """Return the group of an agent of the model that was made at this time."""
    if agent.startswith("/"):  # not an agent: what a whole group had sent, see ``undo``
        return int(agent[1:])
    digest = sha256(f"{created!r}/{agent}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % groups


def key_of(groups: int, number: int) -> int:
    """Return the key that the sum of a group is stored under: of these many groups, this one.

    So sums of other groups, of before, can lie beside it. ``key_of(1, 0)`` is for what was merged
    without groups.
    """
    return _KEYS * groups + number


def closed_key(key: int) -> int:
    """Return the key for the same group's sum of before parts of agents were kept."""
    return key if is_closed(key) else key + _CLOSED


def is_closed(key: int) -> bool:
    """Say whether a key is for what came before parts of agents were kept."""
    return key % _KEYS >= _CLOSED


def group_at(key: int) -> tuple[int, int]:
    """Return how many groups a key is for one of, and which."""
    return key // _KEYS, key % _KEYS % _CLOSED


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
    """Return the server with the moment that agents are told; itself if that is its own."""
    if not told:
        return server
    other = recipe.server()
    moment = np.frombuffer(told, "<f8").astype(np.float64)
    other.adopt(replace(server.statistics, moment=moment), version=server.version)
    return other


def check_groups(groups: int, *, weighed: bool = True) -> int:
    """Return the number of groups of a model; raise InvalidParameter if it is out of range."""
    if groups and not (FEWEST_GROUPS if weighed else 3) <= groups <= MOST_GROUPS:
        fix = "Choose three to four times the number of liars that it has to stand."
        expected = f"a whole number from {FEWEST_GROUPS} to {MOST_GROUPS}, or 0 for none"
        raise InvalidParameter(complaint("groups", got=groups, expected=expected, fix=fix))
    return groups
