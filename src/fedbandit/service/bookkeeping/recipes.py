"""Recipes as a store keeps them: a name, parameters as JSON, and a fingerprint."""

import json

from fedbandit import wire
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.identity import is_of_version_1
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidState


def stored_recipe(name: str, params: bytes) -> Recipe:
    """Build a recipe from its name and its parameters; raise InvalidState if there is none."""
    try:
        return RECIPES[name](**json.loads(params))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        message = f"The stored recipe {name} with {params!r} cannot be built ({error})."
        raise InvalidState(
            f"{message} Use the version of fedbandit that made the model."
        ) from error


def current_fingerprint(name: str, params: bytes, fingerprint: str) -> str:
    """Return the fingerprint of a recipe that may have been stored under that of version 1.

    One that fits neither stays: ``models.model.recipe_of`` refuses it, and names the model.
    """
    try:
        recipe = stored_recipe(name, params)
    except InvalidState:
        return fingerprint
    known = is_of_version_1(recipe) and fingerprint == wire.fingerprint(recipe, format=1)
    return wire.fingerprint(recipe) if known else fingerprint
