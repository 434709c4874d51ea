"""What the board shows of shadow mode: all agents together, and each by itself."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from fedbandit.offline.shadow import shadow_report
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.models.shadows import FleetShadow, fleet_shadow, is_believed
from fedbandit.service.storage.contract import Model

MOST_LISTED: Final = 100
"""Agents that are listed; those with most rewarded decisions."""


def shadow_view(model: Model, agents: Mapping[str, MergedUploads]) -> dict[str, Any] | None:
    """Return how agents compare with the rules that they shadow; None if none does.

    Agents that are quarantined are left out.
    """
    told = {
        name: each.shadow
        for name, each in agents.items()
        if each.shadow is not None and not each.quarantined
    }
    found = fleet_shadow(model, told.values())
    if found is None:
        return None
    listed = sorted(told.items(), key=lambda named: (-named[1].rows, named[0]))[:MOST_LISTED]
    return {
        "agents": found.agents,
        "safe": found.safe,
        "left_out": found.left_out,
        "decisive": found.decisive,
        "together": asdict(found.together),
        "sentence": fleet_sentence(found),
        "listed": [
            {
                "name": name,
                "seen": agents[name].seen,
                "believed": is_believed(model, sums),
                **asdict(shadow_report(sums)),
            }
            for name, sums in listed
        ],
    }


def fleet_sentence(found: FleetShadow) -> str:
    """Return what shadow mode comes to over all agents, in words."""
    together, agents = found.together, f"{found.agents} agent{'' if found.agents == 1 else 's'}"
    told = f"{agents} in shadow mode: {together.sentence}"
    told = told.replace("The agent agrees", "the model agrees").replace("Too little", "too little")
    if together.basis != "none":
        told += f" By their own decisions alone, {found.safe} of {found.agents} would say so."
    if found.decisive:
        told += " That it would be rests on one agent alone, which may be wrong or lie."
    if found.left_out:
        told += f" Left out: {found.left_out} that told of more than the limits allow."
    return told
