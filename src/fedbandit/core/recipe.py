"""A recipe: an algorithm as a named choice of parts, which builds agents and a server."""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import update_wrapper, wraps
from typing import Any, Generic, ParamSpec

import numpy as np

from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.parts.parts import Parts
from fedbandit.core.server import Server
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter, complaint

P = ParamSpec("P")
Q = ParamSpec("Q")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recipe:
    """An algorithm and its parameters. Frozen, picklable, and equal to one that says the same."""

    name: str
    _params: dict[str, Any]
    parts: Parts

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the parameters, plain: ``RECIPES[recipe.name](**recipe.params)`` is equal."""
        return deepcopy(self._params)

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._params.items())
        return f"{self.name}({given})"


def recipe(choose_parts: Callable[P, Parts]) -> Callable[P, Recipe]:
    """Make a constructor of recipes from a function that turns parameters into parts."""
    signature = inspect.signature(choose_parts)

    @wraps(choose_parts)
    def build(*args: P.args, **kwargs: P.kwargs) -> Recipe:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        whole("dimension", given["dimension"], least=1)
        whole("agents", given["agents"], least=1)
        if "bounds" in given:
            given["bounds"] = _bounds(given["bounds"])
        parts = choose_parts(*bound.args, **bound.kwargs)
        floats = {name for name, p in signature.parameters.items() if isinstance(p.default, float)}
        plain = {name: _plain(value, floats=name in floats) for name, value in given.items()}
        return Recipe(choose_parts.__name__.lstrip("_"), plain, parts)

    build.__signature__ = signature.replace(return_annotation=Recipe)  # type: ignore[attr-defined]
    return build


class Family(Generic[P, Q]):
    """A constructor of recipes that has a variant: call it, or its ``lean``."""

    __name__: str
    __qualname__: str
    __signature__: inspect.Signature

    def __init__(self, build: Callable[P, Recipe], lean: Callable[Q, Recipe]) -> None:
        update_wrapper(self, build)
        self.__signature__ = inspect.signature(build)
        self.__name__ = self.__qualname__ = build.__name__.lstrip("_")
        lean.__name__, lean.__qualname__ = "lean", f"{self.__name__}.lean"
        self._build, self.lean = build, lean

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Recipe:
        """Build a recipe."""
        return self._build(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<recipe {self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__  # pickled as functions are: by name


def _bounds(given: object) -> Bounds:
    """Return bounds, also from the plain dictionary that ``Recipe.params`` holds."""
    if isinstance(given, Bounds):
        return given
    if isinstance(given, Mapping) and set(given) <= {field.name for field in fields(Bounds)}:
        return Bounds(**given)
    fix = "Write bounds=fb.Bounds(noise=..., horizon=...)."
    raise InvalidParameter(complaint("bounds", got=repr(given), expected="fb.Bounds", fix=fix))


def _plain(value: Any, *, floats: bool = False) -> Any:
    """Return a parameter as plain Python, fit for JSON, whatever kind of number came."""
    if isinstance(value, Bounds):
        return {name: _plain(each) for name, each in value.params.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return float(value) if floats and isinstance(value, int) else value
