"""What the ways to remember have in common. Each is a part that a recipe chooses.

A *summary* is a frozen value that stands for X^T X; a *reading* of it is the matrix V to decide
with; a *pending* buffer takes in observations on top of a base; a *memory* makes all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.saved import State

if TYPE_CHECKING:
    from fedbandit.core.statistics import Base, Statistics


class Sent(Protocol):
    """What a message says of X^T X."""

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        ...

    @property
    def upload_scalars(self) -> int:
        """Scalars that an upload of it counts by the paper's rule, moment included."""
        ...

    @property
    def download_scalars(self) -> int:
        """Scalars that a download of it counts by the paper's rule, estimate included."""
        ...


class Summary(Sent, Protocol):
    """What is remembered of X^T X. Summaries of one kind can be merged."""

    def merge(self, *others: Any) -> Self:
        """Return the summary of all these histories."""
        ...

    def scaled(self, share: float) -> Self:
        """Return the summary of share X^T X."""
        ...


class Reading(Protocol):
    """A summary read as a positive definite matrix V: what deciding and triggering need of it."""

    @property
    def shed(self) -> float:
        """Mass that the summary behind it has shed (0 for a Gram matrix)."""
        ...

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        ...

    @property
    def inflation(self) -> float:
        """How much larger than V^{-1} the inverse may be that estimates are read with; >= 1."""
        ...

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        ...

    def estimate(self, moment: Array) -> Array:
        """Return theta for a moment: V^{-1} moment, or read with a ridge of its own."""
        ...

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms (K x d)."""
        ...

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm, at a cost that grows with their entries."""
        ...

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm to play; keep arms and squared widths. -1 if a score is not finite."""
        ...


class Pending(Protocol):
    """Observations that were not sent yet, on top of a base; grows in place.

    Its growth, log det(base + pending) - log det(base), is what triggers look at. ``moment`` is
    their sum r x, ``count`` their number.
    """

    moment: Array
    count: int

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Take in a played arm and what it paid; return False if its square might overflow.

        squared_width is x^T V^{-1} x in what it was played on. If False, nothing has changed.
        """
        ...

    def growth_exceeds(self, threshold: float) -> bool:
        """Say whether log det(base + pending) - log det(base) exceeds threshold."""
        ...

    def summary(self) -> Summary:
        """Return what is pending as a frozen value, to be sent."""
        ...

    def reading(self) -> Reading:
        """Return base and pending read together, for agents that decide on their own data."""
        ...

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base."""
        ...

    def state(self) -> State:
        """Return the buffer as plain arrays and numbers."""
        ...

    def restore(self, state: State) -> None:
        """Take up a saved buffer; the base must be the one that it was saved on."""
        ...


class Memory(Protocol):
    """Makes, reads, checks and saves statistics with one kind of summary.

    What it takes is its own kind; ``check`` is for what came from elsewhere.
    """

    @property
    def ridge(self) -> float:
        """The ridge, lambda."""
        ...

    @property
    def capacity(self) -> int:
        """How many observations a pending buffer takes in before it sheds."""
        ...

    def empty(self) -> Statistics:
        """Return the statistics of no observations."""
        ...

    def empty_server(self) -> Statistics:
        """Return the same, with room for what a server keeps."""
        ...

    def read(self, summary: Any, /) -> Reading:
        """Read a summary as the matrix to decide with."""
        ...

    def pending(self, base: Base, /) -> Pending:
        """Return an empty buffer on top of a base."""
        ...

    def reference(self, base: Base, /) -> Array | None:
        """Return the theta' at which errors are subtracted from the moment; None if not at all."""
        ...

    def uploaded(self, statistics: Statistics, reference: Array | None, /) -> Statistics:
        """Return statistics as an agent sends them."""
        ...

    def downloaded(self, base: Base, /) -> Statistics:
        """Return statistics as the server sends them."""
        ...

    def moment_error(self, summary: Any, /) -> float:
        """Upper bound on the length of an upload's moment - sum of r x."""
        ...

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return statistics that have travelled as ones that can be read."""
        ...

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], reference: Array | None, /
    ) -> Statistics:
        """Return the statistics of all these observations."""
        ...

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless this memory can merge the statistics.

        ``strict``: leave half of the room for rounding to whoever checks them next.
        """
        ...

    def pack(self, summary: Any, /) -> State:
        """Return a summary as plain arrays and numbers."""
        ...

    def unpack(self, state: State, /) -> Summary:
        """Return the summary that was packed."""
        ...
