"""A recipe: an algorithm as a named choice of parts, which builds agents and a server."""

import inspect
from collections.abc import Callable, Container, Mapping, MutableMapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import wraps
from numbers import Real
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.identity import canonical, differing, plain_json
from fedbandit.core.parts.choice import Ucb
from fedbandit.core.parts.drawn import Mixed, Thompson, choice_of, plain
from fedbandit.core.parts.parts import Parts
from fedbandit.core.server import Server
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter, UnknownParameter, complaint, nearest
from fedbandit.features.spec import Features, features_from

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recipe:
    """An algorithm with its parameters, which builds agents and a server.

    Made by ``FSCLB(...)``, ``FedLinUCB(...)`` and the others in ``RECIPES``. Frozen and picklable;
    recipes with the same name and parameters are equal. ``parts`` are what the algorithm is made
    of. ``label`` is what to call it in print: the name, or that of a well-known choice of its
    parameters, such as FSCLB.lean. ``meaning`` is the version of the recipe. ``identities`` are the
    texts that agents and coordinators compare to make sure that they run the same algorithm (see
    ``core.identity``), by meaning: the present one, and those that this algorithm had before its
    defaults changed.
    """

    name: str
    label: str
    parts: Parts
    meaning: int
    identities: Mapping[int, str]
    _params: dict[str, Any]
    _defaults: dict[str, Any]
    _unsaid: dict[str, Any]

    @property
    def identity(self) -> str:
        """The present identity."""
        return self.identities[self.meaning]

    @property
    def params(self) -> dict[str, Any]:
        """A copy of all parameters in plain Python, fit for JSON.

        ``RECIPES[recipe.name](**recipe.params)`` is equal to this recipe.
        """
        return deepcopy(self._params)

    @property
    def differing(self) -> dict[str, Any]:
        """The parameters whose values are not the defaults."""
        return differing(self.params, self._defaults)

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self._params["dimension"])

    @property
    def agents(self) -> int:
        """Number of agents, M."""
        return int(self._params["agents"])

    def agent(self, index: int) -> Agent:
        """Build agent ``index`` (0 to agents - 1), without any observations."""
        advice = "For more agents build the recipe with a larger agents=..."
        return Agent(self, whole("agent", index, least=0, most=self.agents - 1, advice=advice))

    def server(self) -> Server:
        """Build the server, without any uploads."""
        return Server(self)

    def fleet(self) -> list[Agent]:
        """Build all agents, in order. For ``Centralised`` it is the same object M times."""
        if self.parts.shared:
            return [self.agent(0)] * self.agents
        return [self.agent(index) for index in range(self.agents)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return self.name == other.name and self._params == other._params

    def __hash__(self) -> int:
        return hash((self.name, plain_json(self._params)))

    def __repr__(self) -> str:
        shown = differing(self._params, self._unsaid)
        return f"{self.label}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def recipe(
    *,
    name: str = "",
    meaning: int = 1,
    earlier: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    cost_only: tuple[str, ...] = (),
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
    labelled: Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]] | None] = lambda _: None,
) -> Callable[[Callable[P, Parts]], Callable[P, Recipe]]:
    """Turn a function or method that returns ``Parts`` into one that returns a ``Recipe``.

    The decorated function keeps its name, parameters and docstring. Misspelt parameters raise
    UnknownParameter. ``name``: the recipe's name, by default the function's. ``meaning``: the
    recipe's version; raise it by one whenever a default changes, or what a parameter does.
    ``earlier``: where only defaults have changed, those that differed, by the meaning of that time.
    ``cost_only``: parameters that change how long a decision takes, but no decision; they are left
    out of the identity. ``implied``: from all parameters, the values that those have which are left
    out (None); an identity has no parameter that is spelt out at that value. ``labelled``: from all
    parameters, the label of this choice of them, if it has one, and the values that go without
    saying under it.
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
            _read_parameters(bound.arguments)
            parts = choose_parts(*bound.args, **bound.kwargs)
            params = {
                each: _plain(value, like=defaults.get(each))
                for each, value in bound.arguments.items()
                if each != "self"
            }
            decides = _deciding(params, cost_only, implied(params))
            identities = {
                version: canonical(called, version, differing(decides, {**defaults, **changed}))
                for version, changed in {**earlier, meaning: {}}.items()
            }
            label, unsaid = labelled(params) or (called, {})
            unsaid = {**defaults, **unsaid}
            return Recipe(called, label, parts, meaning, identities, params, defaults, unsaid)

        build.__signature__ = signature.replace(return_annotation=Recipe)  # type: ignore[attr-defined]
        return build

    return decorate


def _read_parameters(given: MutableMapping[str, Any]) -> None:
    """Check the sizes, and replace parameters that may be given as words or JSON by values."""
    whole("dimension", given["dimension"], least=1)
    whole("agents", given["agents"], least=1)
    for name, read in _READ.items():
        if name in given:
            given[name] = read(given[name])


def _deciding(
    params: Mapping[str, Any], cost_only: Container[str], implied: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters that decide something: not at the value that leaving them out has."""
    return {
        name: value
        for name, value in params.items()
        if name not in cost_only and not (name in implied and value == implied[name])
    }


def nearest_names(called: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function raise UnknownParameter, with the nearest valid name, for a misspelt one.

    ``called`` is the function's name in the error.
    """

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
            fix = f"Did you mean {meant!r}?" if meant else f"Its parameters: {', '.join(known)}."
            raise UnknownParameter(f"{called} has no parameter {name!r}. {fix}")


def _bounds(given: object) -> Bounds:
    """Return bounds, also from the plain dictionary that ``Recipe.params`` holds."""
    if isinstance(given, Bounds):
        return given
    if isinstance(given, Mapping) and set(given) <= {field.name for field in fields(Bounds)}:
        return Bounds(**given)
    fix = "Write bounds=fb.Bounds(noise=..., horizon=...)."
    raise InvalidParameter(complaint("bounds", got=repr(given), expected="fb.Bounds", fix=fix))


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bounds": _bounds,
    "choice": choice_of,
    "features": features_from,
}


def _plain(value: Any, *, like: Any = None) -> Any:
    """Return a parameter as plain Python, fit for JSON; as a float if ``like`` is a float."""
    if isinstance(value, Bounds):
        return {name: _plain(each) for name, each in value.params.items()}
    if isinstance(value, Ucb | Thompson | Mixed):
        return plain(value)
    if isinstance(value, Features):
        return value.params
    if isinstance(value, np.generic):
        value = value.item()
    exact = isinstance(value, int | float | str) or value is None
    number = isinstance(value, int) and isinstance(like, float)
    return float(value) if number or (not exact and isinstance(value, Real)) else value
