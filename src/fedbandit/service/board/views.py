"""What the board shows, read from the store as plain values for JSON."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np

from fedbandit.errors import InvalidState
from fedbandit.service.board.comparing import as_told, beginning_and_lately, error_of, verdict
from fedbandit.service.board.doubts import doubts_view
from fedbandit.service.board.savings import savings_of
from fedbandit.service.board.shadows import shadow_view
from fedbandit.service.board.spectrum import spectrum_of
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.progress import (
    DAY,
    HOUR,
    MINUTE,
    NO_PROGRESS,
    Period,
    Progress,
    Refused,
    start_of,
    summed,
)
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.models.model import recipe_of
from fedbandit.service.storage.contract import Model, Store

Range = Literal["hour", "day", "month", "all"]
RANGES: Final = get_args(Range)
MOST_AGENTS: Final = 200
"""Agents that are listed; those with most observations."""
_SECONDS: Final = {"hour": HOUR, "day": DAY, "month": 30 * DAY}
_STEPS: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
_POINTS = 100  # of a line, about

View = dict[str, Any]


def overview(store: Store) -> list[View]:
    """Return the models, each with a line of its average reward."""
    return [_card(store, model) for model in store.models()]


def _card(store: Store, model: Model) -> View:
    periods = store.periods(model.name)
    agents = store.agents(model.name)
    points = points_of(periods, "all", time.time())
    return {
        **_head(model, periods),
        "agents": len(agents),
        "seen": max((each.seen for each in agents.values()), default=None),
        "line": {name: points[name] for name in ("t", "average")},
    }


def model_view(store: Store, name: str, shown: Range) -> View:
    """Return everything about one model; raise UnknownName if there is none."""
    model, state = store.state(name)
    periods, agents = store.periods(name), store.agents(name)
    recipe = recipe_of(model)
    server = server_at(recipe, state)
    total, now = summed(each.progress for each in periods), time.time()
    return {
        **_head(model, periods),
        "range": shown,
        "points": points_of(periods, shown, now),
        "totals": _totals(total, recipe.dimension),
        "theta": _theta(server.theta, periods, now),
        "spectrum": spectrum_of(server.summary),
        "agents": len(agents),
        "seen": max((each.seen for each in agents.values()), default=None),
        "shadow": shadow_view(model, agents),
        "doubted": doubts_view(store, model, recipe, server, agents),
        "listed": _agents(model, agents),
        "refusals": [_refusal(each) for each in store.refusals(name)],
    }


def _head(model: Model, periods: Sequence[Period]) -> View:
    params = json.loads(model.params)
    stretches = beginning_and_lately(periods)
    whole = summed(each.progress for each in periods)
    return {
        "name": model.name,
        "recipe": _label(model),
        "dimension": params.get("dimension"),
        "created": model.created,
        "version": model.version,
        "observations": model.count,
        "average": whole.average,
        "early": as_told(stretches[0]) if stretches else None,
        "lately": as_told(stretches[1]) if stretches else None,
        "verdict": verdict(stretches[0].progress, stretches[1].progress) if stretches else None,
    }


def _label(model: Model) -> str:
    """Return what people call the recipe; its name if this version cannot build it."""
    try:
        return recipe_of(model).label
    except InvalidState:
        return model.recipe


def _totals(total: Progress, dimension: int) -> View:
    savings = savings_of(total, dimension=dimension)
    return {
        "uploads": total.uploads,
        "observations": total.observations,
        "copies": total.copies,
        "joins": total.joins,
        "refused": total.refused,
        "received": total.received,
        "sent": total.sent,
        "saved": savings.saved,
        "times": savings.times,
        "fedlinucb": savings.fedlinucb,
    }


def _theta(theta: Any, periods: Sequence[Period], now: float) -> View:
    """Return the length of the estimate, and how far it went in the last hour and day."""
    return {
        "length": float(np.linalg.norm(theta)),
        "hour": sum(each.progress.moved for each in periods if each.start >= now - HOUR),
        "day": sum(each.progress.moved for each in periods if each.start >= now - DAY),
    }


def points_of(periods: Sequence[Period], shown: Range, now: float) -> View:
    """Return the lines of a model's charts; where a period has no rewards, an average is None.

    ``step`` is the length of a period that a point stands for, in seconds.
    """
    begins = now - _SECONDS[shown] if shown in _SECONDS else 0.0
    kept = [each for each in periods if each.start + each.span > begins]
    first = max(begins, kept[0].start) if kept else now
    finest = max((each.span for each in kept), default=MINUTE)
    step = next((s for s in _STEPS if s >= finest and (now - first) / s <= _POINTS), _STEPS[-1])
    sums: dict[int, Progress] = {}
    for each in kept:
        start = start_of(each.start, step)
        sums[start] = sums.get(start, NO_PROGRESS).plus(each.progress)
    starts = range(start_of(first, step), int(now) + 1, step) if kept else range(0)
    rows = [sums.get(start, NO_PROGRESS) for start in starts]
    return {
        "t": list(starts),
        "step": step,
        "average": [each.average for each in rows],
        "estimate": [each.estimated / each.judged if each.judged else None for each in rows],
        "error": [error_of(each) for each in rows],
        "moved": [each.moved for each in rows],
        **{
            name: [getattr(each, name) for each in rows]
            for name in ("uploads", "observations", "received", "sent", "refused")
        },
    }


def _agents(model: Model, agents: Mapping[str, MergedUploads]) -> list[View]:
    """Return those agents that contributed most."""
    total = sum(each.observations for each in agents.values())
    ordered = sorted(agents.items(), key=lambda named: (-named[1].observations, named[0]))
    return [
        {
            "name": name,
            "seen": each.seen or None,
            "uploads": each.uploads,
            "observations": each.observations,
            "share": each.observations / total if total else 0.0,
            "average": each.reward_total / each.rewards if each.rewards else None,
            "received": each.received,
            "held": each.held or None,
            "behind": max(model.version - each.held, 0) if each.held else None,
            "quarantined": each.quarantined,
        }
        for name, each in ordered[:MOST_AGENTS]
    ]


def _refusal(refused: Refused) -> View:
    return {
        "status": refused.status,
        "field": refused.field,
        "count": refused.count,
        "agent": refused.agent,
        "message": refused.message,
        "at": refused.at,
    }
