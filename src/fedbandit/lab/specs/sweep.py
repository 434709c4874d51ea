"""Lists in a spec: every combination of their values is a world, or a recipe, of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath
from typing import Any

from fedbandit.errors import InvalidParameter

IN_LABEL_ALREADY = ("radius",)
"""Swept parameters that records and figures tell apart without the label."""


@dataclass(frozen=True)
class Point:
    """One combination: its label, such as "FSCLB, sketch_size=5", and its parameters."""

    label: str
    params: Mapping[str, Any]


def points(label: str, params: Mapping[str, Any], *, place: str) -> list[Point]:
    """Return every combination of the lists among the parameters, in the order of the file."""
    lists = dict(_lists(params, place=place))
    return [
        Point(
            ", ".join([label, *_words(dict(zip(lists, values, strict=True)))]),
            _with(params, dict(zip(lists, values, strict=True))),
        )
        for values in product(*lists.values())
    ]


def _lists(params: Mapping[str, Any], *, place: str) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield the path of every list, also in tables such as bounds, and its values."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            inner = _lists(value, place=f"{place}.{name}")
            yield from (((name, *path), values) for path, values in inner)
        elif isinstance(value, list | tuple):
            if not value or any(isinstance(each, list | tuple | Mapping) for each in value):
                raise InvalidParameter(
                    f"{place}.{name}: a list is a sweep and needs at least one plain value; "
                    f"got {value!r}. Write {name} = [1, 2], say."
                )
            yield (name,), list(dict.fromkeys(value))


def _words(values: Mapping[tuple[str, ...], Any]) -> list[str]:
    return [
        f"{'.'.join(path)}={_short(value)}"
        for path, value in values.items()
        if path[0] not in IN_LABEL_ALREADY
    ]


def _short(value: object) -> str:
    """Write a value as in the file; of a path its last part alone."""
    return PurePath(value).name if isinstance(value, str) and "/" in value else f"{value}"


def _with(params: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    changed = dict(params)
    for (name, *rest), value in values.items():
        changed[name] = _with(changed[name], {tuple(rest): value}) if rest else value
    return changed
