"""What goes beyond the paper, again dense and slow: estimates, narrow rows, a size that changes.

Matrices are formed, errors E are matrices, and every moment is kept as the plain sum of reward
times arm, the sum of E theta' that was taken from it, and what rounding did to it. Nothing here
uses the shipped linear algebra; only the two named comparisons are shared.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.ucb import exceeds
from tests.core.literal import logdet, scfd, ucb

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of FSCLB as the twin knows them; ``most`` is the largest size of a message."""

    d: int
    most: int
    server: int
    auto: bool = False
    buffer: int | None = None
    estimate: str = "averaged"
    width: str = "float64"
    alpha: float = 1.0
    lam: float = 1.0
    beta: float = 0.3
    longest: float = 10.0


@dataclass(frozen=True)
class Moment:
    """b = plain - carried + slip."""

    plain: Array
    carried: Array
    slip: Array

    @property
    def value(self) -> Array:
        return np.asarray(self.plain - self.carried + self.slip)

    def plus(self, other: "Moment") -> "Moment":
        return Moment(
            self.plain + other.plain, self.carried + other.carried, self.slip + other.slip
        )


@dataclass(frozen=True)
class Dense:
    """Rows, what they shed, the trace that they lack, and the size that they were made for."""

    rows: Array
    shed: float
    lost: float
    size: int

    def stands_for(self) -> Array:
        d = self.rows.shape[1]
        return np.asarray(self.rows.T @ self.rows + self.lost / d * np.eye(d))


@dataclass(frozen=True)
class Parcel:
    """An upload or a download."""

    summary: Dense
    moment: Moment


def nothing(d: int, size: int) -> Parcel:
    zero = np.zeros(d)
    return Parcel(Dense(np.zeros((0, d)), 0.0, 0.0, size), Moment(zero, zero, zero))


def shrunk(summary: Dense, size: int) -> Dense:
    """Shed down to size - 1 rows; the trace that goes is lost."""
    rows, delta = scfd(summary.rows, size) if len(summary.rows) else (summary.rows, 0.0)
    squares = np.sum(rows**2, axis=1)  # zeros are no rows
    rows = rows[squares > 1e-14 * squares.max(initial=0.0)]
    gone = max(0.0, float(np.sum(summary.rows**2) - np.sum(rows**2)))
    return Dense(rows, summary.shed + delta, summary.lost + gone, size)


def carry(moment: Moment, before: Array, after: Dense, at: Array | None) -> Moment:
    """Take E theta' from a moment, with E = before - after as a matrix."""
    if at is None:
        return moment
    error = before - after.stands_for()
    return replace(moment, carried=moment.carried + error @ at)


def nearest(row: Array, width: str) -> Array:
    """Round one row."""
    largest = np.abs(row).max()
    if width == "int8":
        fraction, exponent = np.frexp(largest / 127)
        step = np.floor(fraction * 2**21) / 2**21 * 2.0**exponent
        return np.asarray(np.rint(row / step).clip(-127, 127) * step)
    power = 2.0 ** np.ceil(np.log2(largest))
    return np.asarray((row / power).astype(width).astype(float) * power)


def power_mean(symmetric: Array) -> float:
    """Return (trace A^16)^(1/16)."""
    return float(np.sum(np.linalg.eigvalsh(symmetric) ** 16) ** (1 / 16))


def rounded(summary: Dense, width: str) -> Dense:
    """Round the rows; pay for it in shed."""
    if not len(summary.rows):
        return summary
    S = summary.rows
    N = np.array([nearest(row, width) for row in S]) - S
    lengths = np.linalg.norm(S, axis=1)
    U, W = np.diag(1 / lengths) @ S, np.diag(lengths) @ N
    inside = W @ U.T @ U
    p = power_mean(inside @ U.T + U @ inside.T)
    r2 = power_mean((W - inside) @ (W - inside).T)
    e = (p + np.sqrt(p**2 + 4 * r2)) / 2 + power_mean(N @ N.T)
    lost = max(0.0, summary.lost + float(np.sum(S**2) - np.sum((S + N) ** 2)))
    paid = summary.shed + e + abs(lost - summary.lost) / S.shape[1]
    return Dense(S + N, paid, lost, summary.size)


def read(plan: Plan, summary: Dense) -> Array:
    """V, of the widths and of the trigger."""
    return np.asarray((plan.lam + summary.shed) * np.eye(plan.d) + summary.rows.T @ summary.rows)


def estimate(plan: Plan, parcel: Parcel) -> Array:
    V = plan.lam * np.eye(plan.d) + parcel.summary.stands_for()
    return np.asarray(np.linalg.solve(V, parcel.moment.value))


def reference(plan: Plan, parcel: Parcel) -> Array | None:
    """Theta', where errors are carried over to the moment."""
    if plan.estimate != "corrected":
        return None
    theta = estimate(plan, parcel)
    length = float(np.linalg.norm(theta))
    return theta if length <= plan.longest else theta * (plan.longest / length)


