"""How much of what groups of agents sent is told: a share of each direction, and no more.

V = ridge I + sum of the G that groups sent. Where x^T V x is large, agents take what is known of x
for certain and try it no more: one that claims to have tried what others have not, and that it paid
nothing, keeps them from ever trying it. So of each G and its moment b only C = A G and A b are
told, with

    C <= share (room I + sum of all C),    room = 0.02 ridge                                (1)

in every direction (x^T C x for every x; room is 1e-14 of the trace of all G where that is more:
their rounding). With k lying groups the sum L of their C is at most
k share (room I + H + L), H the sum of the honest ones'. So, whatever they sent, they add no more
than

    L <= (room I + H) k share / (1 - k share),

for k < 1 / share: next to nothing to a direction that no honest group has seen.

C is found in steps. First, features that a group has seen apart from all others (arms with a
feature of their own) are cut one by one, C = S G S with a diagonal S. Then, with W = room I + sum
of C, the eigenvalues of W^-1/2 C W^-1/2 that are above the share are cut to what it is beside the
other groups', and W is made anew. A
direction that fewer than 1 / share groups have seen is told as if next to nobody had. But members
of a group are told all that their own group sent: of what they alone see they know as much as if
they were alone.

With more than ``WHOLE`` features the steps by directions take too long. There (1) is held for x
that are one of the features, and then for the few directions of which a group has most. For those
X of which G has too much, as much noise is added as leaves the share k of each, if it were alone:

    C = (G^-1 + X K^-1 X^T)^-1 = A G,    A = I - G X (X^T G X + K)^-1 X^T,

K the diagonal matrix of k g / (g - k), g the diagonal of X^T G X. So C <= G, whatever features go
together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.server import Server
from fedbandit.service.groups.sums import SILENT, WHOLE, GroupSum, positive, sum_of, symmetric

_SHARES = 6.5  # of the average group's: what one may have of a direction
_FEWEST = 16.0  # groups that there are taken to be, so that the first ones are not believed alone
_SLACK = 1.3
_ROOM = 0.02  # of the ridge: what one group may claim of what nobody else has seen, with its share
_STEPS, _LOOKS = 40, 8
_FEW_STEPS, _BLOCK = 6, 8  # with many features: how often, and how many directions at once
_APART = 1e-9  # of its own: what a feature that goes with no other has with others
_ROUNDING, _TINY = 1e-14, 1e-300
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


class Share(NamedTuple):
    """A and B of a group, with C = A G = B G B^T."""

    once: Array
    half: Array

    def of(self, one: GroupSum) -> GroupSum:
        """Return the share of a sum: B G B^T and A b, for the G of estimates."""
        sent, nothing = one.square + np.diag(one.spread), np.zeros_like(one.moment)
        matrix, moment = symmetric(self.half @ sent @ self.half.T), self.once @ one.moment
        return replace(one, matrix=matrix, rows=one.rows[:0], spread=nothing, moment=moment)


def fair(
    memory: Memory,
    server: Server,
    sums: Sequence[GroupSum],
    *,
    sent: Sequence[GroupSum],
    trusted: Sequence[bool],
) -> Fair:
    """Return what of the sums is told. ``trusted``: those that may have more than their share.

    ``sent``: the sums before they were tempered. What was merged and is in none has the share of a
    group. Cost O(N d^2) while none has too much; O(N d^3), and for each of those that are cut again
    with each step. Raises LinAlgError where numbers are too large.
    """
    ridge, d, weight = memory.ridge, len(server.moment), weight_of(memory, server)
    if not sums:
        return Fair(server.theta, sums, {})
    share = _SHARES / max(sum(one.mass > SILENT * ridge for one in sums), _FEWEST)
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
            left[place] = part.of(sums[place])
            moment = sums[place].moment - left[place].moment
            own[place] = Excess(seen[place] - told[place], moment)
    certain = ridge * np.eye(d) + told.sum(axis=0)
    parts = told.diagonal(axis1=1, axis2=2) / np.maximum(seen.diagonal(axis1=1, axis2=2), _TINY)
    lost = _lost(sums, parts[: len(sums)])
    return Fair(_estimate(left, ridge), left, own, certain, bool(kept), *lost)


def _estimate(sums: Sequence[GroupSum], ridge: float) -> Array:
    """Return the estimate by all sums. O(N d^2) and O(d^3)."""
    d = len(sums[0].moment)
    matrix = sum((one.square + np.diag(one.spread) for one in sums), ridge * np.eye(d))
    moment = sum((one.moment for one in sums), np.zeros(d))
    return np.asarray(np.linalg.solve(matrix, moment))


def _lost(sums: Sequence[GroupSum], parts: Array) -> tuple[Array, float]:
    """Return what is told of bounds and losses, where ``parts`` of diagonals are told (N x d)."""
    bounds, losses = (np.array([one.diagonal_of_v for one in sums]), [one.spread for one in sums])
    return (parts * bounds).sum(axis=0), float((parts * np.array(losses)).sum())


def _of_many_features(
    sums: Sequence[GroupSum], *, ridge: float, weight: float, share: float, trusted: Sequence[bool]
) -> Fair:
    """Return what is told of sums of many features: a share of each, and of a few directions."""
    seen = np.array([one.of_v(weight) for one in sums])
    held = seen.diagonal(axis1=1, axis2=2)
    parts = coordinates_kept(held, room=_ROOM * ridge, share=share, trusted=trusted)
    told, left = seen.copy(), list(sums)
    for place in np.flatnonzero((parts < 1.0).any(axis=1)).tolist():
        told[place] = lowered(seen[place], parts[place])[1]
        left[place] = _multiplied(sums[place], lowered(_of_estimates(sums[place]), parts[place]))
    _cut_directions(told, left, room=_ROOM * ridge, share=share, trusted=trusted)
    own = {
        place: Excess(seen[place] - told[place], sums[place].moment - one.moment)
        for place, one in enumerate(left)
        if one is not sums[place]
    }
    parts = told.diagonal(axis1=1, axis2=2) / np.maximum(held, _TINY)
    certain = ridge * np.eye(held.shape[1]) + told.sum(axis=0)
    return Fair(_estimate(left, ridge), left, own, certain, bool(own), *_lost(sums, parts))


def _of_estimates(one: GroupSum) -> Array:
    """Return the G that estimates are solved with (d x d)."""
    return np.asarray(one.square + np.diag(one.spread))


def _multiplied(one: GroupSum, by: tuple[Array, Array]) -> GroupSum:
    """Return a sum with A G and A b for G and b, of A and A G."""
    moment, nothing = by[0] @ one.moment, np.zeros_like(one.moment)
    return replace(one, matrix=by[1], rows=one.rows[:0], spread=nothing, moment=moment)


def _cut_directions(
    told: Array, left: list[GroupSum], *, room: float, share: float, trusted: Sequence[bool]
) -> None:
    """Cut the ``_BLOCK`` directions of which each group has most, of V and of sums, in place."""
    held_back, one = ~np.asarray(trusted, dtype=bool), np.eye(told.shape[1])
    room = max(room, _ROUNDING * float(np.trace(told.sum(axis=0))))
    for _ in range(_FEW_STEPS):
        inverse = np.linalg.inv(np.linalg.cholesky(room * one + told.sum(axis=0)))
        over = np.flatnonzero(held_back & (_about_most(told, inverse) > share)).tolist()
        for place in over:
            most, directions = _largest(told[place], inverse)
            much = most > share
            x = inverse.T @ directions[:, much]
            noise = most[much] * (share / _SLACK) / (most[much] - share / _SLACK)
            told[place] = noisy(told[place], x, noise)[1]
            left[place] = _multiplied(left[place], noisy(_of_estimates(left[place]), x, noise))
        if not over:
            break


def _largest(matrix: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the largest eigenvalues of W^-1/2 C W^-1/2 and their vectors (d x k), about."""
    y = np.random.default_rng().standard_normal((len(matrix), _BLOCK))
    for _ in range(_LOOKS):
        y = np.linalg.qr(inverse @ (matrix @ (inverse.T @ y)))[0]
    values, turned = np.linalg.eigh(y.T @ (inverse @ (matrix @ (inverse.T @ y))))
    return np.asarray(values), np.asarray(y @ turned)


