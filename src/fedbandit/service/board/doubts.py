"""Groups of agents that stand out, so that what they sent counts less (``groups.weighed``)."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.groups.membership import group_at, key_for
from fedbandit.service.groups.weighed import StandsOut, WeighedGroups
from fedbandit.service.storage.contract import Model, Store

_NAMED = 20


def doubts_view(
    store: Store, model: Model, recipe: Recipe, whole: Server, agents: Mapping[str, MergedUploads]
) -> list[dict[str, Any]]:
    """Return those groups, the least weight first, each with its agents; mostly none."""
    if not (model.weighed and model.told):
        return []
    found = agents_standing_out(recipe, model, whole, store.groups(model.name), agents)
    return [
        {
            "group": group_at(each.key)[1],
            "weight": each.weight,
            "contradicts": each.contradicts,
            "share": each.share,
            "agents": names,
        }
        for each, names in found
    ]


def agents_standing_out(
    recipe: Recipe,
    model: Model,
    whole: Server,
    stored: Mapping[int, bytes],
    agents: Mapping[str, MergedUploads],
) -> list[tuple[StandsOut, list[str]]]:
    """Return the groups that stand out, the least weight first, each with its agents.

    No agents for what was merged without groups.
    """
    groups = WeighedGroups(recipe, watched=model.watched)
    groups.read(stored)
    found, names = groups.standing_out(whole), sorted(agents)

    def members(key: int) -> list[str]:
        many, number = group_at(key)
        theirs = [] if many == 1 else names
        return [
            name
            for name in theirs
            if group_at(key_for(model.created, many, name, agents[name].place)) == (many, number)
        ]

    return [(each, members(each.key)) for each in sorted(found, key=lambda each: each.weight)]


def doubts_sentences(doubted: Iterable[dict[str, Any]]) -> list[str]:
    """Return the same in words, a line a group."""
    return [
        f"group {each['group']} {_why(each)}, and {_how_much(each['weight'])} of what it "
        f"sent counts: {_whom(each['agents'])}"
        for each in doubted
    ]


def _why(each: dict[str, Any]) -> str:
    if each["contradicts"]:
        return "contradicts the others"
    return f"has {each['share']:.0%} of all mass"


def _how_much(weight: float) -> str:
    return "less than 1 %" if weight < 0.01 else f"{weight:.0%}"


def _whom(agents: list[str]) -> str:
    if not agents:
        return "it is a log, or what was merged before the groups were set"
    more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
    return f"look at {', '.join(agents[:_NAMED])}{more}"
