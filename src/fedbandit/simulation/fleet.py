"""Many agents in little memory: those that are playing as objects, the others as numbers."""

from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.agent import Agent
from fedbandit.core.recipe import Recipe

MOST_AWAKE = 2**13
"""How many agents are objects at a time; more than a window has rounds, so none is put away
while it plays."""

MANY = 2 * MOST_AWAKE
"""Fleets of more agents than this are kept compact."""


class Agents(Protocol):
    """All agents of a simulation, by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Agent: ...


class Stored(NamedTuple):
    """An agent as numbers: ``layout`` says what they are, and is shared by agents alike."""

    layout: tuple[tuple[str, Any], ...]
    numbers: bytes


class CompactFleet:
    """The agents of a recipe, of which at most ``most`` are objects at a time.

    An agent that has never played does not exist. One that has not played for long is put away: its
    state (``Agent.state``) becomes one array of float64, and goes on with the same bits when it
    plays again. The arms that it was last shown are not kept, so an agent must observe before
    others play, as it does in a simulation.
    """

    def __init__(self, recipe: Recipe, *, most: int = MOST_AWAKE) -> None:
        self._recipe, self._most = recipe, most
        self._awake: OrderedDict[int, Agent] = OrderedDict()
        self._stored: dict[int, Stored] = {}
        self._layouts: dict[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]] = {}

    def __len__(self) -> int:
        return self._recipe.agents

    def __getitem__(self, index: int, /) -> Agent:
        agent = self._awake.get(index)
        if agent is not None:
            self._awake.move_to_end(index)
            return agent
        stored = self._stored.pop(index, None)
        agent = self._recipe.agent(index) if stored is None else self._woken(stored)
        self._awake[index] = agent
        if len(self._awake) > self._most:
            oldest, other = self._awake.popitem(last=False)
            self._stored[oldest] = self._put_away(other)
        return agent

    def _put_away(self, agent: Agent) -> Stored:
        state = agent.state()
        state["shown"] = state["shown"][:0]
        state["widths"] = state["widths"][:0]
        layout = tuple((name, _form(value)) for name, value in state.items())
        arrays = [np.ravel(value) for value in state.values() if not isinstance(value, str)]
        numbers = np.concatenate(arrays).astype(np.float64).tobytes()
        return Stored(self._layouts.setdefault(layout, layout), numbers)

    def _woken(self, stored: Stored) -> Agent:
        numbers, at = np.frombuffer(stored.numbers), 0
        state: dict[str, Any] = {}
        for name, form in stored.layout:
            if isinstance(form, str):
                state[name] = form
                continue
            size = int(np.prod(form))
            state[name] = _value(numbers[at : at + size], form)
            at += size
        return Agent.restore(self._recipe, state)


def _form(value: Any) -> Any:
    """Return a text as it is, of numbers the shape."""
    return value if isinstance(value, str) else np.shape(value)


def _value(numbers: NDArray[np.float64], shape: tuple[int, ...]) -> Any:
    return numbers.reshape(shape) if shape else numbers[0]
