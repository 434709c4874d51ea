"""Rules for the confidence radius beta, which weighs an arm's uncertainty in its score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from fedbandit.core import theory
from fedbandit.core.checks import one_of, real
from fedbandit.core.memory.contract import Reading
from fedbandit.core.theory import Bounds


class Radius(Protocol):
    """A rule for beta, applied whenever the data that an agent decides on changes."""

    def __call__(self, reading: Reading, count: int, /) -> float:
        """Return beta for the V of ``count`` observations."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant beta, as published experiments use it."""

    value: float

    def __call__(self, _reading: Reading, _count: int, /) -> float:
        """Return the constant."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated:
    """FSCLB's eq. 1 (``theory.radius``), and FedLinUCB's radius, which is eq. 1 with shed = 0.

    FedLinUCB with rounded messages has the form "tight", corrected: see ``GramMemory``.
    ``rounded``: rows were rounded for sending, and theta is solved for with shed. Rounding may have
    made rows longer, by at most what was added to shed for it (see ``Narrow``), so V - X^T X is at
    most (lambda + 2 shed) I rather than (lambda + shed) I.
    """

    dimension: int
    agents: int
    alpha: float
    ridge: float
    bounds: Bounds
    form: Literal["paper", "tight"] = "paper"
    corrected: bool = False
    rounded: bool = False

    def __call__(self, reading: Reading, _count: int, /) -> float:
        """Return ``theory.radius`` for what has been shed, times the reading's inflation."""
        return reading.inflation * theory.radius(
            dimension=self.dimension,
            agents=self.agents,
            alpha=self.alpha,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=(1 + self.rounded) * reading.shed,
            form=self.form,
            corrected=self.corrected,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfNormalised:
    """OFUL's radius, from det V; used by LinUCB, CBSCFD, Async-LinUCB and DisLinUCB."""

    dimension: int
    ridge: float
    bounds: Bounds

    def __call__(self, reading: Reading, _count: int, /) -> float:
        """Return ``theory.self_normalised_radius`` for the reading."""
        return theory.self_normalised_radius(
            logdet=reading.logdet,
            dimension=self.dimension,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=reading.shed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompensated:
    """SOFUL's radius, for a sketch whose V leaves out what was shed."""

    dimension: int
    sketch_size: int
    ridge: float
    bounds: Bounds

    def __call__(self, reading: Reading, count: int, /) -> float:
        """Return ``theory.soful_radius`` after ``count`` observations."""
        return theory.soful_radius(
            count=count,
            dimension=self.dimension,
            sketch_size=self.sketch_size,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=reading.shed,
        )


def chosen_radius(asked: float | str, theory: Mapping[str, Radius]) -> Radius:
    """Return the radius that a recipe was asked for: a number, or a word for one of theory's."""
    if isinstance(asked, str):
        one_of("radius", asked, theory)
        return theory[asked]
    return Constant(real("radius", asked, zero=True))
