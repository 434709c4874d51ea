"""Read an experiment from TOML."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.lab.runs.spec import Part, Spec, place_of
from fedbandit.worlds.loading import is_path

_KEYS = ("name", "rounds", "trials", "seed", "worlds", "recipes")
_REQUIRED = ("rounds", "trials", "worlds", "recipes")


def read_spec(path: Path) -> Spec:
    """Read a spec file. Names, types and numbers in it are judged; worlds are not built yet.

    Paths of data files in it start where the spec is, wherever it is run from.
    """
    try:
        with path.open("rb") as source:
            content = tomllib.load(source)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except ValueError as error:  # not TOML (with line and column), or not even UTF-8
        raise _unreadable(path, str(error)) from error
    spec = parse_spec(content, name=path.stem)
    here = path.absolute().parent
    return replace(spec, worlds={label: _placed(part, here) for label, part in spec.worlds.items()})


def _placed(part: Part, directory: Path) -> Part:
    data = part.params.get("data")
    if not isinstance(data, str) or data.startswith("~") or not is_path(data):
        return part
    return replace(part, params={**part.params, "data": str(directory / data)})


def parse_spec(content: Mapping[str, Any], *, name: str = "experiment") -> Spec:
    """Turn the tables of a spec into a value; ``name`` stands in where the spec has none."""
    for key in content:
        if key not in _KEYS:
            raise unknown("key of the spec", key, _KEYS)
    for key in _REQUIRED:
        if key not in content:
            raise _missing(key)
    return Spec(
        name=_text(content.get("name", name), place="name"),
        rounds=content["rounds"],
        trials=content["trials"],
        seed=content.get("seed", 0),
        worlds=_parts(content["worlds"], place="worlds"),
        recipes=_parts(content["recipes"], place="recipes"),
    )


def _parts(tables: object, *, place: str) -> dict[str, Part]:
    return {
        label: _part(_table(table, place=place_of(place, label)), place=place_of(place, label))
        for label, table in _table(tables, place=place).items()
    }


def _part(table: Mapping[str, Any], *, place: str) -> Part:
    if "kind" not in table:
        raise _missing(f"{place}.kind")
    params = {name: value for name, value in table.items() if name != "kind"}
    return Part(_text(table["kind"], place=f"{place}.kind"), params)


def _table(value: object, *, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParameter(
            complaint(place, got=repr(value), expected="a table", fix=f"Write [{place}].")
        )
    return value


def _text(value: object, *, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(
            complaint(place, got=repr(value), expected="some text", fix="Put it in quotes.")
        )
    return value


def _missing(key: str) -> InvalidParameter:
    return InvalidParameter(
        complaint(
            "spec",
            got=f"no {key}",
            expected=f"a value for {key}",
            fix="See `fedbandit run --help` for an example.",
        )
    )


def _unreadable(path: Path, reason: str) -> InvalidParameter:
    return InvalidParameter(
        complaint(
            f"spec {str(path)!r}",
            got=f"a file that cannot be read: {reason}",
            expected="a TOML file",
            fix="See `fedbandit run --help` for an example.",
        )
    )
