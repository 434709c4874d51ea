"""Stored sums of groups made anew: from states, from what was sent, and for what came before."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Statistics
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.membership import closed_key, key_of
from fedbandit.service.groups.sums import GroupSum, nothing, packed, sum_of, unpacked

_TOGETHER = 8  # rows of so many uploads are put together in one go


def sums_of_states(
    recipe: Recipe, many: int, states: Mapping[int, bytes], whole: Server
) -> dict[int, bytes]:
    """Return the sums of groups that were not weighed, from their states; or of the whole, as one.

    ``many``: how many groups they were one of, 1 if that is not known.
    """
    memory, server = recipe.parts.memory, partial(server_at, recipe)
    if not states:
        return {key_of(1, 0): packed(sum_of(memory, whole.statistics))} if whole.count else {}
    return {
        key_of(many, number): packed(sum_of(memory, server(state).statistics))
        for number, state in states.items()
    }


def closed(stored: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return stored sums as those of before parts were kept: nothing is added to them any more."""
    sums: dict[int, GroupSum] = {}
    for key, data in stored.items():
        place, total = closed_key(key), unpacked(data)
        sums[place] = total.plus([sums[place]]) if place in sums else total
    return {key: packed(each) for key, each in sums.items()}


def summed(recipe: Recipe, sent: Iterable[tuple[int, Statistics]]) -> dict[int, bytes]:
    """Return the sums of what was sent, each with the number of its group, as they are stored."""
    memory, sums = recipe.parts.memory, dict[int, GroupSum]()
    waiting = defaultdict[int, list[GroupSum]](list)

    def add_up(number: int) -> None:
        ours = sums.get(number) or nothing(memory)
        sums[number] = ours.plus(waiting.pop(number))

    for number, statistics in sent:
        piece = sum_of(memory, statistics)
        waiting[number].append(piece)
        if piece.matrix is not None or len(waiting[number]) >= _TOGETHER:
            add_up(number)
    for number in list(waiting):
        add_up(number)
    return {number: packed(each) for number, each in sums.items()}