def without_faint_rows(summary: Dense) -> Dense:
    """Shed rows that say next to nothing beside what is shed already."""
    squares = np.sum(summary.rows**2, axis=1)
    faint = squares <= 0.01 * summary.shed
    shed = summary.shed + float(squares[faint].max(initial=0.0))
    lost = summary.lost + float(squares[faint].sum())
    return Dense(summary.rows[~faint], shed, lost, summary.size)


def sent(plan: Plan, parcel: Parcel, size: int, at: Array | None) -> Parcel:
    """Shed what has no room in the message, and round what has."""
    summary = shrunk(parcel.summary, size)
    if plan.width == "float64":
        moment = carry(parcel.moment, parcel.summary.stands_for(), summary, at)
        return Parcel(summary, moment)
    summary = rounded(without_faint_rows(summary), plan.width)
    moment = carry(parcel.moment, parcel.summary.stands_for(), summary, at)
    off = moment.value.astype(np.float32).astype(float) - moment.value
    return Parcel(summary, replace(moment, slip=moment.slip + off))


def size_of_downloads(plan: Plan, summary: Dense) -> int:
    """Try all sizes that shed a row: the smallest that sheds no more than is allowed."""
    if not plan.auto:
        return plan.most
    mass = float(np.sum(summary.rows**2)) + summary.lost
    allowed = plan.lam + 0.5 * mass / plan.d
    rows = int(np.linalg.matrix_rank(summary.rows)) if len(summary.rows) else 0
    sizes = range(1, min(plan.most, rows + 1))
    fit = (max(size, 2) for size in sizes if shrunk(summary, size).shed <= allowed)
    return next(fit, plan.most)


def merged(ours: Parcel, theirs: list[Parcel], at: Array | None) -> Parcel:
    """Stack all rows and shrink them once."""
    whole = [ours.summary, *(each.summary for each in theirs)]
    both = Dense(
        np.vstack([each.rows for each in whole]),
        sum(each.shed for each in whole),
        sum(each.lost for each in whole),
        ours.summary.size,
    )
    kept, moment = shrunk(both, ours.summary.size), ours.moment
    for each in theirs:
        moment = moment.plus(each.moment)
    before = np.sum([each.stands_for() for each in whole], axis=0)
    return Parcel(kept, carry(moment, before, kept, at))


@dataclass
class TwinServer:
    plan: Plan
    held: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.held = nothing(self.plan.d, self.plan.server)

    def merge(self, uploads: list[Parcel]) -> None:
        self.held = merged(self.held, uploads, reference(self.plan, self.held))

    def download(self) -> Parcel:
        size = size_of_downloads(self.plan, self.held.summary)
        return sent(self.plan, self.held, size, reference(self.plan, self.held))


@dataclass
class TwinAgent:
    plan: Plan
    base: Parcel = field(init=False)
    pending: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.base = nothing(self.plan.d, self.plan.most)
        self._start()

    def _start(self) -> None:
        self.pending = nothing(self.plan.d, self.base.summary.size)

    @property
    def at(self) -> Array | None:
        return reference(self.plan, self.base)

    def choose(self, arms: Array) -> int:
        inverse = np.linalg.inv(read(self.plan, self.base.summary))
        return ucb(estimate(self.plan, self.base), inverse, self.plan.beta, arms)

    def observe(self, x: Array, reward: float) -> Parcel | None:
        summary, moment = self.pending.summary, self.pending.moment
        grown = replace(summary, rows=np.vstack([summary.rows, x]))
        self.pending = Parcel(grown, replace(moment, plain=moment.plain + reward * x))
        self._shed_if_full()
        V, now = read(self.plan, self.base.summary), self.pending.summary
        more = V + now.rows.T @ now.rows + now.shed * np.eye(self.plan.d)
        if not exceeds(logdet(more) - logdet(V), np.log(1 + self.plan.alpha)):
            return None
        self._shed()
        upload = sent(self.plan, self.pending, self.base.summary.size, self.at)
        self._start()
        return upload

    def receive(self, download: Parcel) -> None:
        """Make rounded rows orthogonal, which no matrix notices."""
        self._rebase(replace(download, summary=shrunk(download.summary, download.summary.size)))

    def keep(self, upload: Parcel) -> None:
        self._rebase(merged(self.base, [upload], self.at))

    def joined(self, first: Parcel, second: Parcel) -> Parcel:
        both = merged(first, [second], self.at)
        return sent(self.plan, both, first.summary.size, self.at)

    def _rebase(self, base: Parcel) -> None:
        self.base = base
        summary = replace(self.pending.summary, size=base.summary.size)
        self.pending = replace(self.pending, summary=summary)
        self._shed_if_full()

    def _shed_if_full(self) -> None:
        """A buffer of more than d rows can hold X^T X exactly."""
        capacity = self.plan.buffer or self.base.summary.size
        if len(self.pending.summary.rows) >= capacity and capacity <= self.plan.d:
            self._shed()

    def _shed(self) -> None:
        before = self.pending.summary
        after = shrunk(before, before.size)
        moment = carry(self.pending.moment, before.stands_for(), after, self.at)
        self.pending = Parcel(after, moment)
