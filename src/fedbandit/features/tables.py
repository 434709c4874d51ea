"""Contexts and actions as people have them: dicts, lists of dicts, frames of pandas or polars.

Neither library is imported: frames are told by their methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedbandit.errors import InvalidArms, complaint
from fedbandit.features.declared import Category
from fedbandit.features.spec import Features


def is_frame(given: object) -> bool:
    """Say whether something is a frame of pandas or polars."""
    return hasattr(given, "columns") and (hasattr(given, "to_dicts") or hasattr(given, "to_dict"))


def context_of(given: object, features: Features) -> object:
    """Return a context as nested features: a frame has to have one row."""
    if is_frame(given):
        rows = records(given, features, field="context")
        if len(rows) != 1:
            fix = "Give the one row that is the context of this decision."
            got = f"a frame of {len(rows)} rows"
            raise InvalidArms(complaint("context", got=got, expected="one row", fix=fix))
        return rows[0]
    if hasattr(given, "to_dict") and not isinstance(given, Mapping):  # a row of a pandas frame
        return _without_gaps(given.to_dict())
    return {} if given is None else given


def actions_of(given: object, features: Features) -> list[Mapping[str, Any]]:
    """Return actions as a list of dicts, one for each action."""
    if is_frame(given):
        rows: Sequence[object] = records(given, features, field="actions")
    elif isinstance(given, Sequence) and not isinstance(given, str):
        rows = given
    else:
        raise _not_actions(f"a {type(given).__name__}")
    listed: list[Mapping[str, Any]] = []
    for each in rows:
        if not isinstance(each, Mapping):
            raise _not_actions(f"a {type(each).__name__} as action {len(listed)}")
        listed.append(each)
    if not listed:
        raise _not_actions("no action")
    return listed


def records(frame: Any, features: Features, *, field: str) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts, gaps (null, NaN) as None.

    Raises InvalidArms for a column that has numbers written as texts, or texts among numbers.
    """
    names = list(map(str, frame.columns))
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        fix = "Rename one of them, or drop it."
        who, expected = f"{field}, column {twice!r}", "columns whose names differ"
        raise InvalidArms(complaint(who, got="two of that name", expected=expected, fix=fix))
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    filled = [_without_gaps(row) for row in rows]
    for column in names:
        _check_column(column, [row.get(column) for row in filled], features, field)
    return filled


def _check_column(column: str, values: list[Any], features: Features, field: str) -> None:
    if isinstance(features.of(column), Category):
        return
    texts = [each for each in values if isinstance(each, str)]
    others = [each for each in values if each is not None and not isinstance(each, str)]
    who = f"{field}, column {column!r}"
    cure = f"Convert it (astype(float)), or declare it: {{{column!r}: 'category'}}."
    if texts and others:
        got = f"the text {texts[0][:40]!r} among numbers"
        raise InvalidArms(complaint(who, got=got, expected="numbers or texts alone", fix=cure))
    if texts and all(map(_is_number, texts)):
        got = f"numbers written as texts, such as {texts[0][:40]!r}"
        raise InvalidArms(complaint(who, got=got, expected="numbers", fix=cure))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _without_gaps(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row with None for what pandas and polars have where nothing is known."""
    return {str(name): None if _is_gap(value) else value for name, value in row.items()}


def _is_gap(value: object) -> bool:
    if value is None or isinstance(value, str | Mapping | Sequence):
        return value is None
    same = value == value
    return not same if isinstance(same, bool) else getattr(same, "ndim", None) is None


def _not_actions(got: str) -> InvalidArms:
    expected = "a list of dicts, or a frame, with one action a row"
    fix = "Write actions=[{'id': 'a', 'price': 10}, {'id': 'b', 'price': 12}]."
    return InvalidArms(complaint("actions", got=got, expected=expected, fix=fix))
