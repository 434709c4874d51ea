"""What tells recipes apart, for as long as models are deployed.

Agents and coordinator make sure that they run the same algorithm by comparing identities. So an
identity says all that decides anything, and nothing else: the recipe's name, a version of what that
name means, and the parameters that differ from their defaults. A parameter that is added later,
with a default that changes nothing, leaves every identity as it was; so does one that changes cost
alone. Where a default changes, or what a parameter means, the recipe's ``meaning`` goes up by one,
and models that were made before are told from those made after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe


def canonical(name: str, meaning: int, deciding: Mapping[str, Any]) -> str:
    """Return an identity: JSON without spaces, keys in order."""
    said = {"recipe": name, "meaning": meaning, "params": dict(deciding)}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


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
"""The parameters that recipes had when identity was their ``repr``: wire format 1, schema 3."""


def form_1(recipe: Recipe) -> str:
    """Return what identified a recipe in version 1: every parameter of that time, in order.

    Saved states, journals and agents of that version still say it.
    """
    params = params_1(recipe)
    return f"{recipe.name}({', '.join(f'{name}={value!r}' for name, value in params.items())})"


def params_1(recipe: Recipe) -> dict[str, Any]:
    """Return the parameters that an agent of version 1 builds a recipe from."""
    params = recipe.params
    return {name: params[name] for name in VERSION_1.get(recipe.name, ())}


def is_of_version_1(recipe: Recipe) -> bool:
    """Say whether version 1 could build this recipe and would mean the same by it."""
    known = VERSION_1.get(recipe.name, ())
    return recipe.meaning == 1 and recipe.differing.keys() <= set(known)
