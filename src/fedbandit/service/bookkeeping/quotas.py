"""Quotas: how much one agent may send in an hour, and how much of a model may be its own.

Limits bound one upload; quotas bound an agent. What an agent has spent of an hourly quota drains
evenly, so that it is gone after an hour: an upload is let in while what is left of the quota has
room for it, and the answer to one that is not says when there will be. So within any hour an agent
gets at most twice its quota merged, and in the long run once. An upload that is larger than the
whole quota is let in once everything spent has drained, and then has to drain itself.

What is spent is stored with the agent, and changes in the transaction that merges: it survives
restarts, and several coordinators on one store count together.

The *mass* of an upload is what it adds to the trace of V: trace(X^T X) for a Gram matrix, the
squares of a sketch's rows and d times what it shed, or the sum of its bounds. An agent that holds
more than its ``share`` of the mass that a model ever merged waits until others have sent enough,
and so does one that holds more than that of the observations: mean rewards and ``radius="auto"``
count those, whatever they weigh.

The first ``FREE`` x d observations of each agent may be a larger share, or none could begin. But
together they weigh no more than so many of the longest arm; and what goes beyond the first d, as
they weigh in the model on average, is no more than ``AHEAD`` times what an agent that has sent
something holds on average. Otherwise a young model would be mostly that of the first agent that
sends as much as it may.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Final

import msgspec
import numpy as np

from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import Triangle
from fedbandit.errors import InvalidParameter, complaint

HOUR: Final = 3600.0
FREE: Final = 10
"""Observations of an agent, in multiples of d, until which it may hold more than its share."""
AHEAD: Final = 5
"""How much more than the average agent it may hold until then."""
SHARE_SECONDS: Final = 600
"""When to ask again for an agent that holds its share already: others have to send first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What one agent of a model may send; None: as much as it likes.

    ``observations`` and ``uploads`` are for an hour, ``share`` is of the model's mass (0 to 1).
    """

    observations: int | None = None
    uploads: int | None = None
    share: float | None = None


NO_QUOTAS: Final = Quotas()
USUAL_QUOTAS: Final = Quotas(uploads=3600)
"""Of models that ``model create`` makes: one upload a second in the long run.

