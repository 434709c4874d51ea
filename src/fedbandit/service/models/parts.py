"""Parts: what each agent sent, kept beside the state, so that it can be taken out again.

Those of one agent are merged, but never across a snapshot. What was merged before parts were kept
belongs to no agent: it is one part, or one for each group of before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
from msgspec import structs

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Base, Statistics
from fedbandit.errors import InvalidMessage, InvalidState
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import LOOSE, Part, groups
from fedbandit.service.groups.membership import MOST_GROUPS
from fedbandit.service.storage.contract import Locked

WHOLE: Final = -1
"""In place of the number of a group: everything."""

_TOGETHER = 64  # parts that are merged by one shrink


def keep_parts(
    recipe: Recipe,
    locked: Locked,
    new: Sequence[tuple[str, int, Upload]],
    merged: Mapping[str, MergedUploads],
) -> dict[str, MergedUploads]:
    """Keep uploads (sender, version, upload) as parts; return what is to be noted of the senders.

    Costs a row for each upload, and a merge of ``LOOSE`` parts for every ``LOOSE`` of an agent.
    """
    locked.past.add_parts([_part(agent, version, each.statistics) for agent, version, each in new])
    noted = dict(merged)
    for agent in merged:
        loose = merged[agent].loose + sum(sender == agent for sender, _, _ in new)
        if loose >= LOOSE:
            loose = 0
            _compact(recipe, locked, agent)
        noted[agent] = structs.replace(merged[agent], loose=loose)
    return noted


def unattributed(version: int, state: bytes, groups: Mapping[int, bytes]) -> list[Part]:
    """Return what was merged up to a version as parts that belong to no agent.

    One for each group if there are any: "/0", "/1", ... are the names of none.
    """
    if not groups:
        return [Part("", 1, version, state)]
    return [Part(f"/{number}", 1, version, each) for number, each in groups.items()]


def began(locked: Locked) -> int:
    """Return the version up to which it is not known which agent sent what; 0 if it always is."""
    parts = (part for name in unattributed_names() for part in locked.past.parts(name))
    return max((part.last for part in parts), default=0)


def unattributed_names() -> list[str]:
    """Return the names that parts of no agent can have."""
    return ["", *(f"/{number}" for number in range(MOST_GROUPS))]


def _compact(recipe: Recipe, locked: Locked, agent: str) -> None:
    """Merge the parts of an agent that no snapshot lies between, where that saves room.

    A server that keeps everything has a matrix for a few short rows. Merged into one of those,
    small uploads would take many times what was sent.
    """
    past, least = locked.past, len(wire.encode(recipe.server().whole()))
    bounds = [each.version for each in past.snapshots()]
    for group in groups(past.parts(agent), bounds):
        if len(group) > 1 and sum(len(each.data) for each in group) > least:
            merged = merged_parts(recipe, partial(iter, group), lambda _: (WHOLE,))[WHOLE]
            first, last = group[0].first, group[-1].last
            past.drop_parts(agent, after=first - 1, upto=last)
            past.add_parts([replace(_part(agent, last, merged), first=first)])


def _part(agent: str, version: int, statistics: Statistics) -> Part:
    return Part(agent, version, version, wire.encode(Download(statistics, version)))


def read_part(part: Part) -> Statistics:
    """Return what a part holds; raise InvalidState if it cannot be read."""
    try:
        message = wire.decode_download(part.data)
    except InvalidMessage as error:
        fix = "Restore a backup."
        raise InvalidState(f"A part of {part.agent!r} cannot be read ({error}). {fix}") from error
    summary = message.statistics.summary
    if not isinstance(summary, LossyGram):
        return message.statistics
    return replace(message.statistics, summary=_as_rows(summary))


def _as_rows(whole: LossyGram) -> LossyRows:
    """Return the matrix of a server that keeps everything as rows, which can be merged. O(d^3).

    S^T S = matrix; negative eigenvalues are rounding.
    """
    squares, directions = np.linalg.eigh(whole.matrix)
    kept = squares > 0.0
    rows = np.sqrt(squares[kept])[:, None] * directions.T[kept]
    return LossyRows(rows, whole.bound, whole.lost, whole.weight)


def merged_parts(
    recipe: Recipe, parts: Callable[[], Iterator[Part]], places: Callable[[Part], tuple[int, ...]]
) -> dict[int, Statistics]:
    """Merge parts from nothing, each into every one of its ``places``; return what is in each.

    A corrected estimate needs an estimate to correct with: that of the same parts, merged before.
    """
    memory = recipe.parts.memory
    first = _merged_with(recipe, parts(), places, {})
    references = {place: memory.reference(Base(first[place], memory)) for place in first}
    if all(each is None for each in references.values()):
        return first
    return _merged_with(recipe, parts(), places, references)


def _merged_with(
    recipe: Recipe,
    parts: Iterator[Part],
    places: Callable[[Part], tuple[int, ...]],
    references: Mapping[int, Array | None],
) -> dict[int, Statistics]:
    """Merge parts as they come, as many as one shrink takes together."""
    memory, sums = recipe.parts.memory, dict[int, Statistics]()
    while some := [(places(part), read_part(part)) for part in islice(parts, _TOGETHER)]:
        for place in {place for where, _ in some for place in where}:
            theirs = [each for where, each in some if place in where]
            ours = sums.get(place) or memory.empty_server()
            sums[place] = memory.merged(ours, theirs, references.get(place))
    return sums
