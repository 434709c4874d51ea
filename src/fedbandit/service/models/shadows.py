"""How the agents of a model compare with the rules that they shadow, all together."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedbandit.offline.shadow import Shadow, shadow_report
from fedbandit.service.storage.contract import Model
from fedbandit.wire import ShadowSums
from fedbandit.wire.shadow import WINDOW

_LOOSE = 1.0 + 1e-9  # for rounding


@dataclass(frozen=True, slots=True)
class FleetShadow:
    """``together``: over the decisions of all agents that are believed, ``agents`` of them.

    ``safe``: on how many of those it is safe to switch, each by its own decisions. ``left_out``:
    agents that told of something that cannot be.
    """

    together: Shadow
    agents: int
    safe: int
    left_out: int


def fleet_shadow(model: Model, shadows: Iterable[ShadowSums]) -> FleetShadow | None:
    """Return how agents compare; None if none of them shadows a rule."""
    told = list(shadows)
    if not told:
        return None
    good = [each for each in told if is_believed(model, each)]
    safe = sum(shadow_report(each).safe for each in good)
    together = shadow_report(added_up(good) or ShadowSums())
    return FleetShadow(together, len(good), safe, len(told) - len(good))


def is_believed(model: Model, sums: ShadowSums) -> bool:
    """Say whether rewards within the limits, of as many rows as one agent sums up, can be these.

    One that stands for a relay sums up the rows of many. What cannot be true whatever the limits
    was refused on arrival.
    """
    few = bool(model.relays) or sums.rows <= WINDOW
    return few and abs(sums.reward) <= sums.rows * model.limits.reward * _LOOSE


def added_up(shadows: Iterable[ShadowSums]) -> ShadowSums | None:
    """Return the sums over the decisions of all; None if there are none."""
    total: ShadowSums | None = None
    for each in shadows:
        total = each if total is None else total.plus(each)
    return total
