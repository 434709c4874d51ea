"""Checks on what callers hand in. Each raises an error that says what to do."""

from collections.abc import Iterable
from math import isfinite
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.core.linalg import Array
from fedbandit.errors import InvalidArms, InvalidParameter, InvalidReward, complaint, unknown


def positive(name: str, value: float) -> None:
    """Require a finite number > 0."""
    if not _is_number(value) or not value > 0:
        raise _bad(name, value, "a finite number > 0")


def not_negative(name: str, value: float) -> None:
    """Require a finite number >= 0."""
    if not _is_number(value) or not value >= 0:
        raise _bad(name, value, "a finite number >= 0")


def fraction(name: str, value: float) -> None:
    """Require a number strictly between 0 and 1."""
    if not _is_number(value) or not 0 < value < 1:
        raise _bad(name, value, "a number strictly between 0 and 1")


def at_least(name: str, value: int, least: int) -> None:
    """Require a whole number that is not below ``least``."""
    if not _is_whole(value) or value < least:
        raise _bad(name, value, f"a whole number >= {least}")


def within(name: str, value: int, least: int, most: int, *, why: str) -> None:
    """Require a whole number in [least, most]."""
    if not _is_whole(value) or not least <= value <= most:
        raise _bad(name, value, f"a whole number from {least} to {most} ({why})")


def one_of(name: str, value: str, valid: Iterable[str]) -> None:
    """Require one of some words."""
    if value not in (words := list(valid)):
        raise unknown(name, str(value), words)


def checked_arms(arms: ArrayLike, dimension: int) -> Array:
    """Return a copy of the arms as a K x d float64 matrix in C order."""
    try:
        matrix = np.array(arms, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise _bad_arms(str(error), dimension) from error
    if matrix.ndim != 2 or matrix.shape[1] != dimension or len(matrix) == 0:
        raise _bad_arms(f"an array of shape {matrix.shape}", dimension)
    return matrix


def arms_not_finite(arms: Array) -> InvalidArms:
    """Return the error for arms that gave a score that is not finite."""
    found = np.argwhere(~np.isfinite(arms))
    if not len(found):
        return _bad_arms(f"features up to {np.abs(arms).max():.1e}, which overflow", arms.shape[1])
    row, column = found[0]
    return _bad_arms(f"{arms[row, column]} in arm {row}, feature {column}", arms.shape[1])


def checked_reward(reward: float) -> float:
    """Return the reward as a finite float."""
    expected = "one finite number"
    fix = "Leave out observations whose reward is not known."
    try:
        value = float(reward)
    except (TypeError, ValueError) as error:
        message = complaint("observe, reward", got=repr(reward), expected=expected, fix=fix)
        raise InvalidReward(message) from error
    if not isfinite(value):
        raise InvalidReward(complaint("observe, reward", got=value, expected=expected, fix=fix))
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _bad(name: str, got: object, expected: str) -> InvalidParameter:
    return InvalidParameter(
        complaint(name, got=repr(got), expected=expected, fix=f"Give {name} such a value.")
    )


def _bad_arms(got: str, dimension: int) -> InvalidArms:
    return InvalidArms(
        complaint(
            "arms",
            got=got,
            expected=f"a finite matrix of K >= 1 rows and {dimension} columns",
            fix="Give one row per arm; drop arms with missing features or fill them in.",
        )
    )
