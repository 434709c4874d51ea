"""What ``kind`` names in a spec: an entry of a catalogue, or ``module:name`` of one's own."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import cloudpickle

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, LocalError, complaint, unknown
from fedbandit.independent import Independent
from fedbandit.lab.runs.task import NamedWorld
from fedbandit.parameters import build, names
from fedbandit.peers import PEERS
from fedbandit.worlds import WORLDS

_OF_A_WORLD = ("dimension", "agents", "rounds", "params")


@dataclass(frozen=True)
class Found:
    """What makes a recipe or a world, and a digest of its source if it is not of the package."""

    factory: Callable[..., Any]
    source: str = ""

    @property
    def takes(self) -> list[str]:
        """The names of its parameters."""
        return names(self.factory)


def world_kind(kind: str, *, place: str) -> Found:
    """Find a world by its kind."""
    return _find(WORLDS, kind, place=place)


def recipe_kind(kind: str, *, place: str) -> Found:
    """Find a recipe, or a learner, by its kind."""
    return _find({**RECIPES, **PEERS}, kind, place=place)


def built_world(found: Found, given: Mapping[str, Any], *, place: str) -> NamedWorld:
    """Build a world, and refuse what is none."""
    world: NamedWorld = build(found.factory, given, place=place, extra=("kind",))
    lacks = [name for name in _OF_A_WORLD if not hasattr(world, name)]
    if lacks:
        raise InvalidParameter(
            complaint(
                f"{place}.kind",
                got=f"a {type(world).__name__} without {', '.join(lacks)}",
                expected="a world",
                fix="Add that to the class; docs/experiments.md has an example.",
            )
        )
    return world


def built_recipe(
    found: Found, given: Mapping[str, Any], shared: Mapping[str, Any], *, place: str
) -> Recipe | Independent:
    """Build a recipe; a learner with choose and observe becomes one that never talks.

    ``shared`` are dimension, agents and seed; each is passed on if the factory takes it.
    """
    taken = {name: value for name, value in shared.items() if name in found.takes}
    made = build(found.factory, {**taken, **given}, place=place, extra=("kind",))
    if isinstance(made, Recipe):
        return made
    own = {k: v for k, v in {**taken, **given}.items() if k not in ("dimension", "agent")}
    try:
        return Independent(
            found.factory, dimension=shared["dimension"], agents=shared["agents"], own=own
        )
    except LocalError as error:
        raise type(error)(f"{place}: {error}") from error


def _find(catalogue: Mapping[str, Callable[..., Any]], kind: str, *, place: str) -> Found:
    if kind in catalogue:
        return Found(catalogue[kind])
    module_name, colon, name = kind.partition(":")
    if not colon:
        raise unknown(f"{place}.kind", kind, catalogue)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise
        fix = f"Put {module_name}.py beside the spec, or install it."
        raise InvalidParameter(
            f"{place}.kind: there is no module {module_name!r}. {fix}"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        own = [
            each
            for each, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
        raise unknown(f"{place}.kind, name in {module_name}", name, own)
    _travels_by_value(module)
    return Found(factory, _digest(module))


def _digest(module: ModuleType) -> str:
    """Digest of a module's source, so that runs of another version of it are not taken for new."""
    try:
        return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt, or compiled
        return ""


def _travels_by_value(module: ModuleType) -> None:
    """Send what a module defines to workers as code: on other machines it cannot be imported."""
    if module.__name__.partition(".")[0] != "fedbandit" and module.__name__ in sys.modules:
        cloudpickle.register_pickle_by_value(module)
