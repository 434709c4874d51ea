"""Checks of the parameters, arms and rewards that callers pass in.

Each check returns the value in the form that the core works with, or raises an error that says what
is wrong and what would be right.
"""

from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.core.kernels.linalg import LARGEST, Array
from fedbandit.core.kernels.sparse import SparseArms, SparseLike, sparse_arms
from fedbandit.errors import (
    FedbanditError,
    InvalidArms,
    InvalidMessage,
    InvalidParameter,
    InvalidReward,
    OutOfOrder,
    complaint,
    unknown,
)

_FLOAT64 = np.dtype(np.float64)


def whole(
    name: str,
    value: object,
    *,
    least: int,
    most: int | None = None,
    why: str = "",
    advice: str = "",
) -> int:
    """Return value as an int from least to most; a bool or a float is not a whole number.

    For the error: ``why`` the bounds are what they are, and ``advice``, a sentence that names a
    sensible value.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise _bad(name, value, f"a whole number {bounds}{why and f' ({why})'}", advice)


def real(name: str, value: object, *, zero: bool = False) -> float:
    """Return value as a finite float above 0; with ``zero``, 0 is allowed too."""
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number too long for a float
            number = float(value)
            if isfinite(number) and (number > 0 or (zero and number == 0)):
                return number
    raise _bad(name, value, f"a finite number {'of at least' if zero else 'above'} 0")


def fraction(name: str, value: object) -> float:
    """Return value as a float strictly between 0 and 1."""
    if isinstance(value, Real) and 0 < float(value) < 1:
        return float(value)
    raise _bad(name, value, "a number strictly between 0 and 1")


def one_of(name: str, value: str, valid: Iterable[str]) -> None:
    """Raise UnknownName unless value is one of the valid words."""
    if value not in (words := list(valid)):
        raise unknown(name, str(value), words)


def checked_arms(arms: ArrayLike | SparseLike, dimension: int) -> Array | SparseArms:
    """Return the arms of one decision as a K x d float64 matrix in C order, d = ``dimension``.

    An array that already has this form is returned without a copy, so a caller that keeps the arms
    must copy them. Sparse matrices of scipy are copied into ``SparseArms``. Whether the numbers are
    finite is not checked here: choosing notices it from the scores.
    """
    if type(arms) is np.ndarray and arms.dtype == _FLOAT64 and arms.flags.carray:
        given: Array | SparseArms = arms  # the common case: nothing to convert
    elif isinstance(arms, SparseLike):
        given = _sparse(arms, dimension)
    else:
        given = _floats(arms, dimension)
    shape = given.shape
    if len(shape) != 2 or shape[1] != dimension or shape[0] == 0:
        many = "For several decisions at once, B x K x d, call choose_many."
        raise _bad_arms(f"an array of shape {shape}", dimension, fix=many * (len(shape) == 3))
    return given


def checked_arm(arm: ArrayLike, dimension: int) -> Array:
    """Return a copy of one arm's d features, all finite and small enough to be squared."""
    features = _floats(arm, dimension)
    if features.shape == (dimension,) and np.vdot(features, features) < LARGEST:
        return features  # the common case: the sum tells all of it; vdot warns of no overflow
    if features.shape != (dimension,):
        raise _bad_arms(f"an arm of shape {features.shape}", dimension)
    if not np.isfinite(features).all():
        raise arms_not_finite(features[None])
    if np.abs(features).max() > LARGEST**0.5:
        raise too_large(features, 0.0)
    return features


def checked_batch(arms: ArrayLike, dimension: int) -> Array:
    """Return the arms of B decisions as a B x K x d float64 array in C order."""
    plain = type(arms) is np.ndarray and arms.dtype == _FLOAT64 and arms.flags.carray
    batch = np.asarray(arms) if plain else _floats(arms, dimension)
    if batch.ndim != 3 or batch.shape[2] != dimension or batch.shape[1] == 0:
        fix = "Give one K x d matrix of arms per decision, with the same K for all decisions."
        expected = f"an array of shape (B, K, {dimension}) with K >= 1"
        got = f"an array of shape {batch.shape}"
        raise InvalidArms(complaint("arms", got=got, expected=expected, fix=fix))
    return batch


