"""The identity of a recipe: the text by which agents and coordinators compare algorithms.

Models stay deployed while the library changes, so an identity has exactly what decisions depend on:
the recipe's name, its version (``meaning``), and the parameters that differ from their defaults. A
new parameter whose default changes nothing leaves all identities as they are, and so does one that
changes only costs. If a default changes, or what a parameter does, ``meaning`` goes up by one, so
that older models have another identity than newer ones. A changed default is named in the recipe's
``earlier``: the recipe then also has the identity of before, and models, saved states and agents of
that time go on. If what a parameter does changes, it is not named there, and they stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe


def differing(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not at their defaults."""
    return {
        name: value
        for name, value in params.items()
        if name not in defaults or value != defaults[name]
    }


def canonical(name: str, meaning: int, deciding: Mapping[str, Any]) -> str:
    """Return an identity: the recipe's name, its meaning and the parameters that decide."""
    return plain_json({"recipe": name, "meaning": meaning, "params": dict(deciding)})


def plain_json(value: Any) -> str:
    """Return JSON without spaces, keys in order, 2.0 written as 2: equal values, equal text."""
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"))


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items()}
    exact = isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53
    return int(value) if exact else value


def told_params(recipe: Recipe) -> dict[str, Any]:
    """Return the parameters from which any agent of version 2 builds this recipe.

    Agents from before there were choices, encodings and whole rows have no such parameters, so they
    are left out at their defaults.
    """
    added, params = {"choice", "features", "rows"} - recipe.differing.keys(), recipe.params
    return {name: value for name, value in params.items() if name not in added}


_ALONE = ("ridge", "radius", "bounds")
VERSION_1: Final[Mapping[str, tuple[str, ...]]] = {
    "FSCLB": (
        *("dimension", "sketch_size", "agents", "alpha", "ridge", "radius", "cadence", "buffer"),
        *("estimate", "wire", "budget", "server_size", "bounds"),
    ),
    "FedLinUCB": ("dimension", "agents", "alpha", "ridge", "radius", "determinant", "bounds"),
    "AsyncLinUCB": ("dimension", "agents", "upload_growth", "download_growth", *_ALONE),
    "DisLinUCB": ("dimension", "agents", "wait", *_ALONE),
    "LinUCB": ("dimension", "agents", *_ALONE),
    "Centralised": ("dimension", "agents", *_ALONE),
    "SOFUL": ("dimension", "sketch_size", "agents", *_ALONE),
    "CBSCFD": ("dimension", "sketch_size", "agents", *_ALONE),
    "Random": ("dimension", "agents", "seed"),
}
"""The parameters of each recipe in version 1, when the identity was its ``repr``.

Version 1 is wire format 1 and schema 3 of the store.
"""


_WORDS_1: Final[Mapping[str, tuple[str, ...]]] = {
    "radius": ("paper", "tight"),
    "cadence": ("paper", "buffered"),
    "estimate": ("paper", "averaged", "corrected"),
    "wire": ("float64", "float32", "float16", "bfloat16", "int8"),
    "sketch_size": ("auto",),
    "determinant": ("when-needed", "rank-one", "every-round"),
}
"""The words that these parameters could be in version 1."""


def form_1(recipe: Recipe) -> str:
    """Return the identity that a recipe had in version 1: its ``repr`` with all parameters.

    Saved states, journals and agents of that version still have it.
    """
    params = params_1(recipe)
    return f"{recipe.name}({', '.join(f'{name}={value!r}' for name, value in params.items())})"


def params_1(recipe: Recipe) -> dict[str, Any]:
    """Return the parameters from which an agent of version 1 builds this recipe."""
    params = recipe.params
    return {name: params[name] for name in VERSION_1.get(recipe.name, ())}


def is_of_version_1(recipe: Recipe) -> bool:
    """Say whether an agent of version 1 can build this recipe and gets the same algorithm."""
    known = VERSION_1.get(recipe.name, ())
    told = {name: value for name, value in recipe.params.items() if name in known}
    words = {name: value for name, value in told.items() if isinstance(value, str)}
    return (
        1 in recipe.identities
        and recipe.differing.keys() <= set(known)
        and all(value in _WORDS_1.get(name, (value,)) for name, value in words.items())
    )
