"""Numbers that a world is asked for, checked once and brought to plain Python."""

import math
from numbers import Integral, Real

from fedbandit.errors import InvalidParameter, complaint


def whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return value as an int between least and most; a bool or a float is not a whole number."""
    expected = f"a whole number of at least {least}"
    if most is not None:
        expected += f" and at most {most}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    raise InvalidParameter(
        complaint(name, got=repr(value), expected=expected, fix=f"Change {name}.")
    )


def real(name: str, value: object, *, positive: bool = False) -> float:
    """Return value as a finite float that is not negative, or not zero either if ``positive``."""
    expected = f"a finite number {'above 0' if positive else 'of at least 0'}"
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and (number > 0 or (number == 0 and not positive)):
            return number
    raise InvalidParameter(
        complaint(name, got=repr(value), expected=expected, fix=f"Change {name}.")
    )
