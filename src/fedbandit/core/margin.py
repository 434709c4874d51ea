"""The one margin that every comparison which decides something uses.

With unit arms and ridge 1 the first choice is an exact tie, and with alpha = 1 so is the first
trigger. Rounding would then decide, and two correct programs would part ways. So what is closer
than the margin counts as equal: here for triggers, in ``linalg.first_best`` for arms.
"""

from typing import Final

MARGIN: Final = 1e-9


def exceeds(value: float, threshold: float) -> bool:
    """Say whether value lies above threshold by more than the margin."""
    return value > threshold + MARGIN * max(1.0, abs(threshold))
