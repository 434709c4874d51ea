"""A recipe: an algorithm as a named choice of parts, which builds agents and a server."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.parts import Parts
from fedbandit.core.server import Server
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter, complaint

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recipe:
    """An algorithm and its parameters. Frozen, picklable; equal recipes have equal ``repr``."""

    name: str
    params: dict[str, Any]
    parts: Parts

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.params["dimension"])

    @property
    def agents(self) -> int:
        """Number of agents, M."""
        return int(self.params["agents"])

    def agent(self, index: int) -> Agent:
        """Build agent ``index``, from 0 to agents - 1, which has seen nothing yet."""
        if isinstance(index, bool) or index not in range(self.agents):
            expected = f"an agent from 0 to {self.agents - 1}"
            fix = "Build the recipe with as many agents as you need."
            raise InvalidParameter(complaint(self.name, got=index, expected=expected, fix=fix))
        return Agent(self, index)

    def server(self) -> Server:
        """Build the server, which has merged nothing yet."""
        return Server(self)

    def fleet(self) -> list[Agent]:
        """Build all agents. Those of ``Centralised`` are one and the same learner."""
        if self.parts.shared:
            return [self.agent(0)] * self.agents
        return [self.agent(index) for index in range(self.agents)]

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"{self.name}({given})"


def recipe(choose_parts: Callable[P, Parts]) -> Callable[P, Recipe]:
    """Make a constructor of recipes from a function that turns parameters into parts."""
    signature = inspect.signature(choose_parts)

    @wraps(choose_parts)
    def build(*args: P.args, **kwargs: P.kwargs) -> Recipe:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        params = dict(bound.arguments)
        whole("dimension", params["dimension"], least=1)
        whole("agents", params["agents"], least=1)
        parts = choose_parts(*args, **kwargs)
        plain = {name: _plain(value) for name, value in params.items()}
        return Recipe(choose_parts.__name__, plain, parts)

    build.__signature__ = signature.replace(return_annotation=Recipe)  # type: ignore[attr-defined]
    return build


def _plain(value: Any) -> Any:
    """Return a parameter as plain Python, fit for JSON, whatever kind of number came."""
    if isinstance(value, Bounds):
        return {name: _plain(each) for name, each in value.params.items()}
    return value.item() if isinstance(value, np.generic) else value
