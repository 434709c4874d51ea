"""The protocols that Gram matrices and sketches share.

A *summary* is a frozen value that stands for X^T X, the sum of x x^T over observations. A *reading*
of it is the matrix V to decide with. A *pending* buffer collects observations on top of a base. A
*memory* makes all three; it is the part of a recipe that says how observations are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import Integers
from fedbandit.core.saved import State

if TYPE_CHECKING:
    from fedbandit.core.statistics import Base, Statistics


class Sent(Protocol):
    """A summary of X^T X as it is sent."""

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        ...

    @property
    def upload_scalars(self) -> int:
        """Numbers in an upload with this summary, counted as the paper does, moment included."""
        ...

    @property
    def download_scalars(self) -> int:
        """Numbers in a download with it, counted as the paper does, estimate included."""
        ...


class Summary(Sent, Protocol):
    """A summary of X^T X that can be merged with others of its kind."""

    def merge(self, *others: Any) -> Self:
        """Return the summary of the observations of all of them."""
        ...

    def scaled(self, share: float) -> Self:
        """Return the summary of share X^T X."""
        ...


class Reading(Protocol):
    """A summary read as a positive definite matrix V: what choices and triggers compute with."""

    @property
    def shed(self) -> float:
        """Bound on the largest eigenvalue of what the summary dropped (0 for a Gram matrix)."""
        ...

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        ...

    @property
    def inflation(self) -> float:
        """Factor for radii from theory, >= 1: how much smaller than V the V' of theta may be."""
        ...

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        ...

    def estimate(self, moment: Array) -> Array:
        """Return theta: V^{-1} moment, or V'^{-1} moment if estimates have a ridge of their own."""
        ...

    def shown_directions(self, ridge: float) -> float:
        """Return how many directions data has shown: 0 without data, at most d.

        A direction in which data adds q to the ridge counts q / (ridge + q): the trace of
        I - ridge V^{-1} where nothing was shed. What was shed is counted by a guess.
        """
        ...

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms (K x d)."""
        ...

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm, at a cost that grows with the entries."""
        ...

    def whitened(self, arms: Array) -> Array:
        """Return a matrix M of K rows with M M^T = A V^{-1} A^T for the arms A (K x d).

        M z, with z standard normal, is the product of the arms and a vector drawn with the
        covariance V^{-1}.
        """
        ...

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the index of the arm with the best UCB, or -1 if a score is not finite.

        Copies the arms (K x d) to ``shown`` and writes x^T V^{-1} x to ``widths`` (K).
        """
        ...


class Pending(Protocol):
    """Observations that are not uploaded yet, on top of a base; changes in place.

    Triggers compare its growth, log det(base + pending) - log det(base), with a threshold.
    ``moment`` is sum r x of the pending observations, ``count`` their number. ``carried`` is what
    has to be subtracted from the moment when they are sent; None if there is nothing.
    """

    moment: Array
    count: int

    @property
    def carried(self) -> Array | None:
        """What to subtract from the moment when it is sent."""
        ...

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Add an observation; return False, and change nothing, if its squares might overflow.

        ``x`` (d) is the played arm, ``squared_width`` x^T V^{-1} x for the V of the decision.
        """
        ...

    def growth_exceeds(self, threshold: float) -> bool:
        """Say whether log det(base + pending) - log det(base) exceeds threshold."""
        ...

    def summary(self) -> Summary:
        """Return the pending observations as a summary to send; may shed, and so change them."""
        ...

    def reading(self) -> Reading:
        """Return V of base and pending together, for agents that decide on their own data."""
        ...

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base."""
        ...

    def state(self) -> State:
        """Return the buffer as plain arrays and numbers."""
        ...

    def restore(self, state: State) -> None:
        """Continue from a saved buffer, on the base that it was saved with."""
        ...


class Tape(NamedTuple):
    """Rounds to be played in one loop (``core.kernels.play``), and what they are played with.

    A pending buffer that can has a method ``play(tape)``. It plays rounds with the base's reading
    until one needs more than a row appended: it stops before a round that it cannot play, after one
    that may make the growth exceed the threshold, and at the end, and returns how many it played.

    ``arms`` (B x K x d), ``rewards`` (B x K); theta and beta of the policy; the ``threshold`` on
    the growth; and arrays to write to: the ``chosen`` arms (B), the arms that were ``shown`` last
    (K x d), and their squared ``widths`` (K).
    """

    arms: Array
    rewards: Array
    theta: Array
    radius: float
    threshold: float
    chosen: Integers
    shown: Array
    widths: Array


class Memory(Protocol):
    """Makes, merges, checks and saves statistics with one kind of summary.

    Methods trust that statistics are of this memory's kind; ``check`` those from elsewhere first.
    """

    @property
    def ridge(self) -> float:
        """The ridge, lambda."""
        ...

    @property
    def capacity(self) -> int:
        """How many observations a pending buffer holds before it sheds."""
        ...

    @property
    def combines_rounded(self) -> bool:
        """Whether uploads are rounded at once, even those that will be combined with others."""
        ...

    def empty(self) -> Statistics:
        """Return the statistics of no observations."""
        ...

    def empty_server(self) -> Statistics:
        """Return the same for a server, whose sketch may be larger."""
        ...

    def read(self, summary: Any, /) -> Reading:
        """Return the matrix V to decide with."""
        ...

    def pending(self, base: Base, /) -> Pending:
        """Return an empty buffer on top of a base."""
        ...

    def reference(self, base: Base, /) -> Array | None:
        """Return theta' for the correction of the moment; None if this recipe has none."""
        ...

    def uploaded(
        self, statistics: Statistics, base: Base, carried: Array | None = None, /
    ) -> Statistics:
        """Return statistics as an agent with this base sends them; rounded ones as they are.

        ``carried`` is to be subtracted from the moment (``Pending.carried``).
        """
        ...

    def downloaded(self, base: Base, /) -> Statistics:
        """Return statistics as the server sends them."""
        ...

    def moment_error(self, summary: Any, count: int, reward: float, /) -> float:
        """Return an upper bound on |moment - sum r x| of an upload with this summary.

        ``count`` is the number of its observations, ``reward`` the largest reward.
        """
        ...

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return received statistics in the form that can be read: with rounded rows expanded."""
        ...

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], reference: Array | None, /
    ) -> Statistics:
        """Return the statistics of the observations of all of them."""
        ...

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless this memory can merge the statistics.

        ``strict``: check trusted summaries too, and allow half as much rounding error, so that a
        receiver's own check is sure to pass.
        """
        ...

    def pack(self, summary: Any, /) -> State:
        """Return a summary as plain arrays and numbers."""
        ...

    def unpack(self, state: State, /) -> Summary:
        """Return the summary that was packed."""
        ...
