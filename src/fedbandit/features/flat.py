"""Flatten nested features into a list of names and numbers, by what is declared of them."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Final, Literal, NamedTuple

import numpy as np

from fedbandit.errors import InvalidArms, complaint, unknown
from fedbandit.features.declared import Category, Number
from fedbandit.features.spec import Features

LARGEST: Final = 1e9
DEEPEST: Final = 8

Trouble = Literal["", "outside", "not among"]

_VALUES = frozenset((str, float, int, bool))  # as JSON has them


class Found(NamedTuple):
    """One feature: ``path`` is where it was, ``name`` what it is called, with its word if any.

    ``value`` is the number that is used, ``raw`` the one that was given; None for words. A number
    was ``"outside"`` its range, a word ``"not among"`` those declared: then its value is 0.
    """

    path: str
    name: str
    value: float
    raw: float | None = None
    trouble: Trouble = ""


def flat(given: object, features: Features, *, field: str) -> list[Found]:
    """Return the features of a JSON object or a list of them; an InvalidArms error names ``field``.

    Numbers of numpy are taken as Python's.
    """
    found: list[Found] = []
    _collect(given, "", features, field, DEEPEST, found)
    return found


def _collect(
    given: object, path: str, features: Features, field: str, depth: int, found: list[Found]
) -> None:
    """Add the features of a value at ``path`` to those ``found``."""
    if depth < 0:
        raise _unusable(field, f"objects more than {DEEPEST} deep at {path[:80]!r}")
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, dict | Mapping):  # of a dict it is told at once, of others in 0.5 us
        for key, value in given.items():
            inner = f"{path}.{key}" if path else str(key)
            if inner and depth and type(value) in _VALUES:
                found.append(_one(value, inner, features, field))
            else:
                _collect(value, inner, features, field, depth - 1, found)
    elif isinstance(given, Sequence) and not isinstance(given, str) and _objects(given):
        for value in given:
            _collect(value, path, features, field, depth - 1, found)
    elif path and isinstance(given, str | Real):
        found.append(_one(given, path, features, field))
    elif given is not None or not path:
        where = f" at {path[:80]!r}" if path else ""
        raise _unusable(field, f"{_kind(given)}{where}")


def _one(given: str | Real, path: str, features: Features, field: str) -> Found:
    declared = features.declared.get(path)
    if declared is None and not features.only_declared:  # the common case
        if isinstance(given, str):
            return Found(path, f"{path}={given}", 1.0)
        number = _number(given, path, field)
        return Found(path, path, number, number)
    if declared is None:
        known = unknown(f"{field}, feature", path, features.declared)
        raise InvalidArms(f"{known} Or declare it.")
    if isinstance(declared, Category):
        word = given if isinstance(given, str) else _written(given, path, field)
        if declared.among is not None and word not in declared.among:
            return Found(path, f"{path}={word}", 0.0, trouble="not among")
        return Found(path, f"{path}={word}", 1.0)
    if isinstance(given, str):
        raise text_for_number(field, path, given)
    number = _number(given, path, field)
    if not isinstance(declared, Number):
        return Found(path, path, number, number)
    value, outside = declared.scaled(number)
    return Found(path, path, value, number, "outside" if outside else "")


def text_for_number(field: str, path: str, given: str) -> InvalidArms:
    """Return the error for a text where a number is declared."""
    expected = "a number, as it is declared"
    fix = f"Convert it with float(...), or make the model with {{{path!r}: 'category'}}."
    got = f"the text {given[:40]!r}"
    return InvalidArms(complaint(f"{field}, {path!r}", got=got, expected=expected, fix=fix))


def _written(given: Real, path: str, field: str) -> str:
    """Return a number that stands for a category: 7 and 7.0 are the same."""
    if isinstance(given, bool):
        return "true" if given else "false"
    number = _number(given, path, field)
    return str(int(number)) if number.is_integer() else repr(number)


def _objects(given: Sequence[object]) -> bool:
    return all(isinstance(each, Mapping) for each in given)


def _kind(given: object) -> str:
    """Return what JSON calls a value that is no feature."""
    match given:
        case None:
            return "null"
        case str():
            return "a text"
        case bool():
            return "true" if given else "false"
        case int() | float():
            return "a number"
        case list() if all(isinstance(each, int | float) for each in given):
            return "a list of numbers"
        case list():
            return "a list of values that are not objects"
        case _:
            return f"a {type(given).__name__}"


def _number(value: Real, path: str, field: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not -LARGEST <= number <= LARGEST:
        raise _unusable(field, f"the number {value!r:.40} at {path[:80]!r}")
    return number


def _unusable(field: str, got: str) -> InvalidArms:
    expected = f"objects of numbers up to {LARGEST:g} in size, texts, true, false and null"
    fix = "Send such features, or every action's arm as a list of numbers."
    return InvalidArms(complaint(field, got=got, expected=expected, fix=fix))
