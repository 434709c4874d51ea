"""Agents and a server of one recipe, joined by hand, and what is the same about two of them."""

from collections import deque
from collections.abc import Mapping
from io import BytesIO
from typing import Any, TypeVar

import numpy as np

from fedbandit import wire
from fedbandit.core.agent import Agent
from fedbandit.core.messages import Message, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.saved import State
from fedbandit.core.server import Server

_ARMS = 4
M = TypeVar("M", bound=Message | Upload)


class Fleet:
    """All agents of a recipe and its server. With ``as_bytes``, messages are sent as bytes."""

    def __init__(self, recipe: Recipe, *, as_bytes: bool = False) -> None:
        self.recipe, self.as_bytes = recipe, as_bytes
        self.agents, self.server = recipe.fleet(), recipe.server()

    def play(self, rng: np.random.Generator, rounds: int) -> list[int]:
        """Let agents drawn at random choose among random arms; return the arms that they chose."""
        chosen = []
        for _ in range(rounds):
            arms = rng.standard_normal((_ARMS, self.recipe.dimension))
            agent = self.agents[int(rng.integers(self.recipe.agents))]
            chosen.append(agent.choose(arms))
            upload = agent.observe(chosen[-1], float(rng.standard_normal()))
            if upload is not None:
                self.deliver(upload)
        return chosen

    def deliver(self, upload: Upload) -> None:
        """Carry an upload to the server, and everything that follows from it."""
        uploads = deque([upload])
        while uploads:
            for answer in self.server.receive(self._sent(uploads.popleft())):
                follow_up = self.agents[answer.agent].receive(self._sent(answer.message))
                if follow_up is not None:
                    uploads.append(follow_up)

    def restored(self) -> "Fleet":
        """Return a copy of agents and server that has gone through files."""
        again = Fleet(self.recipe, as_bytes=self.as_bytes)
        again.server = Server.restore(self.recipe, _through_a_file(self.server.state()))
        distinct = {
            id(agent): Agent.restore(self.recipe, _through_a_file(agent.state()))
            for agent in self.agents
        }
        again.agents = [distinct[id(agent)] for agent in self.agents]  # all may be one
        return again

    def states(self) -> list[State]:
        """Return the states of all agents and of the server."""
        return [*(agent.state() for agent in self.agents), self.server.state()]

    def _sent(self, message: M) -> M:
        return wire.decode(wire.encode(message)) if self.as_bytes else message  # type: ignore[return-value]


def assert_same_state(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Assert that two states have the same entries, bit for bit."""
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)


def assert_same_fleet(one: Fleet, other: Fleet) -> None:
    """Assert that all agents and the servers of two fleets have the same states."""
    for ours, theirs in zip(one.states(), other.states(), strict=True):
        assert_same_state(ours, theirs)


def assert_goes_on(recipe: Recipe, *, before: int, seed: int) -> None:
    """Assert that a fleet restored after some rounds goes on bit for bit."""
    fleet = Fleet(recipe)
    fleet.play(np.random.default_rng(seed), before)
    again = fleet.restored()
    assert_same_fleet(fleet, again)
    chosen = [each.play(np.random.default_rng(seed + 1), 40) for each in (fleet, again)]
    assert chosen[0] == chosen[1]
    assert_same_fleet(fleet, again)


def _through_a_file(state: State) -> State:
    file = BytesIO()
    np.savez(file, allow_pickle=False, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)
