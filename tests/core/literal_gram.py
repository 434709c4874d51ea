"""FedLinUCB with rounded matrices again, dense and slow: entry by entry, errors as matrices.

A moment is kept as the plain sum of reward times arm, the sum of (B - A) theta' that was added to
it, and what rounding did to it. Nothing here uses the shipped linear algebra; only the two named
comparisons are shared.
"""

from dataclasses import dataclass, field, replace
from math import ceil, frexp, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.ucb import exceeds
from tests.core.literal import logdet, ucb
from tests.core.literal_beyond import Moment

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of FedLinUCB as the twin knows them."""

    d: int
    width: str
    alpha: float = 1.0
    lam: float = 1.0
    beta: float = 0.3
    longest: float = inf


@dataclass(frozen=True)
class Parcel:
    """An upload or a download: a matrix, what rounding may have added to it, a moment, rewards."""

    matrix: Array
    shed: float
    moment: Moment
    rewards: tuple[float, ...] = ()

    def plus(self, other: "Parcel") -> "Parcel":
        moment, rewards = self.moment.plus(other.moment), self.rewards + other.rewards
        return Parcel(self.matrix + other.matrix, self.shed + other.shed, moment, rewards)


def nothing(d: int) -> Parcel:
    zero = np.zeros(d)
    return Parcel(np.zeros((d, d)), 0.0, Moment(zero, zero, zero))


def next_short(number: float) -> float:
    """Return the next number of 21 significant bits that is at least as large."""
    fraction, exponent = frexp(number)
    return float(ceil(fraction * 2**21) / 2**21 * 2.0**exponent)


def nearest(ratio: float, width: str) -> float:
    """Round a number from -1 to 1."""
    ratio = min(max(ratio, -1.0), 1.0)
    if width == "int8":
        return float(np.rint(127 * ratio)) / 127
    return float(np.dtype(width).type(ratio))


def rounded(A: Array, width: str) -> tuple[Array, float]:
    """Return B >= A, and a bound on the largest eigenvalue of B - A."""
    d = len(A)
    if width == "float64":
        return A, 0.0
    g = [next_short(A[j, j]) for j in range(d)]
    plain, N = np.diag(g), np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            size = sqrt(g[i] * g[j])
            if i != j and size:
                ratio = A[min(i, j), max(i, j)] / size
                plain[i, j] = nearest(ratio, width) * size
            if size:
                N[i, j] = (A[i, j] - plain[i, j]) / size
    eigenvalues = np.linalg.eigvalsh(N)
    raised = max(0.0, eigenvalues.max())
    return plain + raised * np.diag(g), (raised - eigenvalues.min()) * max(g)


def read(plan: Plan, parcel: Parcel) -> Array:
    """V, of widths, trigger and estimate."""
    return np.asarray(plan.lam * np.eye(plan.d) + parcel.matrix)


def estimate(plan: Plan, parcel: Parcel) -> Array:
    return np.asarray(np.linalg.solve(read(plan, parcel), parcel.moment.value))


def sent(plan: Plan, parcel: Parcel, base: Parcel, *, up: bool) -> Parcel:
    """Round the matrix; carry the error to the moment with the base's estimate; round that.

    In an upload an estimate that predicts far more than any reward is shortened.
    """
    if plan.width == "float64":
        return parcel
    theta = estimate(plan, base)
    length = float(np.linalg.norm(theta))
    at = theta if length <= plan.longest else theta * (plan.longest / length)
    B, added = rounded(parcel.matrix, plan.width)
    if up:
        known = (*parcel.rewards, *base.rewards)
        most = 16 * len(parcel.rewards) * sum(r * r for r in known) / max(1, len(known))
        pull = float(at @ (B - parcel.matrix) @ at)
        at = at * sqrt(most / pull) if pull > most else at
    carried = parcel.moment.carried - (B - parcel.matrix) @ at
    moment = replace(parcel.moment, carried=carried)
    off = moment.value.astype(np.float32).astype(float) - moment.value
    moment = replace(moment, slip=moment.slip + off)
    return Parcel(B, parcel.shed + added, moment, parcel.rewards)


@dataclass
class TwinServer:
    plan: Plan
    held: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.held = nothing(self.plan.d)

    def merge(self, upload: Parcel) -> None:
        self.held = self.held.plus(upload)

    def download(self) -> Parcel:
        return sent(self.plan, self.held, self.held, up=False)


@dataclass
class TwinAgent:
    plan: Plan
    base: Parcel = field(init=False)
    pending: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.pending = nothing(self.plan.d)

    def choose(self, arms: Array) -> int:
        inverse = np.linalg.inv(read(self.plan, self.base))
        return ucb(estimate(self.plan, self.base), inverse, self.plan.beta, arms)

    def observe(self, x: Array, reward: float) -> Parcel | None:
        zero = np.zeros(self.plan.d)
        one = Parcel(np.outer(x, x), 0.0, Moment(reward * x, zero, zero), (reward,))
        self.pending = self.pending.plus(one)
        V = read(self.plan, self.base)
        growth = logdet(V + self.pending.matrix) - logdet(V)
        if not exceeds(growth, np.log(1 + self.plan.alpha)):
            return None
        upload = sent(self.plan, self.pending, self.base, up=True)
        self.pending = nothing(self.plan.d)
        return upload

    def receive(self, download: Parcel) -> None:
        self.base = download

    def keep(self, upload: Parcel) -> None:
        self.base = self.base.plus(upload)

    def joined(self, first: Parcel, second: Parcel) -> Parcel:
        return sent(self.plan, first.plus(second), self.base, up=True)
