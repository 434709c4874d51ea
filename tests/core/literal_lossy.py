"""``compensation="coordinates"`` again, dense and slow: matrices, eigenvectors, one step a line.

Nothing here uses the shipped linear algebra; only the two named comparisons are shared.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.ucb import exceeds
from tests.core.literal import logdet, ucb

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters; ``most`` is the largest number of rows, ``room`` the bytes for them."""

    d: int
    most: int
    lam: float = 1.0
    beta: float = 0.3
    alpha: float = 1.0
    corrected: bool = True
    rounds: bool = False
    room: float | None = None
    whole: bool = False


@dataclass(frozen=True)
class Parcel:
    """X^T X <= w G + diag(c); b; number, sum of squares of the rewards; whether b was cut."""

    G: Array
    c: Array
    lost: float
    w: float
    b: Array
    n: int
    rr: float
    cut: int = 0

    def missing(self) -> Array:
        total = self.c.sum()
        return np.asarray(self.c * self.lost / total if total > 0 else self.c)

    def stands_for(self) -> Array:
        return np.asarray(self.G + np.diag(self.missing()))


def nothing(d: int) -> Parcel:
    return Parcel(np.zeros((d, d)), np.zeros(d), 0.0, 1.0, np.zeros(d), 0, 0.0)


def theta_of(plan: Plan, parcel: Parcel) -> Array:
    if not plan.corrected:
        return np.asarray(np.linalg.solve(read(plan, parcel), parcel.b))
    V = plan.lam * np.eye(plan.d) + parcel.stands_for()
    return np.asarray(np.linalg.solve(V, parcel.b))


def read(plan: Plan, parcel: Parcel) -> Array:
    return np.asarray(parcel.w * parcel.G + np.diag(plan.lam + parcel.c))


