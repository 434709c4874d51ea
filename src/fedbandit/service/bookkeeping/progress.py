"""What became of a model over time: sums over minutes, hours and days, for the board.

Sums are kept for each minute of about the last day. Older minutes are folded into hours, and hours
that are older than about a month into days. The hours of the model's first day stay: averages are
compared with them. So a model has at most some 2,300 rows, and one more a day.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from operator import attrgetter
from typing import Final

from fedbandit.core.messages import Upload
from fedbandit.core.statistics import NO_ESTIMATES, NO_REWARDS, Estimates
from fedbandit.wire import Limits

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86_400
MINUTES_FOR: Final = DAY
HOURS_FOR: Final = 30 * DAY
_ABSURD = 1e6  # times the largest reward: an estimate that is not worth showing


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Sums over what happened to a model.

    ``uploads`` merged, of so many ``observations``; ``copies`` of merged ones; ``joins``: whole
    states told to agents that joined or caught up; ``refused`` uploads. ``received`` and ``sent``
    are bytes of bodies: of syncs, and of their answers and joins. ``rewards``, ``total`` and
    ``squares``: number, sum and sum of squares of the rewards that agents told of. Those of which
    they also told what they had been estimated to be: ``judged`` is their number, ``earned`` their
    sum, ``estimated`` the sum of the estimates, ``errors`` that of the squared differences.
    ``moved`` is how far the estimate theta went, as the sum of its steps from minute to minute.
    """

    uploads: int = 0
    observations: int = 0
    copies: int = 0
    joins: int = 0
    refused: int = 0
    received: int = 0
    sent: int = 0
    rewards: int = 0
    total: float = 0.0
    squares: float = 0.0
    judged: int = 0
    earned: float = 0.0
    estimated: float = 0.0
    errors: float = 0.0
    moved: float = 0.0

    def plus(self, other: "Progress") -> "Progress":
        """Return the sums over both."""
        both = zip(values_of(self), values_of(other), strict=True)
        return progress_of([mine + theirs for mine, theirs in both])

    @property
    def average(self) -> float | None:
        """The average reward; None if no reward was told."""
        return self.total / self.rewards if self.rewards else None


FIELDS: Final = tuple(each.name for each in fields(Progress))
values_of: Final[Callable[[Progress], tuple[float, ...]]] = attrgetter(*FIELDS)
"""Returns the values of sums, in the order of ``FIELDS``; ``astuple`` takes ten times as long."""
NO_PROGRESS: Final = Progress()


@dataclass(frozen=True, slots=True)
class Period:
    """The sums of ``span`` seconds (a minute, an hour or a day) from ``start``, since 1970."""

    span: int
    start: int
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Uploads of a model that were refused for one reason: how many, and the last one of them.

    ``field`` names what was at fault, ``status`` is that of the answer.
    """

    status: int
    field: str
    count: int
    agent: str
    message: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What happened to a model besides merging, in the minute from ``start``.

    ``held``: versions that agents were told, by agent.
    """

    model: str
    start: int
    progress: Progress
    held: dict[str, int]
    refused: tuple[Refused, ...] = ()


def progress_of(values: Sequence[float]) -> Progress:
    """Return the sums that these values are, in the order of ``FIELDS``."""
    return Progress(**dict(zip(FIELDS, values, strict=True)))  # type: ignore[arg-type]


def summed(some: Iterable[Progress]) -> Progress:
    """Return the sums over all."""
    rows = [values_of(each) for each in some]
    return progress_of([sum(column) for column in zip(*rows, strict=True)]) if rows else NO_PROGRESS


def start_of(at: float, span: int) -> int:
    """Return where the period that a time lies in begins."""
    return int(at // span) * span


def merged_progress(uploads: Sequence[tuple[Upload, int]], limits: Limits) -> Progress:
    """Return the sums over uploads that are merged together, each given with its size in bytes."""
    told, guessed, earned = NO_REWARDS, NO_ESTIMATES, 0.0
    for upload, _ in uploads:
        rewards, said = upload.statistics.rewards, _believed(upload.statistics.estimates, limits)
        told = told.plus(rewards)
        if said.count and said.count == rewards.count:
            guessed, earned = guessed.plus(said), earned + rewards.total
    return Progress(
        uploads=len(uploads),
        observations=sum(upload.count for upload, _ in uploads),
        received=sum(size for _, size in uploads),
        rewards=told.count,
        total=told.total,
        squares=told.squares,
        judged=guessed.count,
        earned=earned,
        estimated=guessed.total,
        errors=guessed.errors,
    )


def _believed(told: Estimates, limits: Limits) -> Estimates:
    """Return what an agent told of its estimates, unless one such upload would spoil all sums."""
    most = _ABSURD * limits.reward
    sane = abs(told.total) <= told.count * most and told.errors <= told.count * most * most
    return told if sane and isfinite(told.total) else NO_ESTIMATES


def folded(periods: Sequence[Period], *, now: float) -> tuple[list[Period], list[Period]]:
    """Return which of a model's periods are too fine for their age, and those to add for them.

    What is added belongs to periods that may be there already.
    """
    first = min((each.start for each in periods), default=0)
    gone, made = [], dict[tuple[int, int], Progress]()
    for each in periods:
        coarse = _coarser(each, first, now)
        if coarse is not None:
            key = coarse, start_of(each.start, coarse)
            made[key] = made.get(key, NO_PROGRESS).plus(each.progress)
            gone.append(each)
    return gone, [Period(*key, progress) for key, progress in made.items()]


def _coarser(period: Period, first: int, now: float) -> int | None:
    """Return the span that a period is folded into; None if it stays."""
    if period.span == MINUTE and period.start < start_of(now - MINUTES_FOR, HOUR):
        return HOUR
    of_first_day = period.start < first + DAY
    if period.span == HOUR and not of_first_day and period.start < start_of(now - HOURS_FOR, DAY):
        return DAY
    return None
