"""The two comparisons that decide something, and the one margin that both use.

With unit arms and ridge 1 the first choice is an exact tie, and with alpha = 1 so is the first
trigger. Rounding would then decide, and two correct programs would part ways. So what is closer
than the margin counts as equal.
"""

from typing import Final

from fedbandit.core.linalg import Array

MARGIN: Final = 1e-9


def exceeds(value: float, threshold: float) -> bool:
    """Say whether value lies above threshold by more than the margin."""
    return value > threshold + MARGIN * max(1.0, abs(threshold))


def first_best(scores: Array) -> int:
    """Return the first arm whose score is within the margin of the highest."""
    top = float(scores.max())
    return int((scores >= top - MARGIN * max(1.0, abs(top))).argmax())