def noisy(matrix: Array, x: Array, noise: Array) -> tuple[Array, Array]:
    """Return A and A G for a G (d x d), with noise added along the columns of x (d x k)."""
    along = matrix @ x
    once = np.eye(len(matrix)) - along @ np.linalg.solve(x.T @ along + np.diag(noise), x.T)
    return once, symmetric(once @ matrix)


def lowered(matrix: Array, parts: Array) -> tuple[Array, Array]:
    """Return A and A G for a G (d x d): of each diagonal element no more than its part is left."""
    cut, held = np.flatnonzero(parts < 1.0), matrix.diagonal()
    if not is_apart(matrix, cut):
        noise = parts[cut] * held[cut] / (1.0 - parts[cut]) + _TINY
        return noisy(matrix, np.eye(len(matrix))[:, cut], noise)
    return np.diag(parts), symmetric(parts[:, None] * matrix)


def is_apart(matrix: Array, cut: NDArray[np.intp]) -> bool:
    """Say whether these features of G go together with no others, nor with each other."""
    columns = np.abs(matrix[:, cut])
    beside = columns.sum(axis=0) - columns[cut, np.arange(len(cut))]
    return bool((beside <= _APART * matrix.diagonal()[cut]).all())


def coordinates_kept(held: Array, *, room: float, share: float, trusted: Sequence[bool]) -> Array:
    """Return what part of each diagonal is told (N x d): of too much, a little less than the share.

    ``held``: the diagonals of G.
    """
    past = np.asarray(trusted, dtype=bool)
    theirs, room_for = held[~past], room + held[past].sum(axis=0)
    most = most_of(theirs, share=share, room=room_for)
    least = most_of(theirs, share=share / _SLACK, room=room_for)
    return np.where((held > most) & ~past[:, None], least / np.maximum(held, _TINY), 1.0)