Honest agents send far fewer, and merge what waits. With many features each upload costs the
coordinator tens of milliseconds, and its sender next to nothing.
"""


class Spent(msgspec.Struct, frozen=True):
    """What an agent has spent of its hourly quotas, as of the time ``at``; it drains from then."""

    observations: float = 0.0
    uploads: float = 0.0
    at: float = 0.0

    def drained(self, quotas: Quotas, now: float) -> "Spent":
        """Return what is left of it now.

        A clock that is behind drains nothing, and none of the time until ``at`` is drained twice:
        of several coordinators, whose clocks differ, one may have been ahead. By more than an hour
        it was wrong, and counts no more.
        """
        hours = max(0.0, now - self.at) / HOUR
        return Spent(
            _drained(self.observations, quotas.observations, hours),
            _drained(self.uploads, quotas.uploads, hours),
            self.at if now < self.at <= now + HOUR else now,
        )

    def plus(self, observations: int) -> "Spent":
        """Return what is spent after one more upload."""
        return Spent(self.observations + observations, self.uploads + 1.0, self.at)


NOTHING_SPENT: Final = Spent()


@dataclass(frozen=True, slots=True)
class Senders:
    """How many agents have sent something to a model, and how many observations together."""

    agents: int = 0
    observations: int = 0


@dataclass(frozen=True, slots=True)
class Exceeded:
    """Why an upload has to wait, and for how many seconds at least."""

    reason: str
    seconds: int


def exceeded_rate(quotas: Quotas, spent: Spent, count: int) -> Exceeded | None:
    """Say whether an upload of ``count`` observations has to wait; ``spent`` is as of now."""
    for what, most, used, more in (
        ("observations", quotas.observations, spent.observations, count),
        ("uploads", quotas.uploads, spent.uploads, 1),
    ):
        if most is None:
            continue
        over = min(used, used + more - most)
        if over > 0.0:
            reason = f"an agent may send {most} {what} an hour, and this one has spent that"
            return Exceeded(reason, ceil(over / most * HOUR))
    return None


def exceeded_share(
    quotas: Quotas,
    *,
    dimension: int,
    longest: float,
    sent: int,
    observations: int,
    held: float,
    added: float,
    total: float,
    count: int,
    senders: Callable[[], Senders],
) -> Exceeded | None:
    """Say whether an upload has to wait because of how much of the model is the agent's own.

    ``held`` is the agent's mass and ``total`` the model's, both without the upload, whose mass is
    ``added``; ``observations`` are the agent's, with it, of which ``sent`` are the upload's, and
    ``count`` the model's, without it. ``longest`` is the longest arm.

    ``senders`` counts agents that have sent something before. It is called only where a share would
    be exceeded. What agents have sent may be more than ``count``, once something was taken out.
    """
    share, mass = quotas.share, held + added
    if share is None or (
        mass <= share * (total + added) and observations <= share * (count + sent)
    ):
        return None
    known = senders()
    everything = max(count, known.observations) + sent
    most_mass, most = share * (total + added), share * everything
    if observations <= FREE * dimension:
        ahead = AHEAD / max(1, known.agents)
        begun = max(dimension * total / max(1, count), ahead * (total + added))
        most_mass = max(most_mass, min(FREE * dimension * longest**2, begun))
        most = max(most, dimension, ahead * everything)
    if mass <= most_mass and observations <= most:
        return None
    reason = f"an agent may hold {share:g} of the model, and this one would hold more"
    return Exceeded(reason, SHARE_SECONDS)


def share_left(
    quotas: Quotas, *, dimension: int, agents: int, left: float, count: int, total: float
) -> float:
    """Return by how much to scale every mass once something was taken out of a model.

    ``left`` is the mass of what is left, of ``count`` observations, ``total`` the model's so far.
    Shares of the model stay what they were, and what was taken out no longer makes room for more.
    Where so little is left that a share of it has no room for what agents may begin with, all
    stays as it is: they would wait for each other for ever.
    """
    share = min(1.0, 5.0 / agents) if quotas.share is None else quotas.share
    if not 0.0 < left < total or count * share < FREE * dimension:
        return 1.0
    return left / total


def mass_of(summary: object) -> float:
    """Return what a summary adds to the trace of V."""
    match summary:
        case Sketch() | Narrow() as sketch:
            return float(sketch.squares.sum()) + sketch.dimension * sketch.shed
        case Gram() | Triangle() as gram:
            return float(gram.matrix.trace())
        case LossyRows() | Fitted() as lossy:
            trace = float(np.vdot(lossy.rows, lossy.rows))
            return lossy.weight * trace + float(lossy.bound.sum())
        case LossyGram() as whole:
            return whole.weight * float(whole.matrix.trace()) + float(whole.bound.sum())
        case _:
            raise TypeError(f"no mass of a {type(summary).__name__}")


def check_quotas(quotas: Quotas) -> Quotas:
    """Return the quotas of a model; raise InvalidParameter if one is out of range."""
    for name, most in (("observations", quotas.observations), ("uploads", quotas.uploads)):
        if most is not None and not 1 <= most <= 10**15:
            expected = "a whole number from 1 to 1e15"
            raise _bad(f"{name} an hour", most, expected)
    if quotas.share is not None and not (isfinite(quotas.share) and 0.0 < quotas.share <= 1.0):
        raise _bad("share of the model", quotas.share, "a number above 0 and at most 1")
    return quotas


def _drained(spent: float, most: int | None, hours: float) -> float:
    return 0.0 if most is None else max(0.0, spent - most * hours)


def _bad(name: str, got: float, expected: str) -> InvalidParameter:
    fix = "Choose what no honest agent exceeds, or leave it out."
    return InvalidParameter(complaint(f"quota, {name}", got=got, expected=expected, fix=fix))
