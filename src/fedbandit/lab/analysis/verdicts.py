"""Whether a claim about a measured quantity holds, judged by its 95 % interval."""

import math
from collections.abc import Iterable
from enum import StrEnum

from fedbandit.lab.analysis.statistics import Estimate


class Verdict(StrEnum):
    """From best to worst; unsettled: the interval contains the line."""

    HOLDS = "holds"
    LIKELY = "holds on average (unsettled)"
    UNLIKELY = "does not hold on average (unsettled)"
    FAILS = "does not hold"
    UNDEFINED = "cannot be told"


def at_most(measured: Estimate, line: float) -> Verdict:
    """Judge the claim that a quantity is no more than ``line``; NaN gives UNDEFINED."""
    if math.isnan(measured.mean):
        return Verdict.UNDEFINED
    if measured.mean <= line:
        return Verdict.HOLDS if measured.high <= line else Verdict.LIKELY
    return Verdict.FAILS if measured.low > line else Verdict.UNLIKELY


def at_least(measured: Estimate, line: float) -> Verdict:
    """Judge the claim that a quantity is no less than ``line``; NaN gives UNDEFINED."""
    return at_most(Estimate(-measured.mean, measured.ci95), -line)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts: a claim made against all must hold against each."""
    severity = list(Verdict)
    return max(verdicts, key=severity.index)
