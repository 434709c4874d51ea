"""Parts: what each agent sent, kept beside the state, so that it can be taken out again.

Those of one agent are folded into one once they are many, but never across a snapshot. What was
merged before parts were kept belongs to no agent: it is one part, or one for each group of before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from msgspec import structs

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
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

MOST_SINGLE: Final = 64
"""So many uploads of an agent between two snapshots are folded into one, however small they are."""

_TOGETHER = 64  # parts that are merged by one shrink


def keep_parts(
    recipe: Recipe,
    locked: Locked,
    new: Sequence[tuple[str, int, Upload]],
    merged: Mapping[str, MergedUploads],
) -> dict[str, MergedUploads]:
    """Keep uploads (sender, version, upload) as parts; return what is to be noted of the senders.

    Costs a row for each upload. Every ``LOOSE`` of an agent, its parts since the newest snapshot
    are read, and folded if there are enough of them.
    """
    locked.past.add_parts([_part(agent, version, each.statistics) for agent, version, each in new])
    noted = dict(merged)
    for agent in merged:
        loose = merged[agent].loose + sum(sender == agent for sender, _, _ in new)
        if loose >= LOOSE:
            _compact(recipe, locked, agent, loose)
            loose = 0
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


def _compact(recipe: Recipe, locked: Locked, agent: str, loose: int) -> None:
    """Fold the parts of an agent that no snapshot lies between, where there are enough of them.

    ``loose`` of them are new since the last time. What came after the newest snapshot is looked at;
    the first time after it all is, as snapshots that lay between may have gone when it was taken.
    """
    past, empty = locked.past, recipe.parts.memory.empty_server()
    least = len(wire.encode(Download(empty, 0)))
    bounds = [each.version for each in past.snapshots()]
    parts = past.parts(agent, after=max(bounds, default=0))
    if len(parts) <= loose:  # nothing is left there of a last time
        parts = past.parts(agent)
    for group in groups(parts, bounds):
        if _is_enough(group, least):
            _fold(recipe, locked, group)


def _is_enough(group: Sequence[Part], least: int) -> bool:
    """Say whether it is time to fold parts that no snapshot lies between.

    Where something was folded already, what came since has to be worth it again: a server that
    keeps everything has a matrix, of ``least`` bytes, for a few short rows. Two that were folded
    are always made one, or there would be more of them with each snapshot that goes.
    """
    single = [each for each in group if each.first == each.last]
    room = sum(len(each.data) for each in single)
    many = len(single) >= MOST_SINGLE or room > least or len(group) - len(single) > 1
    return many and len(group) > 1


def _fold(recipe: Recipe, locked: Locked, group: Sequence[Part]) -> None:
    """Put the merge of some parts of one agent in their place."""
    agent, first, last = group[0].agent, group[0].first, group[-1].last
    merged = merged_parts(recipe, lambda: iter(group), lambda _: (WHOLE,))[WHOLE]
    locked.past.drop_parts(agent, after=first - 1, upto=last)
    locked.past.add_parts([replace(_part(agent, last, merged), first=first)])


def _part(agent: str, version: int, statistics: Statistics) -> Part:
    return Part(agent, version, version, wire.encode(Download(statistics, version)))


def read_part(part: Part) -> Statistics:
    """Return what a part holds; raise InvalidState if it cannot be read."""
    try:
        message = wire.decode_download(part.data)
    except InvalidMessage as error:
        fix = "Restore a backup."
        raise InvalidState(f"A part of {part.agent!r} cannot be read ({error}). {fix}") from error
    return message.statistics


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
