"""Saved states: flat dictionaries of plain arrays and scalars, fit for ``numpy.savez``."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidState, complaint

State = dict[str, Any]


def array(state: Mapping[str, Any], key: str, *shape: int | None) -> Array:
    """Return a copy of state[key] as float64, checked against a shape (None: any length)."""
    entry = _entry(state, key)
    try:
        value = np.array(entry, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise misfit(key, f"a {type(entry).__name__}", f"an array of shape {shape}") from error
    fits = value.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(value.shape, shape, strict=True)
    )
    if not fits or not np.isfinite(value).all():
        raise misfit(key, f"an array of shape {value.shape}", f"a finite array of shape {shape}")
    return value


def number(state: Mapping[str, Any], key: str) -> float:
    """Return state[key] as a finite float."""
    entry = _entry(state, key)
    try:
        value = float(entry)
    except (TypeError, ValueError) as error:
        raise misfit(key, repr(entry), "a number") from error
    if not np.isfinite(value):
        raise misfit(key, value, "a finite number")
    return value


def not_negative(state: Mapping[str, Any], key: str) -> float:
    """Return state[key] as a finite float that is not negative."""
    value = number(state, key)
    if value < 0.0:
        raise misfit(key, value, "a number of at least 0")
    return value


def integer(state: Mapping[str, Any], key: str) -> int:
    """Return state[key] as an int >= 0."""
    value = number(state, key)
    if value < 0 or value != int(value):
        raise misfit(key, value, "a whole number >= 0")
    return int(value)


def under(prefix: str, state: Mapping[str, Any]) -> State:
    """Return the state with every key put under ``prefix.``."""
    return {f"{prefix}.{key}": value for key, value in state.items()}


def part(state: Mapping[str, Any], prefix: str) -> State:
    """Return the entries under ``prefix.``, with the prefix taken off."""
    dot = f"{prefix}."
    return {key[len(dot) :]: state[key] for key in state if key.startswith(dot)}


def check_owner(state: Mapping[str, Any], recipe: str) -> None:
    """Raise InvalidState unless the state was saved under this very recipe."""
    if str(_entry(state, "recipe")) != recipe:
        raise misfit("recipe", str(state["recipe"]), recipe)


def misfit(key: str, got: object, expected: str) -> InvalidState:
    """Return the error for an entry of a saved state."""
    fix = "Restore what state() returned, with the recipe that it came from."
    return InvalidState(complaint(f"saved state, {key!r}", got=got, expected=expected, fix=fix))


def _entry(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise misfit(key, f"only {sorted(state)}", "that entry")
    return state[key]
