"""How an agent compares with the rule that it shadows, as sums that can be added over agents."""

from math import isfinite
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fedbandit.wire.decoding import refuse

WINDOW: Final = 10_000
"""Rewarded decisions that one agent sums up: the latest."""

_MOST = 2**53  # whole numbers up to here are exact in float64
_LARGEST = 1e150  # so that the square of a sum stays finite
_LOOSE = 1.0 + 1e-9  # for rounding
_Natural = Annotated[int, Meta(ge=0, le=_MOST)]


class ShadowSums(msgspec.Struct, array_like=True, frozen=True):
    """Sums over the latest rewarded decisions in shadow mode, the *rows*.

    In a row another program, the baseline, took an arm with probability p and got r; the agent
    would have taken that arm with probability q, and expected m of it and M of its own choice.

    ``decisions`` and ``rewarded`` count since the agent's start; ``rows`` how many of those are
    summed up. ``paid``: rows with r other than 0; ``chance``: with p below 1 and q above 0;
    ``apart``: with q below 1. ``same`` is the sum of q, ``reward`` that of r. ``gain`` is the sum
    of M + w (r - m) - r with w = q / p, ``weight`` that of w; ``gain_squares`` and
    ``weight_squares`` are the sums of their squares. ``doubt``: the sum of what the agent's model
    does not know of its own choice, where that is another.
    """

    decisions: _Natural = 0
    rewarded: _Natural = 0
    rows: _Natural = 0
    paid: _Natural = 0
    chance: _Natural = 0
    apart: _Natural = 0
    same: float = 0.0
    reward: float = 0.0
    gain: float = 0.0
    gain_squares: float = 0.0
    weight: float = 0.0
    weight_squares: float = 0.0
    doubt: float = 0.0

    def plus(self, other: "ShadowSums") -> "ShadowSums":
        """Return the sums over the rows of both."""
        ours, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return ShadowSums(*(a + b for a, b in zip(ours, theirs, strict=True)))


def check_shadow(sums: ShadowSums) -> None:
    """Raise InvalidMessage unless some rows can have these sums."""
    rows, loose = sums.rows, _LOOSE
    if sums.decisions > _MOST:
        refuse("shadow", f"expected at most {_MOST} decisions")
    if not rows <= sums.rewarded <= sums.decisions:
        refuse("shadow", "expected rows <= rewarded <= decisions")
    if max(sums.paid, sums.chance, sums.apart) > rows:
        refuse("shadow", "paid, chance and apart count rows, and are more than there are")
    numbers = msgspec.structs.astuple(sums)[6:]
    if not all(isfinite(each) and abs(each) <= _LARGEST for each in numbers):
        refuse("shadow", f"expected finite sums of at most {_LARGEST:g}")
    if not (0.0 <= sums.same <= rows * loose and sums.weight >= 0.0 and sums.doubt >= 0.0):
        refuse("shadow", "expected same from 0 to rows, and weight and doubt of at least 0")
    for total, squares in ((sums.gain, sums.gain_squares), (sums.weight, sums.weight_squares)):
        if total * total > rows * squares * loose:
            refuse("shadow", "a sum of squares is less than the square of the sum over rows")
    if (sums.reward != 0.0) > sums.paid:
        refuse("shadow", "a sum of rewards, of which none is other than 0")
