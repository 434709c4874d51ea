"""What an agent has observed and not yet sent, and how much that adds to what it holds.

A pending buffer grows in place, one observation at a time, on top of a *base*: the summary that the
agent holds. Its growth, log det(base + pending) - log det(base), is what triggers look at.
"""

from typing import Any, Protocol, Self

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.reading import Reading
from fedbandit.core.memory.summary import Summary
from fedbandit.core.saved import State


class Pending(Protocol):
    """A buffer of observations on top of a base, with their moment (sum r x) and their number."""

    moment: Array
    count: int

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Take in a played arm and what it paid, and say whether that was possible.

        squared_width is x^T V^{-1} x in what it was played on. An observation whose square might
        overflow changes nothing.
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

    def over(self, base: Any, reading: Any, at: Array | None = None, /) -> Self:
        """Return the same observations on top of another base."""
        ...

    def state(self) -> State:
        """Return the buffer as plain arrays and numbers."""
        ...

    def restore(self, state: State) -> None:
        """Take up a saved buffer; the base must be the one that it was saved on."""
        ...
