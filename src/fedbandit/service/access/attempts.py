"""How often an address may be told that its token is wrong."""

import time
from collections import OrderedDict
from collections.abc import Callable

_ADDRESSES = 10_000


class Attempts:
    """Counts refused tokens by address: ``most`` at once, and from then on ``a_second``.

    Remembers the latest 10,000 addresses.
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

    def allow(self, address: str) -> bool:
        """Count one more; return whether that is still within the bounds."""
        now = self._clock()
        left, since = self._left.pop(address, (float(self._most), now))
        left = min(float(self._most), left + (now - since) * self._a_second)
        allowed = left >= 1.0
        self._left[address] = (left - allowed, now)
        if len(self._left) > _ADDRESSES:
            self._left.popitem(last=False)
        return allowed
