"""The columns of a record: labels, every parameter of recipe and world, measures.

All records have the same columns, whatever ran, so that pandas and polars read a directory of them
as one table. There is a column for each parameter of each recipe and world of the package; one
that a run does not have is null. The parameters of an algorithm or world of one's own that are not
among these are in ``parameters`` alone, which has all of them as JSON.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin

import pyarrow as pa

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.parameters import hints_of
from fedbandit.peers import PEERS
from fedbandit.worlds import WORLDS

LABELS = pa.schema(
    [
        ("key", pa.string()),
        ("setting", pa.string()),
        ("algorithm", pa.string()),
        ("radius", pa.string()),
        ("trial", pa.int64()),
        ("rounds", pa.int64()),
    ]
)
MEASURED = pa.schema(
    [
        ("round", pa.int64()),
        ("reward", pa.float64()),
        ("regret", pa.float64()),
        ("seconds", pa.float64()),
        ("uploads", pa.int64()),
        ("scalars", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
REQUIRED = pa.unify_schemas([LABELS, MEASURED])
"""The columns without which a file is no record."""

_NAMES = ("world", "recipe", "world_kind", "recipe_kind")
_RADIUS = "radius_value"
_TAKEN = {*REQUIRED.names, *_NAMES, "parameters"}


def flattened(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by the names of their columns: bounds.noise becomes bounds_noise."""
    flat: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{inner}": each for inner, each in flattened(value).items()}
        else:
            flat[_column(name)] = value
    return flat


def parameter_values(text: str) -> dict[str, Any]:
    """Return what ``parameters`` of a record says, by the names of the columns; {} for none."""
    return {} if not text else dict(json.loads(text))


def parameter_row(
    names: Mapping[str, str], recipe: Mapping[str, Any], world: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all parameter columns of one run.

    ``names`` are those of world and recipe. Where both have a parameter, as dimension, agents
    and seed, it is the world's: what was played. Text in a column of numbers, such as
    sketch_size = "auto", is null there.
    """
    found = {**flattened(recipe), **flattened(world)}
    row: dict[str, Any] = {**names, "parameters": json.dumps(found, sort_keys=True)}
    for field in PARAMETERS:
        if field.name not in row:
            row[field.name] = _fitting(found.get(field.name), field.type)
    return row


def conformed(table: pa.Table) -> pa.Table:
    """Return a table of records with exactly the columns of ``SCHEMA``; what it lacks is null."""
    columns = {
        field.name: (
            table.column(field.name)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
        )
        for field in SCHEMA
    }
    return pa.table(columns).cast(SCHEMA)


def _column(name: str) -> str:
    if name == "radius":
        return _RADIUS
    return f"parameter_{name}" if name in _TAKEN else name


def _fitting(value: object, kind: pa.DataType) -> object:
    """Return a value for a column of that type, or None if it does not fit."""
    if pa.types.is_string(kind):
        return value if value is None else str(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if pa.types.is_floating(kind):
        return float(value)
    return value if isinstance(value, int) else None


def _catalogue() -> Iterator[tuple[str, pa.DataType]]:
    factories: list[Callable[..., object]] = [*RECIPES.values(), *PEERS.values(), *WORLDS.values()]
    for factory in factories:
        yield from _typed(factory)


def _typed(factory: Callable[..., object]) -> Iterator[tuple[str, pa.DataType]]:
    hints = hints_of(factory)
    for name in inspect.signature(factory).parameters:
        hint = hints[name]
        if is_dataclass(hint) and isinstance(hint, type):
            yield from ((f"{name}_{inner}", kind) for inner, kind in _typed(hint))
        else:
            yield _column(name), _type_of(hint)


def _type_of(hint: Any) -> pa.DataType:
    """Return float64 or int64 where a parameter can be a number, else string."""
    choices = get_args(hint) if get_origin(hint) is not Literal and get_args(hint) else (hint,)
    if float in choices:
        return pa.float64()
    return pa.int64() if int in choices else pa.string()


def _parameters() -> pa.Schema:
    found: dict[str, pa.DataType] = {}
    for name, kind in _catalogue():
        wider = pa.types.is_floating(kind) or name not in found
        found[name] = kind if wider else found[name]
    found |= {"digest": pa.string(), "parameters": pa.string()}  # digest: of a world's data
    return pa.schema([*((name, pa.string()) for name in _NAMES), *found.items()])


PARAMETERS = _parameters()
"""The columns of parameters; ``radius_value`` is the radius as a number, if it is one."""

SCHEMA = pa.unify_schemas([LABELS, PARAMETERS, MEASURED])
"""All columns. Measures are totals from the first round to ``round``: ``reward`` too."""
