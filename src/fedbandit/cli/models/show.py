"""``fedbandit model show``: a model with its limits, its progress and its agents."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedbandit.cli.models.progress import TOLD, held_text, progress_lines
from fedbandit.cli.models.rules import rules_text
from fedbandit.cli.options import opened_store
from fedbandit.cli.reporting import report, say
from fedbandit.cli.table import show_table
from fedbandit.cli.values import when

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.service.bookkeeping.deduplication import MergedUploads
    from fedbandit.service.storage.contract import Model


def show(arguments: Namespace) -> None:
    """Print one model."""
    from fedbandit.service.board.views import model_view
    from fedbandit.service.models.model import recipe_of

    with opened_store(arguments) as store:
        model, state = store.state(arguments.name)
        agents = store.agents(arguments.name)
        view = model_view(store, arguments.name, "day")
    recipe = recipe_of(model)
    report(
        arguments,
        lambda: {
            **identity(model, recipe),
            "made": model.created,
            "limits": model.limits,
            "quotas": model.quotas,
            "history": model.history,
            "groups": model.groups,
            "watched": model.watched,
            "doubted": view["doubted"],
            "relays": model.relays,
            "uploads": model.version,
            "observations": model.count,
            "state_bytes": len(state),
            "progress": {name: view[name] for name in TOLD},
            "shadow": view["shadow"],
            "agents": {name: _counted(each) for name, each in sorted(agents.items())},
        },
        lambda: _show_model(model, recipe, state, agents, progress_lines(view)),
    )


def _counted(agent: "MergedUploads") -> dict[str, object]:
    return {
        "uploads": agent.uploads,
        "observations": agent.observations,
        "bytes": agent.received,
        "lives": agent.known,
        "average_reward": agent.reward_total / agent.rewards if agent.rewards else None,
        "holds": agent.held,
        "last_seen": agent.seen,
    }


def _show_model(
    model: "Model",
    recipe: "Recipe",
    state: bytes,
    agents: "Mapping[str, MergedUploads]",
    lines: Sequence[str],
) -> None:
    say(f"{model.name}: {recipe!r}", indent="  ")
    print(f"fingerprint {model.fingerprint}, made {when(model.created)}")
    for line in rules_text(model):
        say(line, indent="  ")
    if model.relays:
        say(f"relays: up to {model.relays} levels of them may be below")
    print(f"version {model.version:,}, {model.count:,} observations; state {len(state):,} bytes")
    for line in lines:
        say(line, indent="  ")
    total = sum(each.observations for each in agents.values()) or 1
    rows = [
        (
            agent,
            f"{each.uploads:,}",
            f"{each.observations:,}",
            f"{100 * each.observations / total:.1f} %",
            f"{each.reward_total / each.rewards:.4g}" if each.rewards else "-",
            f"{each.received:,}",
            f"{each.known}",
            held_text(each.held, model.version),
            when(each.seen) if each.seen else "-",
            "quarantined" if each.quarantined else "",
        )
        for agent, each in sorted(agents.items())
    ]
    header = ("agent", "uploads", "observations", "share", "reward", "bytes", "lives", "holds")
    show_table("Agents", (*header, "last seen", ""), rows)


def identity(model: "Model", recipe: "Recipe") -> dict[str, object]:
    """Return what a model is called, and what it is made of."""
    return {
        "model": model.name,
        "recipe": recipe.label,
        "parameters": recipe.params,
        "fingerprint": model.fingerprint,
    }
