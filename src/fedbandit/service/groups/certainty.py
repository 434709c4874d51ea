"""How much of what groups of agents sent is told: a share of each direction, and no more.

V = ridge I + sum of the G that groups sent. Where x^T V x is large, agents take what is known of x
for certain and try it no more: one that claims to have tried what others have not, and that it paid
nothing, keeps them from ever trying it. So of each G and its moment b only C = A G and A b are
told, with

    C <= share (room I + sum of all C),    room = 0.02 ridge                                (1)

in every direction (x^T C x for every x; room is 4e-12 of the trace of all G where that is more:
their rounding). With k lying groups the sum L of their C is at most
k share (room I + H + L), H the sum of the honest ones'. So, whatever they sent, they add no more
than

    L <= (room I + H) k share / (1 - k share),

for k < 1 / share: next to nothing to a direction that no honest group has seen.

How C is found is in ``shares``. A direction that fewer than 1 / share groups have seen is told as
if next to nobody had. But members of a group are told all that their own group sent: of what they
alone see they know as much as if they were alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.server import Server
from fedbandit.service.groups.shares import Share, cut_of_many, lowered, shares_kept
from fedbandit.service.groups.sums import SILENT, WHOLE, GroupSum, positive, sum_of, symmetric

_SHARES = 6.5  # of the average group's: what one may have of a direction
_FEWEST = 16.0  # groups that there are taken to be, so that the first ones are not believed alone
_WATCHED = 0.45  # the share of each of 24 groups that are watched, while nobody is doubted
_TINY = 1e-300
_HARDLY = 1e-12  # of what is told of a feature: a bound that says so little is not told
_STORED = 1e-6  # of all mass: what may be missing because sums are stored in float32


@dataclass(frozen=True, slots=True, eq=False)
class Excess:
    """What a group sent above its share: of V (d x d), and of the moment (d)."""

    matrix: Array
    moment: Array

    def scaled(self, share: float) -> "Excess":
        """Return a share of it."""
        return Excess(share * self.matrix, share * self.moment)


@dataclass(frozen=True, slots=True, eq=False)
class Fair:
    """The sums of groups as far as they are told, and theta, the estimate by all of them.

    ``own``: what was too much, by place in ``sums``. ``told`` is V as it is told (d x d), None
    where that could not be found, and ``bound`` the part of its diagonal that stands for what was
    lost, as much as ``lost`` (``FSCLB.lean``). ``cut`` says whether something was too much, also
    of what is in no sum.
    """

    theta: Array
    sums: Sequence[GroupSum]
    own: Mapping[int, Excess]
    told: Array | None = None
    cut: bool = False
    bound: Array | None = None
    lost: float = 0.0

    def inverse(self) -> Array | None:
        """Return V^-1 (d x d) for few features; of many it would take too long."""
        if self.told is None or len(self.told) > WHOLE:
            return None
        return np.asarray(np.linalg.inv(self.told))

    def mean(self) -> float:
        """Return the mean of the diagonal of V."""
        return inf if self.told is None else float(self.told.diagonal().mean())


def fair(
    memory: Memory,
    server: Server,
    sums: Sequence[GroupSum],
    *,
    sent: Sequence[GroupSum],
    trusted: Sequence[bool],
    watched: bool = False,
) -> Fair:
    """Return what of the sums is told. ``trusted``: those that may have more than their share.

    ``watched``: nobody is doubted, and shares are larger. ``sent``: the sums before they were
    tempered. What was merged and is in none has the share of a group. Cost O(N d^2) while none has
    too much; O(N d^3), and for each of those that are cut again with each step. Raises LinAlgError
    where numbers are too large.
    """
    ridge, d, weight = memory.ridge, len(server.moment), weight_of(memory, server)
    if not sums:
        return Fair(server.theta, sums, {})
    heard = sum(one.mass > SILENT * ridge for one in sums)
    share = _WATCHED if watched else _SHARES / max(heard, _FEWEST)
    if d > WHOLE:
        return _of_many_features(sums, ridge=ridge, weight=weight, share=share, trusted=trusted)
    seen = np.array([one.of_v(weight) for one in sums])
    if not isinstance(server.summary, Sketch):  # what that has shed is not told
        stored = sum((one.of_v(weight) for one in sent), np.zeros((d, d)))
        rest = sum_of(memory, server.statistics).of_v(weight) - stored
        least = _STORED * float(stored.trace())
        if not np.linalg.norm(rest) <= least:  # which bounds its eigenvalues
            seen = np.concatenate([seen, positive(rest, least=least)[None]])
    believed = [*trusted, False][: len(seen)]
    kept = shares_kept(seen, ridge=ridge, share=share, trusted=believed)
    told, left, own = seen.copy(), list(sums), dict[int, Excess]()
    for place, part in kept.items():
        told[place] = symmetric(part.half @ seen[place] @ part.half.T)
        if place < len(sums):
            left[place] = _shared(sums[place], part)
            moment = sums[place].moment - left[place].moment
            own[place] = Excess(seen[place] - told[place], moment)
    certain = _v(told, ridge)
    lost = _lost(sums, own, told[: len(sums)])
    return Fair(_estimate(left, ridge), left, own, certain, bool(kept), *lost)


def _v(told: Array, ridge: float) -> Array:
    """Return the ridge and the sum of all that is told (N x d x d), without rounding below 0."""
    total = told.sum(axis=0)
    try:
        np.linalg.cholesky(total + 0.5 * ridge * np.eye(len(total)))
    except np.linalg.LinAlgError:
        total = positive(total)
    return np.asarray(total + ridge * np.eye(len(total)))


def _shared(one: GroupSum, part: Share) -> GroupSum:
    """Return the share of a sum: B G B^T and A b, for the G of estimates."""
    matrix = symmetric(part.half @ _of_estimates(one) @ part.half.T)
    return _whole(one, matrix, part.once @ one.moment)


def _whole(one: GroupSum, matrix: Array, moment: Array) -> GroupSum:
    """Return a sum with another G, as a matrix, and another b."""
    nothing = np.zeros_like(one.moment)
    return replace(one, matrix=matrix, rows=one.rows[:0], spread=nothing, moment=moment)


def _estimate(sums: Sequence[GroupSum], ridge: float) -> Array:
    """Return the estimate by all sums. O(N d^2) and O(d^3)."""
    d = len(sums[0].moment)
    matrix = sum((one.square + np.diag(one.spread) for one in sums), ridge * np.eye(d))
    moment = sum((one.moment for one in sums), np.zeros(d))
    return np.asarray(np.linalg.solve(matrix, moment))


def _lost(sums: Sequence[GroupSum], own: Mapping[int, Excess], told: Array) -> tuple[Array, float]:
    """Return what is told of bounds (d) and losses, where ``told`` (N x d x d) is of V.

    A diagonal speaks of every direction: what a group says that it lost of each feature would speak
    of directions of which next to nothing of it is told. So of groups that are cut (``own``), no
    more is told as a diagonal than is in no direction more than what is told of them together.
    """
    d, cut = told.shape[1], sorted(own)
    bounds, losses = np.zeros(d), 0.0
    theirs, lost = np.zeros(d), 0.0
    for place, one in enumerate(sums):
        if place not in own:
            bounds, losses = bounds + one.diagonal_of_v, losses + float(one.spread.sum())
            continue
        left = np.maximum(told[place].diagonal(), 0.0)
        part = left / np.maximum(left + own[place].matrix.diagonal(), _TINY)
        theirs, lost = theirs + part * one.diagonal_of_v, lost + float(part @ one.spread)
    together = told[cut].sum(axis=0)
    theirs = np.where(theirs > _HARDLY * together.diagonal(), theirs, 0.0)
    within = _within(theirs, together) if theirs.any() else 0.0
    return bounds + within * theirs, losses + within * lost


def _within(diagonal: Array, matrix: Array) -> float:
    """Return the largest t <= 1 with t D <= matrix in every direction. O(d^3)."""
    some = diagonal > 0.0
    root = 1.0 / np.sqrt(diagonal[some])
    least = np.linalg.eigvalsh(root[:, None] * matrix[np.ix_(some, some)] * root)[0]
    return float(np.clip(least, 0.0, 1.0))


def _of_many_features(
    sums: Sequence[GroupSum], *, ridge: float, weight: float, share: float, trusted: Sequence[bool]
) -> Fair:
    """Return what is told of sums of many features."""
    seen = np.array([one.of_v(weight) for one in sums])
    told, left = seen.copy(), list(sums)
    alike = weight == 1.0 and all(np.array_equal(one.diagonal_of_v, one.spread) for one in sums)
    for place, by, of_v in cut_of_many(told, ridge=ridge, share=share, trusted=trusted):
        theirs = left[place]
        once, matrix = (of_v, told[place].copy()) if alike else lowered(_of_estimates(theirs), by)
        left[place] = _whole(theirs, matrix, once @ theirs.moment)
    own = {
        place: Excess(seen[place] - told[place], sums[place].moment - one.moment)
        for place, one in enumerate(left)
        if one is not sums[place]
    }
    certain = _v(told, ridge)
    lost = _lost(sums, own, told)
    return Fair(_estimate(left, ridge), left, own, certain, bool(own), *lost)


def _of_estimates(one: GroupSum) -> Array:
    """Return the G that estimates are solved with (d x d)."""
    return np.asarray(one.square + np.diag(one.spread))


def weight_of(memory: Memory, server: Server) -> float:
    """Return what rows are multiplied by in V, and not in G."""
    lossy = isinstance(memory, LossyMemory) and memory.corrected
    return float(server.summary.weight) if lossy else 1.0
