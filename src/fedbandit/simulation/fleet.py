"""Many agents in little memory: those that are playing as objects, the others as numbers."""

from collections import OrderedDict
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

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


class Entry(NamedTuple):
    """An entry of a saved state: a text as it is, or the shape of numbers and where they are."""

    name: str
    text: str | None
    shape: tuple[int, ...]
    numbers: slice


class Stored(NamedTuple):
    """An agent as numbers: ``layout`` says what they are, and is shared by agents alike."""

    layout: tuple[Entry, ...]
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
        self._layouts: dict[tuple[object, ...], tuple[Entry, ...]] = {}

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
        forms: list[tuple[str, Any]] = []
        parts: list[bytes] = []
        for name, value in state.items():
            if isinstance(value, str):
                forms.append((name, value))
                continue
            array = np.asarray(value, np.float64)
            forms.append((name, array.shape))
            parts.append(array.tobytes())
        key = tuple(forms)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = _layout(forms)
        return Stored(layout, b"".join(parts))

    def _woken(self, stored: Stored) -> Agent:
        numbers = np.frombuffer(stored.numbers)
        state: dict[str, Any] = {
            name: numbers[own].reshape(shape) if text is None else text
            for name, text, shape, own in stored.layout
        }
        return Agent.restore(self._recipe, state)


def _layout(forms: list[tuple[str, Any]]) -> tuple[Entry, ...]:
    """Return where each entry's numbers are if all follow each other."""
    entries, at = [], 0
    for name, form in forms:
        if isinstance(form, str):
            entries.append(Entry(name, form, (), slice(0)))
        else:
            entries.append(Entry(name, None, form, slice(at, at + prod(form))))
            at += prod(form)
    return tuple(entries)
