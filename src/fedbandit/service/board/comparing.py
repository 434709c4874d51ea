"""How a model does: lately against its beginning, and against its own estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from fedbandit.service.bookkeeping.progress import DAY, HOUR, MINUTE, Period, Progress, summed

_CLEAR: Final = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some of a model's time, in words, and what happened in it."""

    label: str
    progress: Progress


def beginning_and_lately(periods: Sequence[Period]) -> tuple[Stretch, Stretch] | None:
    """Return the first and the last stretch of a model's life; None where they would overlap.

    A day each once it is two days old, an hour each once it is two hours old, before that a
    fifth of its age each, in whole minutes. Times without rewards at the end do not count.
    """
    known = [each for each in periods if each.progress.rewards]
    if not known:
        return None
    first, end = known[0].start, max(each.start + each.span for each in known)
    age = end - first
    if age < 2 * MINUTE:
        return None
    length, word = next(
        ((span, word) for span, word in ((DAY, "day"), (HOUR, "hour")) if age >= 2 * span),
        (max(MINUTE, int(age / 5 // MINUTE) * MINUTE), ""),
    )
    if not word:
        minutes = length // MINUTE
        word = "minute" if minutes == 1 else f"{minutes} minutes"
    early = summed(each.progress for each in known if each.start < first + length)
    late = summed(each.progress for each in known if each.start + each.span > end - length)
    return Stretch(f"first {word}", early), Stretch(f"last {word}", late)


def as_told(stretch: Stretch) -> dict[str, Any]:
    """Return averages over a stretch: of rewards, of estimates, and the error of the estimates."""
    progress = stretch.progress
    judged = progress.judged
    return {
        "label": stretch.label,
        "rewards": progress.rewards,
        "average": progress.average,
        "deviation": _deviation(progress),
        "judged": judged,
        "earned": progress.earned / judged if judged else None,
        "estimate": progress.estimated / judged if judged else None,
        "error": error_of(progress),
    }


def verdict(early: Progress, late: Progress) -> dict[str, Any]:
    """Return by how much the average reward changed, and whether chance could explain that.

    ``clear``: the change is more than two standard errors, taking rewards for independent.
    ``share``: relative to the first average, if that is above 0.
    """
    before, after = early.average or 0.0, late.average or 0.0
    change = after - before
    error = sqrt(_squared_error(early) + _squared_error(late))
    return {
        "change": change,
        "error": error,
        "share": change / before if before > 0.0 else None,
        "clear": abs(change) > _CLEAR * error,
    }


def error_of(progress: Progress) -> float | None:
    """Return the root mean square of reward less estimate; None if no estimates were told."""
    return sqrt(progress.errors / progress.judged) if progress.judged else None


def _deviation(progress: Progress) -> float | None:
    """Return the standard deviation of the rewards: the error of always guessing their average."""
    mean = progress.average
    if mean is None:
        return None
    return sqrt(max(progress.squares / progress.rewards - mean * mean, 0.0))


def _squared_error(progress: Progress) -> float:
    deviation = _deviation(progress) or 0.0
    return deviation * deviation / max(progress.rewards, 1)
