"""How agents and server remember, as a part that recipes choose; here, by a Gram matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.pending import Pending
from fedbandit.core.memory.pending_gram import PendingGram
from fedbandit.core.memory.pending_rows import PendingRows
from fedbandit.core.memory.reading import GramReading, Reading
from fedbandit.core.memory.summary import Gram, Sent, Sketch, Summary, empty_gram
from fedbandit.core.saved import State, array
from fedbandit.errors import InvalidMessage, InvalidState, complaint

S = TypeVar("S", bound=Summary)
Determinant = Literal["when-needed", "rank-one", "every-round"]

HUGE: Final = 1e150  # squares of anything larger overflow
_LOOSE = 1.0 + 1e-9


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

    def empty_server(self) -> Summary:
        """Return what a server that has merged nothing holds."""
        ...

    def read(self, summary: Any) -> Reading:
        """Read a summary as the matrix to decide with."""
        ...

    def pending(self, base: Any, reading: Any, at: Array | None = None, /) -> Pending:
        """Return an empty buffer on top of a base and its reading; ``at`` as in ``reference``."""
        ...

    def reference(self, summary: Any, moment: Array, /) -> Array | None:
        """Return where errors of a summary are to be carried over to the moment, if anywhere."""
        ...

    def uploaded(self, summary: Any, moment: Array, at: Array | None, /) -> tuple[Sent, Array]:
        """Return summary and moment as an agent sends them."""
        ...

    def downloaded(self, summary: Any, moment: Array, at: Array | None, /) -> tuple[Sent, Array]:
        """Return summary and moment as the server sends them."""
        ...

    def moved(self, summary: Any, /) -> float:
        """Bound what an upload's moment may differ by from the sum of r x, in length."""
        ...

    def opened(self, summary: Any) -> Summary:
        """Return a summary that has travelled as one that can be read."""
        ...

    def merged(
        self, ours: Any, theirs: Sequence[Any], moment: Array, at: Array | None, /
    ) -> tuple[Summary, Array]:
        """Return all histories as one, and the moment that goes with it."""
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

    empty_server = empty

    def read(self, summary: Gram) -> GramReading:
        """Read as ridge I + X^T X."""
        return summary.read(self.ridge)

    def pending(self, base: Gram, reading: GramReading, _at: Array | None = None, /) -> Pending:
        """Return an empty buffer."""
        if self.determinant == "when-needed":
            return PendingRows(base, reading, ridge=self.ridge)
        return PendingGram(base, reading, ridge=self.ridge, determinant=self.determinant)

    def reference(self, _summary: Gram, _moment: Array, /) -> None:
        """Nowhere: the matrix is exact."""

    def uploaded(self, summary: Gram, moment: Array, _at: Array | None, /) -> tuple[Gram, Array]:
        """Return both as they are."""
        return summary, moment

    downloaded = uploaded

    def moved(self, _summary: Gram, /) -> float:
        """Nothing."""
        return 0.0

    def opened(self, summary: Gram) -> Gram:
        """Return it as it is."""
        return summary

    def merged(
        self, ours: Gram, theirs: Sequence[Gram], moment: Array, _at: Array | None, /
    ) -> tuple[Gram, Array]:
        """Return the sum of the matrices."""
        return ours.merge(*theirs), moment

    def check(self, summary: object) -> None:
        """Raise InvalidMessage unless it is a Gram matrix of this dimension."""
        fits = (
            isinstance(summary, Gram)
            and summary.matrix.shape == (self.dimension, self.dimension)
            and (summary.trusted or _is_gram(summary.matrix))
        )
        if not fits:
            raise misfit(summary, f"a Gram matrix of dimension {self.dimension}, in float64")

    def pack(self, summary: Gram) -> State:
        """Return the matrix."""
        return {"matrix": summary.matrix.copy()}

    def unpack(self, state: State) -> Gram:
        """Return the matrix that was packed."""
        summary = Gram(array(state, "matrix", self.dimension, self.dimension))
        return restored(self, summary)


def _is_gram(matrix: Array) -> bool:
    """Say whether a matrix can be a sum of x x^T, as far as can be told in O(d^2)."""
    diagonal = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    return (
        matrix.dtype == np.float64
        and bool((matrix.diagonal() >= 0.0).all())
        and bool((np.abs(matrix) <= _LOOSE * np.outer(diagonal, diagonal)).all())
        and bool((matrix.diagonal() < HUGE).all())
        and np.array_equal(matrix, matrix.T)
    )


def restored(memory: Memory, summary: S) -> S:
    """Return a summary that came from a saved state, checked."""
    try:
        memory.check(summary)
    except InvalidMessage as error:
        raise InvalidState(str(error)) from error
    return summary


def misfit(summary: object, expected: str) -> InvalidMessage:
    """Return the error for a summary that this memory cannot merge."""
    match summary:
        case Gram(matrix):
            got = f"a Gram matrix of shape {matrix.shape}"
        case Sketch() | Narrow():
            kind = summary.width if isinstance(summary, Narrow) else "float64"
            shape = (summary.codes if isinstance(summary, Narrow) else summary.rows).shape
            got = f"a sketch of size {summary.size}, rows of shape {shape} in {kind}"
            got += f", shed {summary.shed}, lost {summary.lost}"
        case _:
            got = f"a {type(summary).__name__}"
    fix = "Agents and server must be built by the same recipe."
    return InvalidMessage(complaint("summary in a message", got=got, expected=expected, fix=fix))
