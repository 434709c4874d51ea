"""A recipe: an algorithm as a named choice of parts, which builds agents and a server."""

import inspect
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.identity import canonical
from fedbandit.core.parts.parts import Parts
from fedbandit.core.server import Server
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter, UnknownParameter, complaint, nearest

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recipe:
    """An algorithm and its parameters. Frozen, picklable, and equal to one that says the same.

    ``identity`` is what agents and coordinators compare (see ``core.identity``); ``meaning`` is the
    version of what the recipe's name means, and a part of it.
    """

    name: str
    parts: Parts
    meaning: int
    identity: str
    _params: dict[str, Any]
    _defaults: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the parameters, plain: ``RECIPES[recipe.name](**recipe.params)`` is equal."""
        return deepcopy(self._params)

    @property
    def differing(self) -> dict[str, Any]:
        """The parameters that are not at their defaults."""
        return {name: value for name, value in self.params.items() if self._is_set(name, value)}

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self._params["dimension"])

    @property
    def agents(self) -> int:
        """Number of agents, M."""
        return int(self._params["agents"])

    def agent(self, index: int) -> Agent:
        """Build agent ``index``, from 0 to agents - 1, which has seen nothing yet."""
        why = "build the recipe with as many as you need"
        return Agent(self, whole("agent", index, least=0, most=self.agents - 1, why=why))

    def server(self) -> Server:
        """Build the server, which has merged nothing yet."""
        return Server(self)

    def fleet(self) -> list[Agent]:
        """Build all agents. Those of ``Centralised`` are one and the same learner."""
        if self.parts.shared:
            return [self.agent(0)] * self.agents
        return [self.agent(index) for index in range(self.agents)]

    def _is_set(self, name: str, value: Any) -> bool:
        return name not in self._defaults or value != self._defaults[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return self.name == other.name and self._params == other._params

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self._params, sort_keys=True)))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.differing.items())
        return f"{self.name}({given})"


def recipe(
    *, name: str = "", meaning: int = 1, cost_only: tuple[str, ...] = ()
) -> Callable[[Callable[P, Parts]], Callable[P, Recipe]]:
    """Make a constructor of recipes from a function, or method, that turns parameters into parts.

    ``meaning``: raise it by one whenever a default, or what a parameter does, changes.
    ``cost_only``: parameters that change what deciding costs, but no decision.
    """

    def decorate(choose_parts: Callable[P, Parts]) -> Callable[P, Recipe]:
        signature = inspect.signature(choose_parts)
        defaults = {
            each.name: _plain(each.default)
            for each in signature.parameters.values()
            if each.default is not inspect.Parameter.empty
        }
        called = name or choose_parts.__name__

        @wraps(choose_parts)
        def build(*args: P.args, **kwargs: P.kwargs) -> Recipe:
            check_names(called, signature, kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            whole("dimension", given["dimension"], least=1)
            whole("agents", given["agents"], least=1)
            if "bounds" in given:
                given["bounds"] = _bounds(given["bounds"])
            parts = choose_parts(*bound.args, **bound.kwargs)
            plain = {
                each: _plain(value, like=defaults.get(each))
                for each, value in given.items()
                if each != "self"
            }
            deciding = {
                each: value
                for each, value in plain.items()
                if each not in cost_only and (each not in defaults or value != defaults[each])
            }
            identity = canonical(called, meaning, deciding)
            return Recipe(called, parts, meaning, identity, plain, defaults)

        build.__signature__ = signature.replace(return_annotation=Recipe)  # type: ignore[attr-defined]
        return build

    return decorate


def nearest_names(called: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Answer a misspelt parameter of a function with the nearest one that it has."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            check_names(called, signature, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def check_names(called: str, signature: inspect.Signature, given: Mapping[str, object]) -> None:
    """Raise UnknownParameter for a name that is not in the signature."""
    known = [name for name in signature.parameters if name != "self"]
    for name in given:
        if name not in known:
            meant = nearest(name, known)
            fix = f"Did you mean {meant!r}?" if meant else f"It has {', '.join(known)}."
            raise UnknownParameter(f"{called} has no parameter {name!r}. {fix}")


def _bounds(given: object) -> Bounds:
    """Return bounds, also from the plain dictionary that ``Recipe.params`` holds."""
    if isinstance(given, Bounds):
        return given
    if isinstance(given, Mapping) and set(given) <= {field.name for field in fields(Bounds)}:
        return Bounds(**given)
    fix = "Write bounds=fb.Bounds(noise=..., horizon=...)."
    raise InvalidParameter(complaint("bounds", got=repr(given), expected="fb.Bounds", fix=fix))


def _plain(value: Any, *, like: Any = None) -> Any:
    """Return a parameter as plain Python, fit for JSON; a float where its default is one."""
    if isinstance(value, Bounds):
        return {name: _plain(each) for name, each in value.params.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return float(value) if isinstance(like, float) and isinstance(value, int) else value