def most_of(held: Array, *, share: float, room: Array) -> Array:
    """Return the largest c with c = share (room + sum of min(held, c)), by column (N x d to d).

    With the k largest cut to it, c = share (room + sum of the others) / (1 - k share). It is more
    than all that are held where none is cut.
    """
    ordered = np.sort(held, axis=0)[::-1]
    found, done = np.zeros_like(room), np.zeros(len(room), dtype=bool)
    for k in range(len(held) + 1):
        if k * share >= 1.0:
            break
        c = share * (room + ordered[k:].sum(axis=0)) / (1.0 - k * share)
        ends = ~done & ((ordered[k] <= c) if k < len(held) else True)
        found, done = np.where(ends, c, found), done | ends
    return found


def weight_of(memory: Memory, server: Server) -> float:
    """Return what rows are multiplied by in V, and not in G."""
    lossy = isinstance(memory, LossyMemory) and memory.corrected
    return float(server.summary.weight) if lossy else 1.0


def shares_kept(
    seen: Array, *, ridge: float, share: float, trusted: Sequence[bool]
) -> dict[int, Share]:
    """Return the shares of those of ``seen`` G (N x d x d) that have more than ``share``.

    They are cut to a little less, so that groups that have about as much stay as they are. What k
    groups alone have of a direction falls to k share of it with each step.
    """
    told, one, cut = seen.copy(), np.eye(seen.shape[1]), share / _SLACK
    room = max(_ROOM * ridge, _ROUNDING * float(np.trace(seen.sum(axis=0))))
    held_back = ~np.asarray(trusted, dtype=bool)
    kept = dict[int, Share]()
    held = told.diagonal(axis1=1, axis2=2)
    parts = coordinates_kept(held, room=room, share=share, trusted=trusted)
    for place, part in enumerate(parts):
        few = np.flatnonzero(part < 1.0)
        if len(few) and is_apart(told[place], few):
            half = np.sqrt(part)
            kept[place] = Share(np.diag(part), np.diag(half))
            told[place] *= half[:, None] * half
    for step in range(_STEPS):
        root = np.linalg.cholesky(room * one + told.sum(axis=0))
        inverse = np.linalg.inv(root)
        over = np.flatnonzero(held_back & (_about_most(told, inverse) > share))
        if not len(over) and not step:
            break
        if not len(over):
            most = np.linalg.eigvalsh(inverse @ told @ inverse.T)[:, -1]
            over = np.flatnonzero(held_back & (most > share))
        if not len(over):
            break
        values, vectors = np.linalg.eigh(inverse @ told[over] @ inverse.T)
        scales = np.minimum(1.0, _allowed(values, cut) / np.maximum(values, cut))[:, None, :]
        turned, back = root @ vectors, vectors.transpose(0, 2, 1) @ inverse
        steps = zip((turned * scales) @ back, (turned * np.sqrt(scales)) @ back, strict=True)
        for place, (once, half) in zip(over.tolist(), steps, strict=True):
            before = kept.get(place, Share(one, one))
            kept[place] = Share(once @ before.once, half @ before.half)
        told[over] = (turned * (values[:, None, :] * scales)) @ turned.transpose(0, 2, 1)
    return kept


