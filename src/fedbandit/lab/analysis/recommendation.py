"""Which sketch size to take, by what each cost on the same tapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from fedbandit.errors import InvalidParameter, complaint
from fedbandit.lab.analysis.statistics import Estimate

TOLERANCE = 0.02
"""The share of FedLinUCB's lead over Random that a size may lose."""


@dataclass(frozen=True)
class Measured:
    """What one recipe reached: sums after the last round, over the trials.

    ``loss`` is its regret beyond FedLinUCB's as a share of FedLinUCB's lead over Random, trial by
    trial on the same tapes: 0 is as good as FedLinUCB, 1 no better than Random.
    """

    recipe: str
    sketch_size: int | Literal["auto"] | None
    regret: Estimate
    bytes: Estimate
    loss: Estimate


class Certainty(StrEnum):
    """How far a recommendation can be relied upon."""

    SURE = "sure"
    LIKELY = "likely"
    NONE_GOOD = "none good enough"
    TOO_SHORT = "too short to tell"


@dataclass(frozen=True)
class Recommendation:
    """A size to take, or None, how sure that is, and why in a sentence for people."""

    sketch_size: int | None
    certainty: Certainty
    sentence: str


def recommend(
    candidates: Sequence[Measured],
    *,
    reference: Measured,
    lead: Estimate,
    tolerance: float,
    rounds: int,
) -> Recommendation:
    """Pick the smallest size whose loss is at most ``tolerance``.

    ``candidates`` are one recipe with several sizes, in any order; ``reference`` is FedLinUCB, and
    ``lead`` Random's regret less its.

    - Too short to tell, and no size: the 95 % interval of the lead reaches down to 0 (with one
      trial: the lead is not above 0). A share of such a lead means nothing.
    - Sure: the smallest size whose whole interval is within the tolerance.
    - Likely, if no size is sure: the smallest whose mean is within it.
    - None good enough, and no size: no mean is within it.
    """
    if not candidates:
        raise InvalidParameter("recommend: no sizes to choose from. Measure one or more first.")
    ordered = sorted(candidates, key=_size)
    if not (lead.mean if math.isnan(lead.ci95) else lead.low) > 0.0:
        return Recommendation(None, Certainty.TOO_SHORT, _too_short(lead, rounds))
    sure = [each for each in ordered if each.loss.high <= tolerance]
    likely = [each for each in ordered if each.loss.mean <= tolerance]
    if sure:
        smaller = [each for each in likely if _size(each) < _size(sure[0])]
        sentence = _sure(sure[0], reference, tolerance) + _perhaps(smaller)
        return Recommendation(_size(sure[0]), Certainty.SURE, sentence)
    if likely:
        sentence = _likely(likely[0], reference, tolerance)
        return Recommendation(_size(likely[0]), Certainty.LIKELY, sentence)
    return Recommendation(None, Certainty.NONE_GOOD, _none_good(ordered, tolerance))


def _size(measured: Measured) -> int:
    if not isinstance(measured.sketch_size, int):
        got, expected = f"the size {measured.sketch_size!r}", "sizes that are whole numbers"
        fix = "Leave the others out."
        raise InvalidParameter(complaint("recommend", got=got, expected=expected, fix=fix))
    return measured.sketch_size


def _sure(chosen: Measured, reference: Measured, tolerance: float) -> str:
    return (
        f"Take l = {chosen.sketch_size} with {chosen.recipe}: it is the smallest size tried that "
        f"surely loses no more than {100 * tolerance:g} % of FedLinUCB's lead over Random "
        f"({_lost(chosen)}), and it sent {_bytes(chosen, reference)}."
    )


def _perhaps(smaller: Sequence[Measured]) -> str:
    if not smaller:
        return ""
    return (
        f" l = {smaller[0].sketch_size} may do as well ({_lost(smaller[0])}): "
        "more trials would tell."
    )


def _likely(chosen: Measured, reference: Measured, tolerance: float) -> str:
    return (
        f"Take l = {chosen.sketch_size} with {chosen.recipe}, for now: it is the smallest size "
        f"tried that loses no more than {100 * tolerance:g} % of FedLinUCB's lead over Random on "
        f"average ({_lost(chosen)}), and it sent {_bytes(chosen, reference)}; "
        "but no size surely does: more trials would tell."
    )


def _none_good(ordered: Sequence[Measured], tolerance: float) -> str:
    best = min(ordered, key=lambda each: each.loss.mean)
    return (
        f"No size tried loses as little as {100 * tolerance:g} % of FedLinUCB's lead over Random; "
        f"the best is l = {best.sketch_size} ({_lost(best)}): try larger sizes, or allow more."
    )


def _too_short(lead: Estimate, rounds: int) -> str:
    spread = "" if math.isnan(lead.ci95) else f" ± {lead.ci95:.3g}"
    return (
        f"Too short to tell: after {rounds:,} rounds FedLinUCB's lead over Random, "
        f"{lead.mean:.3g}{spread} in regret, is not surely above 0: "
        "more rounds or more trials are needed."
    )


def _lost(measured: Measured) -> str:
    loss = measured.loss
    if math.isnan(loss.ci95):
        return f"it lost {_percent(loss.mean)}; one trial gives no interval"
    interval = f"{100 * loss.low:.2f} to {_percent(loss.high)}"
    return f"it lost {_percent(loss.mean)}, 95 % interval {interval}"


def _bytes(chosen: Measured, reference: Measured) -> str:
    if reference.bytes.mean <= 0.0:
        return f"{chosen.bytes.mean:,.0f} bytes"
    return f"{100 * chosen.bytes.mean / reference.bytes.mean:.1f} % of FedLinUCB's bytes"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
