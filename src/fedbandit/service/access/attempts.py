"""How often somebody may ask for what comes to nothing: wrong tokens, refused uploads, copies."""

import time
from collections import OrderedDict
from collections.abc import Callable

_REMEMBERED = 10_000


class Attempts:
    """Counts by name, of an address or an agent: ``most`` at once, and then ``a_second``.

    Remembers the latest 10,000 names.
    """

    def __init__(
        self,
        *,
        most: int = 60,
        a_second: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._a_second, self._clock = most, a_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, who: str) -> bool:
        """Count one more; return whether that is still within the bounds."""
        now = self._clock()
        left = self._left_at(who, now)
        self._left.pop(who, None)
        allowed = left >= 1.0
        self._left[who] = (left - allowed, now)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return allowed

    def are_left(self, who: str) -> bool:
        """Return whether one more would be within the bounds; count nothing."""
        return self._left_at(who, self._clock()) >= 1.0

    def _left_at(self, who: str, now: float) -> float:
        left, since = self._left.get(who, (float(self._most), now))
        return min(float(self._most), left + (now - since) * self._a_second)
