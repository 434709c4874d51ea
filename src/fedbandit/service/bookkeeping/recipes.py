"""Recipes as a store keeps them, a name, parameters as JSON and a fingerprint; and their states."""

import json

from fedbandit import wire
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.identity import is_of_version_1
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, InvalidState, complaint


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


def server_at(recipe: Recipe, state: bytes) -> Server:
    """Return the server that stored bytes are the state of; it goes on bit for bit."""
    server = recipe.server()
    try:
        download = wire.decode_download(state)
        recipe.parts.memory.check(download.statistics)
    except InvalidMessage as error:
        raise InvalidState(_broken_state(str(error))) from error
    server.adopt(recipe.parts.memory.opened(download.statistics), version=download.version)
    return server


def _broken_state(got: str) -> str:
    fix = "Restore a backup."
    return complaint("stored state", got=got, expected="a download of its recipe", fix=fix)
