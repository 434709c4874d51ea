"""Of matrices G that groups of agents sent, the shares C that are told (see ``certainty``).

With W = room I + sum of all C, and in every direction,

    C <= share W.                                                                          (1)

C is found in steps. First, features that a group has seen apart from all others (arms with a
feature of their own) are cut one by one, C = S G S with a diagonal S. Then the eigenvalues of
W^-1/2 C W^-1/2 that are above the share are cut to what it is beside the other groups', and W is
made anew.

With many features that takes too long. There, groups that have more than their share of some
direction are cut in all of them at once, beside the W' = W - C of the others:

    C = (G^-1 + (k W')^-1)^-1 = A G,    A = I - G (G + k W')^-1,    k = share / (1 - share).

So C <= G, whatever features go together, and C <= k W', which is (1) for this W'. Where G is small
next to k W', nearly all of it is left.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.groups.sums import symmetric

_SLACK = 1.3
_ROOM = 0.02  # of the ridge: what one group may claim of what nobody else has seen, with its share
_STEPS, _LOOKS = 40, 8
_CUTS = 240  # of all groups together, with many features; next to none needs more than 160
_APART = 1e-9  # of its own: what a feature that goes with no other has with others
_ROUNDING = 4e-12  # of the trace of all G: what the door takes for rounding of one, and some more
_TINY = 1e-300


class Share(NamedTuple):
    """A and B of a group, with C = A G = B G B^T."""

    once: Array
    half: Array


def shares_kept(
    seen: Array, *, ridge: float, share: float, trusted: Sequence[bool]
) -> dict[int, Share]:
    """Return the shares of those of ``seen`` G (N x d x d) that have more than ``share``.

    They are cut to a little less, so that groups that have about as much stay as they are. What k
    groups alone have of a direction falls to k share of it with each step. Cost O(d^3) a step, and
    again for each group that is cut in it.
    """
    told, one, cut = seen.copy(), np.eye(seen.shape[1]), share / _SLACK
    room, held_back = _room(seen, ridge), ~np.asarray(trusted, dtype=bool)
    kept = dict[int, Share]()
    for place, part in _features_apart(told, room=room, share=share, trusted=trusted):
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


def cut_of_many(
    told: Array, *, ridge: float, share: float, trusted: Sequence[bool]
) -> Iterator[tuple[int, Array, Array]]:
    """Cut G of many features to C = A G, in place (N x d x d); yield who is cut by what, and A.

    By what: the part of each feature that is left (d), or k W' (d x d). What k groups alone have of
    a direction falls to about share of it with each cut. Cost O(d^3) for each, and for each step.
    """
    room, cut = _room(told, ridge), share / _SLACK
    held_back, one = ~np.asarray(trusted, dtype=bool), np.eye(told.shape[1])
    for place, part in _features_apart(told, room=room, share=share, trusted=trusted):
        once, told[place] = lowered(told[place], part)
        yield place, part, once
    whole, cuts = room * one + told.sum(axis=0), 0
    for _ in range(_STEPS):
        most = _about_most(told, np.linalg.inv(np.linalg.cholesky(whole)))
        over = np.flatnonzero(held_back & (most > share))
        for place in over[np.argsort(-most[over])].tolist():
            others = whole - told[place]
            limit = symmetric(others) * (cut / (1.0 - cut))
            once, told[place] = lowered(told[place], limit)
            whole = others + told[place]
            yield place, limit, once
        cuts += len(over)
        if not len(over) or cuts >= _CUTS:
            break


def lowered(matrix: Array, by: Array) -> tuple[Array, Array]:
    """Return A and C = A G for a G (d x d), so that C <= G.

    By the parts of its features (d), which go with no others: C = S G S with S^2 = diag(by). By a
    matrix M > 0 (d x d): C = (G^-1 + M^-1)^-1, so that C <= M too.
    """
    if by.ndim == 1:
        return np.diag(by), symmetric(np.sqrt(by)[:, None] * matrix * np.sqrt(by))
    once = np.eye(len(matrix)) - np.linalg.solve(matrix + by, matrix).T
    return once, symmetric(once @ matrix)


def _room(seen: Array, ridge: float) -> float:
    """Return the room; more than 0.02 ridge where all G are so large that it would be rounding."""
    return max(_ROOM * ridge, _ROUNDING * float(np.trace(seen.sum(axis=0))))


def _features_apart(
    seen: Array, *, room: float, share: float, trusted: Sequence[bool]
) -> Iterator[tuple[int, Array]]:
    """Yield groups that have too much of features that go with no others, and the part told."""
    held = seen.diagonal(axis1=1, axis2=2)
    parts = coordinates_kept(held, room=room, share=share, trusted=trusted)
    for place, part in enumerate(parts):
        cut = np.flatnonzero(part < 1.0)
        if len(cut) and is_apart(seen[place], cut):
            yield place, part


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
    return np.where((held > most) & ~past[:, None], least / np.maximum(held, least), 1.0)


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