def spectrum(plan: Plan, G: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and eigenvectors in the metric, largest first, and the metric."""
    a = plan.lam + G.diagonal()
    g, U = np.linalg.eigh(G / np.sqrt(np.outer(a, a)))
    real = g[::-1] > 1e-13 * max(g[-1], 1e-300)
    return g[::-1][real], U.T[::-1][real], a


def cut(plan: Plan, parcel: Parcel, rows: int, even: float = 2.0) -> tuple[Parcel, Array]:
    """Keep some rows; what is lost is at most delta a. Return the rows too."""
    g, U, a = spectrum(plan, parcel.G)
    delta = g[rows] if len(g) > rows else 0.0
    left = np.maximum(g[:rows] - delta, 0.0)
    dropped = np.sum(g[rows:, None] * U[rows:] ** 2 * a) + np.sum(
        np.where(left > 0.0, 0.0, g[:rows])[:, None] * U[:rows] ** 2 * a
    )
    if plan.whole and delta * np.sum(a) <= even * dropped:
        left = np.where(left > 0.0, g[:rows], 0.0)
    S = (np.sqrt(left)[:, None] * U[:rows] * np.sqrt(a))[left > 1e-13 * g.max(initial=1e-300)]
    if delta == 0.0:
        return parcel, S
    gone = float(np.trace(parcel.G) - np.sum(S**2))
    loss = delta * a if np.sum(delta * a) <= plan.d * gone else np.full(plan.d, gone)
    loss = np.where(parcel.G.diagonal() > 0, loss, 0.0)
    c, lost = parcel.c + parcel.w * loss, parcel.lost + gone
    return replace(parcel, G=S.T @ S, c=c, lost=lost), S


def short(number: float) -> float:
    """A float64 whose lower half is zero, not above this one."""
    return float(
        (np.array([number]).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(float)[0]
    )


def first_step(charge: float, rows: int, d: int) -> float:
    return float(0.9 * np.sqrt(12 * charge / (11 * (np.sqrt(rows) + np.sqrt(d)) ** 2)))


def rows_that_fit(plan: Plan, parcel: Parcel, charge: float, faint: float) -> int:
    """At most ``most``, without faint ones, in the room that there is."""
    a = plan.lam + parcel.G.diagonal()
    _, S = cut(plan, parcel, plan.most, even=1e300)
    if faint:
        S = S[np.sum(S**2 / a, axis=1) * a.max() > faint]
    if plan.room is None or not len(S):
        return len(S)
    step = first_step(charge / parcel.w, len(S), plan.d)
    bits = [1 + int(np.ceil(np.log2(np.abs(row).max() / step + 1.5))) for row in S]
    taken = np.cumsum([each * plan.d / 8 + 1 for each in bits])
    return max(1, int(np.sum(taken <= plan.room)))


def up(c: Array) -> Array:
    """The bound as it is sent: eight levels a power of two, 255 in all, never below."""
    if c.max() == 0:
        return c
    top = short(c.max() * (1 + 2.0**-19))
    sent = []
    for each in c:
        levels = [top * 2.0 ** ((n - 255) / 8) for n in range(1, 256)]
        sent.append(min((level for level in levels if level >= each), default=top) if each else 0.0)
    return np.array(sent)


def rounded(parcel: Parcel, S: Array, charge: float) -> Parcel:
    if not len(S):
        return replace(parcel, c=up(parcel.c), w=1.1 * parcel.w)
    step = first_step(charge / parcel.w, *S.shape)
    while True:
        step = short(step)
        N = S - np.rint(S / step) * step
        added = 11 * float(np.sum(np.linalg.eigvalsh(N @ N.T) ** 16) ** (1 / 16))
        if added <= charge / parcel.w:
            break
        step *= 0.8
    c = up(parcel.c + parcel.w * added * (np.abs(N).max(axis=0) > 0))
    lost = max(0.0, parcel.lost + float(np.sum(S**2) - np.sum((S - N) ** 2)))
    return replace(parcel, G=(S - N).T @ (S - N), c=c, lost=lost, w=1.1 * parcel.w)


def sent(
    plan: Plan, parcel: Parcel, charge: float, faint: float, at: Array, limit: float | None
) -> Parcel:
    """Cut, round, and take E theta' from the moment, no more of it than the limit."""
    if plan.rounds:
        kept, S = cut(plan, parcel, rows_that_fit(plan, parcel, charge, faint))
        after = rounded(kept, S, charge)
    else:
        after, _ = cut(plan, parcel, plan.most)
    b, was_cut = parcel.b, 0
    if plan.corrected:
        moved = (parcel.stands_for() - after.stands_for()) @ at
        length = np.linalg.norm(moved)
        allowed = length if limit is None else limit * np.sqrt(after.c.max())
        was_cut = int(length > allowed + 1e-12 * np.linalg.norm(b))
        b = b - (moved * (allowed / length) if was_cut else moved)
    if plan.rounds:
        b = b.astype(np.float32).astype(float)
    return replace(after, b=b, cut=parcel.cut + was_cut)


@dataclass
class TwinServer:
    plan: Plan
    held: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.held = nothing(self.plan.d)

    def merge(self, upload: Parcel) -> None:
        ours, at = self.held, theta_of(self.plan, self.held)
        both = Parcel(
            ours.G + upload.G,
            ours.c + upload.c,
            ours.lost + upload.lost,
            max(ours.w, upload.w),
            ours.b + upload.b,
            ours.n + upload.n,
            ours.rr + upload.rr,
            ours.cut + upload.cut,
        )
        if self.plan.corrected:
            error = ours.stands_for() + upload.stands_for() - both.stands_for()
            both = replace(both, b=both.b - error @ at)
        self.held = both

    def download(self) -> Parcel:
        at = theta_of(self.plan, self.held)
        lam = self.plan.lam
        return sent(self.plan, self.held, 0.05 * lam, 0.02 * lam, at, None)


@dataclass
class TwinAgent:
    plan: Plan
    base: Parcel = field(init=False)
    own: Parcel = field(init=False)

    def __post_init__(self) -> None:
        self.base, self.own = nothing(self.plan.d), nothing(self.plan.d)

    def choose(self, arms: Array) -> int:
        inverse = np.linalg.inv(read(self.plan, self.base))
        return ucb(theta_of(self.plan, self.base), inverse, self.plan.beta, arms)

    def observe(self, x: Array, reward: float) -> Parcel | None:
        own, plan = self.own, self.plan
        G, b, rr = own.G + np.outer(x, x), own.b + reward * x, own.rr + reward**2
        self.own = replace(own, G=G, b=b, n=own.n + 1, rr=rr)
        V = read(plan, self.base)
        if not exceeds(logdet(V + self.own.G) - logdet(V), np.log(1 + plan.alpha)):
            return None
        u = float(np.trace(self.own.G))
        t = max(u + float(np.trace(self.base.G)) + self.base.lost, plan.lam)
        charge = 0.01 * plan.lam * (u / t) * (plan.lam / t) ** 0.25
        squares = [each.rr / each.n for each in (self.own, self.base) if each.n]
        limit = 4 * np.sqrt(max(squares) * self.own.n)
        upload = sent(plan, self.own, charge, 0.0, theta_of(plan, self.base), limit)
        self.own = nothing(plan.d)
        return upload

    def receive(self, download: Parcel) -> None:
        self.base = download
