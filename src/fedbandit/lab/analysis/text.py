"""Numbers, shares and estimates as a person reads them."""

import math
import re

from fedbandit.lab.analysis.statistics import Estimate

MINUS = "\N{MINUS SIGN}"
UNKNOWN = "\N{EN DASH}"


def unbroken(text: str) -> str:
    """Keep every number and its % on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def number(value: float) -> str:
    """Write four digits or so: 12,345, 123.4, 1.234, 0.0123."""
    if math.isnan(value):
        return UNKNOWN
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def compact(value: float) -> str:
    """Write a count to three digits or four: 950, 142.8 k, 1.49 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{number(value / size)} {unit}"
    return number(value)


def plus_minus(measured: Estimate) -> str:
    """Write a mean and half its interval, to the digits that the interval allows."""
    if math.isnan(measured.ci95):
        return number(measured.mean)
    if measured.ci95 == 0.0:
        return f"{number(measured.mean)} ± 0"
    digits = min(max(0, 1 - math.floor(math.log10(measured.ci95))), 6)
    return f"{measured.mean:,.{digits}f} ± {measured.ci95:,.{digits}f}"


def percent(value: float) -> str:
    """Write a share in per cent, with one decimal."""
    return UNKNOWN if math.isnan(value) else f"{100 * value:.1f} %".replace("-", MINUS)


def percent_interval(measured: Estimate) -> str:
    """Write a share in per cent with its 95 % interval."""
    if math.isnan(measured.ci95):
        return percent(measured.mean)
    low, high = (f"{100 * end:.1f}".replace("-", MINUS) for end in (measured.low, measured.high))
    return f"{percent(measured.mean)} [{low}, {high}]"


def natural(text: str) -> list[tuple[int, int | str]]:
    """Return a sort key that puts d=50 before d=100."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts if part]