def arms_not_finite(arms: Array) -> InvalidArms:
    """Return the error for K x d arms of which at least one score is not finite."""
    found = np.argwhere(~np.isfinite(arms))
    if len(found):
        row, column = found[0]
        return _bad_arms(f"{arms[row, column]} in arm {row}, feature {column}", arms.shape[1])
    return InvalidArms(
        f"arms: the score of an arm overflows; the largest feature is {np.abs(arms).max():.1e}. "
        "Scale the features to about 1, and look for a huge radius or reward, or a tiny ridge."
    )


def checked_reward(reward: float) -> float:
    """Return the reward as a finite float."""
    if type(reward) is float and isfinite(reward):
        return reward
    expected = "one finite number"
    fix = "Do not call observe for a reward that is not known."
    try:
        if isinstance(reward, str | bytes):  # float("1") is 1.0, and hides a mistake
            raise TypeError
        value = float(reward)
    except (TypeError, ValueError, OverflowError) as error:
        message = complaint("observe, reward", got=repr(reward), expected=expected, fix=fix)
        raise InvalidReward(message) from error
    if not isfinite(value):
        raise InvalidReward(complaint("observe, reward", got=value, expected=expected, fix=fix))
    return value


def checked_rewards(rewards: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return the rewards of all arms of B decisions as a B x K float64 array in C order."""
    paid = np.ascontiguousarray(rewards, dtype=np.float64)
    if paid.shape != shape:
        expected = f"{shape[0]} x {shape[1]} numbers, one for each arm"
        got, fix = f"an array of shape {paid.shape}", "Give what every arm would pay."
        raise InvalidReward(complaint("play, rewards", got=got, expected=expected, fix=fix))
    return paid


def never_shown(arm: object, shown: int | None) -> FedbanditError:
    """Return the error for an arm's index, of ``shown`` arms; None before the first choice."""
    if shown is None:
        return OutOfOrder(
            f"observe: index {arm} refers to the arms of the last choose, and there was none. "
            "Call choose(arms) first, or pass the arm's features."
        )
    expected = f"an index from 0 to {shown - 1}"
    fix = "Pass an index into the arms of the last choose, or the arm's features."
    return InvalidArms(complaint("observe, arm", got=arm, expected=expected, fix=fix))


def wrong_kind(who: str, message: object, expected: str, fix: str) -> InvalidMessage:
    """Return the error for a message of another kind than expected."""
    return InvalidMessage(
        complaint(who, got=f"a {type(message).__name__}", expected=expected, fix=fix)
    )


def too_large(x: Array, reward: float) -> InvalidArms:
    """Return the error for an observation so large that its squares might overflow."""
    got = f"features of up to {np.abs(x).max():.1e} and the reward {reward:.1e}"
    expected, fix = "numbers whose squares are finite", "Scale features and rewards to about 1."
    return InvalidArms(complaint("observe", got=got, expected=expected, fix=fix))


def _sparse(arms: SparseLike, dimension: int) -> SparseArms:
    try:
        return sparse_arms(arms)
    except (TypeError, ValueError, IndexError) as error:
        raise _bad_arms(str(error), dimension) from error


def _floats(arms: ArrayLike, dimension: int) -> Array:
    try:
        given = arms if type(arms) is np.ndarray else np.asarray(arms)
        if given.dtype.kind in "fiub":
            return np.array(given, dtype=np.float64, order="C")
        kind = f"numbers of type {given.dtype}"
    except (TypeError, ValueError) as error:
        raise _bad_arms(str(error), dimension) from error
    raise _bad_arms(kind, dimension)


def _bad(name: str, got: object, expected: str, advice: str = "") -> InvalidParameter:
    return InvalidParameter(f"{name} must be {expected}; got {got!r}.{advice and f' {advice}'}")


def _bad_arms(got: str, dimension: int, *, fix: str = "") -> InvalidArms:
    return InvalidArms(
        complaint(
            "arms",
            got=got,
            expected=f"a finite matrix of K >= 1 rows and {dimension} columns",
            fix=fix or "Give one row per arm; drop arms with missing features or fill them in.",
        )
    )
