"""How long to wait before trying again."""

from collections.abc import Callable
from random import random


class Backoff:
    """Exponential, with full jitter: a fleet that lost its coordinator must not return as one.

    The n-th wait in a row is uniform between 0 and first x 2^n, and never above ``longest``.
    ``uniform`` is the source of chance, from 0 to 1.
    """

    def __init__(
        self,
        *,
        first: float = 0.5,
        longest: float = 60.0,
        uniform: Callable[[], float] = random,
    ) -> None:
        self._first, self.longest, self._uniform = first, longest, uniform
        self._failures = 0

    def after_failure(self, *, least: float = 0.0) -> float:
        """Return the seconds to wait; at least what the other side asked for."""
        ceiling = min(self.longest, self._first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return least + ceiling * self._uniform()

    def reset(self) -> None:
        """Begin again: it worked."""
        self._failures = 0