def _about_most(told: Array, inverse: Array) -> Array:
    """Return the largest eigenvalue of each W^-1/2 C W^-1/2, or somewhat less, in O(d^2) each."""
    start = np.random.default_rng().standard_normal((told.shape[1], 1))  # so nobody knows it
    y = np.broadcast_to(start / np.linalg.norm(start), (len(told), told.shape[1], 1))
    length = np.ones((len(told), 1, 1))
    for _ in range(_LOOKS):
        y = inverse @ (told @ (inverse.T @ (y / np.maximum(length, _TINY))))
        length = np.linalg.norm(y, axis=1, keepdims=True)
    return np.asarray(length[:, 0, 0])


def _allowed(values: Array, share: float) -> Array:
    """Return what a group may have where it has these parts of all: its share, beside the others'.

    Of those that have more than their share; more than the part itself for the others.
    """
    rest = np.maximum(1.0 - values, 0.0) * (share / (1.0 - share))
    return np.asarray(np.where(values > share, rest, share))


def is_told_anew(whole: Server, part: Fair) -> bool:
    """Say whether agents are told another V than the whole's.

    Of sketches always: what one lost when it was merged cannot be told apart by group.
    """
    return part.told is not None and (isinstance(whole.summary, Sketch) or part.cut)


def lessened(memory: Any, summary: Any, part: Fair, own: Excess | None = None) -> Any:
    """Return a summary with the V of ``part``, no more than the whole's ``summary`` has.

    Nothing is subtracted from the whole's: that may be so much larger that no digits are left.
    ``own``: what is told beside. Cost O(d^3).
    """
    if part.told is None:
        raise ValueError("no V is told")
    seen = part.told - memory.ridge * np.eye(len(part.told))
    seen = seen if own is None else seen + own.matrix
    match summary:
        case Gram():
            return Gram(positive(seen), summary.shed)
        case LossyGram():
            kept, bound, lost = _lossy(memory, summary, seen, part)
            return LossyGram(kept, bound, lost, summary.weight)
        case LossyRows():
            kept, bound, lost = _lossy(memory, summary, seen, part)
            return LossyRows(_longest(kept, len(summary.rows))[0], bound, lost, summary.weight)
        case Sketch():
            rows, shed = _longest(seen, summary.size - 1)
            smaller = summary.scaled(min(1.0, shed / max(summary.shed, _TINY)))
            shed = shed if memory.compensated else summary.shed
            return Sketch(rows, shed, summary.size, smaller.lost)
    raise TypeError(f"no less of a {type(summary).__name__}")


def _lossy(
    memory: LossyMemory, summary: LossyGram | LossyRows, seen: Array, part: Fair
) -> tuple[Array, Array, float]:
    """Return S^T S, bound and lost: bounds of groups are told as far as their diagonals are.

    So a bound that a liar claims takes no rows of others away.
    """
    told = np.zeros(len(seen)) if part.bound is None else part.bound
    bound = np.clip(np.minimum(told, summary.bound), 0.0, np.maximum(seen.diagonal(), 0.0))
    lost = summary.lost * float(bound.sum()) / max(float(summary.bound.sum()), _TINY)
    lost = min(part.lost, float(bound.sum())) if memory.corrected else lost
    return positive((seen - np.diag(bound)) / summary.weight), bound, lost


def _longest(matrix: Array, most: int) -> tuple[Array, float]:
    """Return at most so many orthogonal rows S, and s: matrix <= S^T S + s I."""
    values, vectors = np.linalg.eigh(matrix)
    rest = max(float(values[-most - 1]), 0.0) if most < len(values) else 0.0
    kept = values[-most:] > rest
    squares = values[-most:][kept] - rest
    return np.sqrt(squares)[:, None] * vectors.T[-most:][kept], rest
