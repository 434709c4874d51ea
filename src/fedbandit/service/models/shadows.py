"""How the agents of a model compare with the rules that they shadow, all together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from fedbandit.errors import InvalidMessage
from fedbandit.offline.shadow import Shadow, shadow_report
from fedbandit.service.storage.contract import Model
from fedbandit.wire import ShadowSums, check_shadow
from fedbandit.wire.shadow import WINDOW

_LOOSE = 1.0 + 1e-9  # for rounding
_ABSURD = 1e6  # times the largest reward: an estimate, or a doubt, that is not worth showing
_MOST_DECISIONS = 2**43  # of one agent, so that those of a thousand can be told above


@dataclass(frozen=True, slots=True)
class FleetShadow:
    """``together``: over the decisions of all agents that are believed, ``agents`` of them.

    ``safe``: on how many of those it is safe to switch, each by its own decisions. ``left_out``:
    agents that told of something that cannot be. ``decisive``: all together it would be safe, but
    not without one of them; one agent may lie, so then it is not.
    """

    together: Shadow
    agents: int
    safe: int
    left_out: int
    decisive: bool = False


def fleet_shadow(model: Model, shadows: Iterable[ShadowSums]) -> FleetShadow | None:
    """Return how agents compare; None if none of them shadows a rule."""
    told = list(shadows)
    if not told:
        return None
    good = [each for each in told if is_believed(model, each)]
    safe = sum(shadow_report(each).safe for each in good)
    together = shadow_report(added_up(good) or ShadowSums())
    decisive = together.safe and _rests_on_one(good)
    if decisive:
        together = replace(together, safe=False)
    return FleetShadow(together, len(good), safe, len(told) - len(good), decisive)


def _rests_on_one(shadows: Sequence[ShadowSums]) -> bool:
    """Say whether without some agent the others, if they have enough to tell, are not safe.

    Sums up to each agent and from each on are added up, rather than one subtracted: those of a
    liar may be so large that nothing else is left in them.
    """
    before = list(accumulate(shadows, ShadowSums.plus, initial=ShadowSums()))
    after = list(accumulate(reversed(shadows), ShadowSums.plus, initial=ShadowSums()))[::-1]
    without = (shadow_report(a.plus(b)) for a, b in zip(before, after[1:], strict=False))
    return any(each.basis != "none" and not each.safe for each in without)


def told_above(model: Model, shadows: Iterable[ShadowSums]) -> ShadowSums | None:
    """Return the sums that a relay tells of its agents; None for those that would be refused.

    An upload that is refused for them would be sent again for ever.
    """
    total = added_up(each for each in shadows if is_believed(model, each))
    try:
        if total is not None:
            check_shadow(total)
    except InvalidMessage:
        return None
    return total


def is_believed(model: Model, sums: ShadowSums) -> bool:
    """Say whether rewards within the limits, of as many rows as one agent sums up, can be these.

    One that stands for a relay sums up the rows of many. What cannot be true whatever the limits
    was refused on arrival.
    """
    rows, reward = sums.rows, model.limits.reward * _LOOSE
    few = bool(model.relays) or (rows <= WINDOW and sums.decisions <= _MOST_DECISIONS)
    most = 4.0 * _ABSURD * reward * (rows + sums.weight)
    estimated = (
        abs(sums.gain) <= most
        and sums.gain_squares <= most * most
        and sums.doubt <= _ABSURD * reward * rows
        and sums.weight_squares <= sums.weight * sums.weight * _LOOSE
    )
    return few and estimated and abs(sums.reward) <= rows * reward


def added_up(shadows: Iterable[ShadowSums]) -> ShadowSums | None:
    """Return the sums over the decisions of all; None if there are none."""
    total: ShadowSums | None = None
    for each in shadows:
        total = each if total is None else total.plus(each)
    return total
