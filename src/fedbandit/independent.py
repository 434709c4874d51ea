"""Learners of one's own: one for each agent, which never talk to each other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import whole
from fedbandit.errors import InvalidParameter, complaint


@runtime_checkable
class Chooser(Protocol):
    """Anything that chooses arms and is told what they paid."""

    def choose(self, arms: NDArray[np.float64], /) -> int:
        """Return the index of the arm to play, of the K x d shown."""
        ...

    def observe(self, arm: int, reward: float, /) -> object:
        """Take in what an arm of those shown last has paid; what it returns is ignored."""
        ...


@dataclass(frozen=True)
class Independent:
    """An algorithm of one's own for ``simulate``: a learner for each agent, without messages.

    ``learner`` is a class, or a function, that makes one learner: an object with ``choose(arms)``
    and ``observe(arm, reward)``. It is called with ``params``, and with ``dimension`` and ``agent``
    (0 to agents - 1, for chance of its own) if it takes parameters of these names.

    >>> class First:
    ...     def choose(self, arms): return 0
    ...     def observe(self, arm, reward): pass
    >>> Independent(First, dimension=5, agents=2)
    First(dimension=5, agents=2)
    """

    learner: Callable[..., Chooser] = field(repr=False)
    dimension: int = field(kw_only=True)
    agents: int = field(kw_only=True)
    own: Mapping[str, Any] = field(kw_only=True, default_factory=dict)

    def __post_init__(self) -> None:
        whole("dimension", self.dimension, least=1)
        whole("agents", self.agents, least=1)
        if not isinstance(made := self.make(0), Chooser):
            raise InvalidParameter(
                complaint(
                    f"{self.name}",
                    got=f"a {type(made).__name__}",
                    expected="an object with choose(arms) and observe(arm, reward)",
                    fix="Add these methods, or make it a recipe of parts (docs/experiments.md).",
                )
            )

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"{self.name}({given})"

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return getattr(self.learner, "__name__", type(self.learner).__name__)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters."""
        return {"dimension": self.dimension, "agents": self.agents, **self.own}

    def make(self, agent: int) -> Chooser:
        """Make the learner of an agent."""
        taken = inspect.signature(self.learner).parameters
        told = {"dimension": self.dimension, "agent": agent}
        return self.learner(**{k: v for k, v in told.items() if k in taken}, **self.own)

    def fleet(self) -> list[Chooser]:
        """Make a learner for each agent."""
        return [self.make(agent) for agent in range(self.agents)]
