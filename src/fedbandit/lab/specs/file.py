"""Read an experiment from TOML."""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.lab.specs.spec import Part, Spec, Tuning, place_of
from fedbandit.parameters import build
from fedbandit.worlds.recorded.loading import is_path

_KEYS = ("name", "rounds", "trials", "seed", "worlds", "recipes", "tuning")
_EXAMPLE = "`fedbandit run --help` shows an example."
_REQUIRED = ("rounds", "trials", "worlds", "recipes")


def read_spec(path: Path) -> Spec:
    """Read a spec file and check its names, types and numbers; worlds are not built yet.

    Relative paths of data files start at the directory of the spec, and so do the modules of
    ``kind = "module:name"``: their directory is added to Python's path.
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
    own = any(":" in part.kind for part in [*spec.worlds.values(), *spec.recipes.values()])
    if own and str(here) not in sys.path:
        sys.path.insert(0, str(here))
    return replace(spec, worlds={label: _placed(part, here) for label, part in spec.worlds.items()})


def _placed(part: Part, directory: Path) -> Part:
    data = part.params.get("data")
    if data is None:
        return part
    swept = isinstance(data, list)
    placed = [_path(each, directory) for each in data] if swept else _path(data, directory)
    return replace(part, params={**part.params, "data": placed})


def _path(data: object, directory: Path) -> object:
    if not isinstance(data, str) or data.startswith("~") or not is_path(data):
        return data
    return str(directory / data)


def parse_spec(content: Mapping[str, Any], *, name: str = "experiment") -> Spec:
    """Turn the tables of a spec into a Spec; ``name`` is used if they have none."""
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
        tuning=build(Tuning, _table(content.get("tuning", {}), place="tuning"), place="tuning"),
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
    return InvalidParameter(f"spec: {key} is missing. {_EXAMPLE}")


def _unreadable(path: Path, reason: str) -> InvalidParameter:
    return InvalidParameter(
        f"spec {str(path)!r} cannot be read as a TOML file: {reason}. {_EXAMPLE}"
    )
