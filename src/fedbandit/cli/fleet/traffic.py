"""What a fleet sent, compared with what FedLinUCB would have sent for the same decisions."""

from dataclasses import dataclass

from fedbandit.cli.fleet.playing import Fleet
from fedbandit.core.algorithms.baselines import FedLinUCB, PaperRadius
from fedbandit.core.recipe import Recipe
from fedbandit.service.board.savings import fedlinucb_bytes
from fedbandit.simulation import simulate
from fedbandit.worlds.round import World


@dataclass(frozen=True, slots=True)
class Traffic:
    """Uploads, and bytes to the coordinator and back."""

    uploads: int
    up: int
    down: int


def traffic_of(fleet: Fleet) -> Traffic:
    """Return what the fleet has uploaded so far, and received in answer or to catch up."""
    each = fleet.statuses()
    return Traffic(
        sum(status.uploads for status in each),
        sum(status.bytes_up for status in each),
        sum(status.bytes_down for status in each),
    )


def traffic_of_fedlinucb(recipe: Recipe, world: World, rounds: int) -> Traffic:
    """Return what FedLinUCB sends in the same rounds, with this ridge and radius."""
    params = {name: recipe.params[name] for name in ("dimension", "ridge")}
    asked, agents = recipe.params["radius"], max(recipe.agents, world.agents)
    radius: PaperRadius = "paper" if isinstance(asked, str) else asked
    whole = FedLinUCB(**params, agents=agents, radius=radius)
    uploads = int(simulate(whole, world, rounds=rounds).uploads[-1])
    up, down = fedlinucb_bytes(whole.dimension)
    return Traffic(uploads, uploads * up, uploads * down)


def compared(name: str, ours: Traffic, theirs: Traffic) -> list[tuple[str, ...]]:
    """Return three rows of a table: this fleet, FedLinUCB, and the second over the first."""
    pairs = [
        (ours.uploads, theirs.uploads),
        (ours.up, theirs.up),
        (ours.down, theirs.down),
        (ours.up + ours.down, theirs.up + theirs.down),
    ]
    return [
        (f"{name}, this fleet", *(f"{mine:,}" for mine, _ in pairs)),
        ("FedLinUCB, same tape", *(f"{other:,}" for _, other in pairs)),
        ("ratio", *(f"{other / mine:.2f}" if mine else "-" for mine, other in pairs)),
    ]
