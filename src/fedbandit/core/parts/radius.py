"""The confidence radius beta as a part that recipes choose: how wide an agent hopes."""

from dataclasses import dataclass
from typing import Literal, Protocol

from fedbandit.core import theory
from fedbandit.core.memory.contract import Reading
from fedbandit.core.theory import Bounds


class Radius(Protocol):
    """A rule for beta, applied whenever what the agent decides on has changed."""

    def __call__(self, reading: Reading, count: int, /) -> float:
        """Return beta for a reading that stands for ``count`` observations."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same beta always: what published experiments use."""

    value: float

    def __call__(self, _reading: Reading, _count: int, /) -> float:
        """Return the constant."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated:
    """FSCLB's eq. 1, and FedLinUCB's radius, which is the same without shed.

    ``rounded``: theta is read with shed, and from rows that were rounded on their way. They may
    have become longer by as much as was added to shed for it (see ``Narrow``), so that the matrix
    that is read but was not observed is at most (lambda + 2 shed) I.
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
        """Return ``theory.radius`` for what the reading has shed, and how it reads theta."""
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
    """OFUL's radius from the determinant; also CBSCFD, Async-LinUCB and DisLinUCB."""

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
    """SOFUL's radius, which pays for reading a sketch without what it has shed."""

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
