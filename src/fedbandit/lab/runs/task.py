"""One run to be made: a recipe on a world, under the labels that tables and figures use."""

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedbandit.core.checks import whole
from fedbandit.core.kernels import compiler
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.worlds.round import World

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.independent import Independent

CHECKPOINTS = 200
"""How many points of a run are kept, evenly spaced; a shorter run keeps every round."""

_KEY_DIGITS = 32
_DECIDING_SOURCES = (
    "core",
    "features",
    "worlds",
    "wire",
    "hashing.py",
    "independent.py",
    "peers.py",
    "simulation",
)
_TOLD_APART = ("fedbandit", "builtins")  # by their sources and by the version of Python
_CALLED = (FunctionType, property, classmethod, staticmethod, cached_property)
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__", "__func__", "fget", "func")
_CONSTANTS = (bool, int, float, complex, str, bytes)


class NamedWorld(World, Protocol):
    """A world that lists, as plain values, everything that decides its tape."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Plain numbers, strings, lists and dicts: equal params must mean equal tapes."""
        ...


@dataclass(frozen=True)
class Task:
    """One run: ``recipe`` plays ``rounds`` rounds of ``world``.

    ``setting``, ``algorithm`` and ``radius`` are labels and decide nothing but the key; ``trial``
    counts the tapes of a setting from 0. ``names`` are those in a spec: ``world`` and ``recipe``,
    by which the points of a sweep belong together, and their kinds. ``own_source`` is a digest of
    the module of an algorithm or world of one's own. A task is a value: it travels to a worker by
    pickle.
    """

    setting: str
    algorithm: str
    radius: str
    recipe: "Recipe | Independent" = field(compare=False)
    world: NamedWorld = field(compare=False)
    rounds: int
    trial: int
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    own_source: str = field(default="", repr=False)
    key: str = field(init=False)
    """Digest of everything that decides the result: equal keys, equal records.

    Covers recipe and world with all their parameters, the rounds, the checkpoints, the labels,
    numpy's and the compiler's versions and the sources of the packages that compute, so that a
    record made by other settings or other code is never taken for this one. It is computed where
    the task is made: a worker may not be able to read the source of a world typed at a prompt.
    """

    def __post_init__(self) -> None:
        """Check the parameters and compute the key."""
        object.__setattr__(self, "rounds", whole("Task rounds", self.rounds, least=1))
        object.__setattr__(self, "trial", whole("Task trial", self.trial, least=0))
        if not isinstance(getattr(self.world, "params", None), Mapping):
            raise InvalidParameter(
                complaint(
                    "Task",
                    got=f"a world {type(self.world).__name__} without params",
                    expected="a world that names what decides its tape",
                    fix="Give it a property params that returns a dict of plain values.",
                )
            )
        names = {
            "world": self.setting,
            "recipe": self.algorithm,
            "world_kind": type(self.world).__name__,
            "recipe_kind": self.recipe.name,
        }
        object.__setattr__(self, "names", {**names, **self.names})
        digest = hashlib.sha256(_canonical(self._identity()).encode()).hexdigest()
        object.__setattr__(self, "key", digest[:_KEY_DIGITS])

    def __str__(self) -> str:
        """Name the run the way a person would: setting, algorithm, radius, trial."""
        return f"{self.setting} / {self.algorithm} (radius {self.radius}), trial {self.trial}"

    def _identity(self) -> dict[str, Any]:
        return {
            "labels": [self.setting, self.algorithm, self.radius, self.names],
            "trial": self.trial,
            "rounds": self.rounds,
            "checkpoints": CHECKPOINTS,
            "recipe": [self.recipe.name, self.recipe.params, *_own_code(self.recipe)],
            "own": self.own_source,
            "world": [_class_identity(type(self.world)), self.world.params],
            "numpy": np.__version__,
            "compiler": compiler.version(),
            "sources": source_digest(),
        }


def checkpoints(rounds: int) -> tuple[int, ...]:
    """Return the rounds, counted from 1, that are recorded: evenly spaced, the last is the end."""
    count = min(CHECKPOINTS, rounds)
    return tuple(i * rounds // count for i in range(1, count + 1))


@cache
def source_digest() -> str:
    """Digest of fedbandit's sources that decide a trace; computed once per process, about 1 ms."""
    digest = hashlib.sha256()
    root = files("fedbandit")
    for name, source in _python_files([root / part for part in _DECIDING_SOURCES]):
        digest.update(f"{name}:{len(source)}:".encode() + source)
    return digest.hexdigest()


def _python_files(parts: list[Traversable]) -> Iterator[tuple[str, bytes]]:
    for part in sorted(parts, key=lambda part: part.name):
        if part.is_dir():
            yield from _python_files(list(part.iterdir()))
        elif part.name.endswith(".py"):
            yield part.name, part.read_bytes()


def _own_code(recipe: "Recipe | Independent") -> list[object]:
    """Return the code of a learner, or of the parts of a recipe, that is not fedbandit's."""
    parts = getattr(recipe, "parts", None)
    if parts is None:
        learner = getattr(recipe, "learner", None)
        return [_class_identity(learner)] if isinstance(learner, type) else [_content(learner)]
    values = [getattr(parts, each.name) for each in fields(parts)]
    foreign = [type(each) for each in values if _is_foreign(type(each))]
    return [_class_identity(each) for each in foreign]


def _is_foreign(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _TOLD_APART


def _class_identity(kind: type) -> list[object]:
    """Return the name of a class and the code of it and its bases, except fedbandit's.

    Code is both the source and what is loaded: a class typed at a prompt has no source, and a file
    may have changed since it was loaded.
    """
    bases = [base for base in kind.__mro__ if _is_foreign(base)]
    code = [[_source(base), _loaded(base)] for base in bases]
    return [kind.__module__, kind.__qualname__, *code]


@cache
def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # typed at a prompt
        return ""


def _loaded(kind: type) -> list[object]:
    """Return the methods and constants of a class, without what Python adds to every class."""
    return [
        [name, _content(value)]
        for name, value in sorted(vars(kind).items())
        if isinstance(value, _CALLED) or not name.startswith("__")
    ]


def _content(value: object) -> object:
    """Return code and constants as plain values, equal in every process; None for others."""
    if isinstance(value, CodeType):
        names = [*value.co_names, *value.co_varnames, *value.co_freevars]
        return [value.co_code.hex(), names, _content(value.co_consts)]
    if isinstance(value, tuple | list):
        return [_content(each) for each in value]
    if isinstance(value, dict):
        return [_content(each) for each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(str(_content(each)) for each in value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return [value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, _CALLED):
        return [_content(getattr(value, part, None)) for part in _PARTS]
    return repr(value) if isinstance(value, _CONSTANTS) else None


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            complaint(
                "Task",
                got=re.sub(r"\.$", "", str(error)),
                expected="params of plain finite numbers, strings, lists and dicts",
                fix="Turn arrays into lists, or into a digest of their bytes.",
            )
        ) from error
