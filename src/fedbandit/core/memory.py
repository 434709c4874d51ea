"""How agents and server remember: a Gram matrix or a sketch, as a part that recipes choose."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from fedbandit.core.linalg import Array, skew
from fedbandit.core.pending import Pending
from fedbandit.core.pending_gram import PendingGram
from fedbandit.core.pending_rows import PendingRows
from fedbandit.core.pending_sketch import PendingSketch
from fedbandit.core.state import State, array, number
from fedbandit.core.summary import (
    Gram,
    GramReading,
    Reading,
    Sketch,
    SketchReading,
    Summary,
    empty_gram,
    empty_sketch,
)
from fedbandit.errors import InvalidMessage, InvalidState, complaint

S = TypeVar("S", bound=Summary)
Determinant = Literal["when-needed", "rank-one", "every-round"]

_HUGE = 1e150  # squares of anything larger overflow
_LOOSE = 1.0 + 1e-9
_SKEW = 1e-11


class Memory(Protocol):
    """Makes, reads, checks and saves summaries of one kind.

    The summaries and readings that it takes are its own kind; ``check`` is for what came from
    elsewhere.
    """

    @property
    def ridge(self) -> float:
        """The ridge, lambda."""
        ...

    @property
    def capacity(self) -> int:
        """How many observations a pending buffer takes in before it sheds."""
        ...

    def empty(self) -> Summary:
        """Return the summary of no observations."""
        ...

    def read(self, summary: Any) -> Reading:
        """Read a summary as the matrix to decide with."""
        ...

    def pending(self, base: Any, reading: Any) -> Pending:
        """Return an empty buffer on top of a base and its reading."""
        ...

    def check(self, summary: object) -> None:
        """Raise InvalidMessage unless the summary is one that this memory can merge."""
        ...

    def pack(self, summary: Any) -> State:
        """Return a summary as plain arrays and numbers."""
        ...

    def unpack(self, state: State) -> Summary:
        """Return the summary that was packed."""
        ...


@dataclass(frozen=True, slots=True)
class GramMemory:
    """Remember X^T X itself.

    ``determinant`` is how pending data grows it: only when that could matter, for agents that
    decide on their base alone; by rank-one updates, which also serve those that decide on both; or
    from scratch at every observation.
    """

    dimension: int
    ridge: float
    determinant: Determinant = "rank-one"

    @property
    def capacity(self) -> int:
        """One: nothing is ever shed, and every observation is alike."""
        return 1

    def empty(self) -> Gram:
        """Return the zero matrix."""
        return empty_gram(self.dimension)

    def read(self, summary: Gram) -> GramReading:
        """Read as ridge I + X^T X."""
        return summary.read(self.ridge)

    def pending(self, base: Gram, reading: GramReading) -> Pending:
        """Return an empty buffer."""
        if self.determinant == "when-needed":
            return PendingRows(base, reading, ridge=self.ridge)
        return PendingGram(base, reading, ridge=self.ridge, determinant=self.determinant)

    def check(self, summary: object) -> None:
        """Raise InvalidMessage unless it is a Gram matrix of this dimension."""
        fits = (
            isinstance(summary, Gram)
            and summary.matrix.shape == (self.dimension, self.dimension)
            and (summary.trusted or _is_gram(summary.matrix))
        )
        if not fits:
            raise _misfit(summary, f"a Gram matrix of dimension {self.dimension}, in float64")

    def pack(self, summary: Gram) -> State:
        """Return the matrix."""
        return {"matrix": summary.matrix.copy()}

    def unpack(self, state: State) -> Gram:
        """Return the matrix that was packed."""
        summary = Gram(array(state, "matrix", self.dimension, self.dimension))
        return _restored(self, summary)


@dataclass(frozen=True, slots=True)
class SketchMemory:
    """Remember a sketch of fewer than ``size`` rows, read with or without what it has shed.

    Pending data is shrunk once ``buffer`` rows are there (default: ``size``).
    """

    dimension: int
    ridge: float
    size: int
    compensated: bool = True
    buffer: int | None = None

    @property
    def capacity(self) -> int:
        """The buffer, or the size where there is none."""
        return self.size if self.buffer is None else self.buffer

    def empty(self) -> Sketch:
        """Return the sketch without rows."""
        return empty_sketch(self.dimension, self.size)

    def read(self, summary: Sketch) -> SketchReading:
        """Read as (ridge + shed) I + S^T S, or as ridge I + S^T S."""
        return summary.read(self.ridge, compensated=self.compensated)

    def pending(self, base: Sketch, reading: SketchReading) -> PendingSketch:
        """Return an empty buffer."""
        return PendingSketch(
            base,
            reading,
            ridge=self.ridge,
            compensated=self.compensated,
            capacity=self.capacity,
        )

    def check(self, summary: object) -> None:
        """Raise InvalidMessage unless it is a sketch of this dimension and size."""
        fits = (
            isinstance(summary, Sketch)
            and summary.dimension == self.dimension
            and len(summary.rows) < summary.size == self.size
            and 0.0 <= summary.shed < _HUGE
            and (summary.trusted or _are_orthogonal(summary.rows))
        )
        if not fits:
            rows = f"fewer than {self.size} orthogonal rows of {self.dimension} float64"
            raise _misfit(summary, f"{rows}, and a finite shed >= 0")

    def pack(self, summary: Sketch) -> State:
        """Return rows and shed."""
        return {"rows": summary.rows.copy(), "shed": summary.shed}

    def unpack(self, state: State) -> Sketch:
        """Return the sketch that was packed."""
        rows = array(state, "rows", None, self.dimension)
        return _restored(self, Sketch(rows, number(state, "shed"), self.size))


def _is_gram(matrix: Array) -> bool:
    """Say whether a matrix can be a sum of x x^T, as far as can be told in O(d^2)."""
    diagonal = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    return (
        matrix.dtype == np.float64
        and bool((matrix.diagonal() >= 0.0).all())
        and bool((np.abs(matrix) <= _LOOSE * np.outer(diagonal, diagonal)).all())
        and bool((matrix.diagonal() < _HUGE).all())
        and np.array_equal(matrix, matrix.T)
    )


def _are_orthogonal(rows: Array) -> bool:
    if rows.dtype != np.float64 or rows.ndim != 2:
        return False
    square, product = skew(rows)
    return square < _HUGE and product <= _SKEW * square


def _restored(memory: Memory, summary: S) -> S:
    try:
        memory.check(summary)
    except InvalidMessage as error:
        raise InvalidState(str(error)) from error
    return summary


def _misfit(summary: object, expected: str) -> InvalidMessage:
    match summary:
        case Gram(matrix):
            got = f"a Gram matrix of shape {matrix.shape}"
        case Sketch(rows, shed, size):
            got = f"a sketch of size {size}, rows of shape {rows.shape}, shed {shed}"
        case _:
            got = f"a {type(summary).__name__}"
    fix = "Agents and server must be built by the same recipe."
    return InvalidMessage(complaint("summary in a message", got=got, expected=expected, fix=fix))
