"""What people write themselves passes the contracts, and what is broken does not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.transport import HttpTransport
from fedbandit.core.memory.gram_memory import GramMemory
from fedbandit.core.parts.parts import Parts
from fedbandit.core.recipe import recipe
from fedbandit.errors import Refused, Unreachable
from fedbandit.testing import (
    OpenStore,
    OpenTransport,
    RecipeContract,
    StoreContract,
    TransportContract,
    WorldContract,
    coordinator,
)
from fedbandit.testing.recipe_contract import Build
from fedbandit.testing.transport_contract import RECIPE
from tests.testing.memory_store import LockedModel, MemoryStore, Past, Place


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        place = Place()
        return lambda: MemoryStore(place)


class Hasty(MemoryStore):
    """Keeps what a block wrote before it raised."""

    @contextmanager
    def lock(self, name: str) -> Iterator[LockedModel]:
        locked = LockedModel(self.archive(name), Past())
        try:
            yield locked
        finally:
            self._place.models[name] = locked.new


def test_a_store_that_keeps_half_a_block_is_found_out() -> None:
    with pytest.raises(AssertionError):
        StoreContract().test_a_lock_that_raises_leaves_everything(Hasty(Place()))


def test_agents_learn_from_a_store_of_ones_own() -> None:
    store = MemoryStore(Place())
    with coordinator(RECIPE, store=store) as served, served.connect("phone") as agent:
        agent.reward(agent.decide(np.eye(RECIPE.dimension)).id, 1.0)
        assert agent.sync(everything=True)
    assert store.model("model").count == 1


@dataclass(frozen=True)
class Every:
    """A trigger of one's own: talk after every so many observations."""

    rounds: int

    def threshold(self, count: int, /) -> float:
        return -1.0 if count >= self.rounds else inf


@recipe()
def Punctual(*, dimension: int, agents: int, rounds: int = 5) -> Parts:
    """LinUCB that talks after every so many observations."""
    del agents
    return Parts(memory=GramMemory(dimension, ridge=1.0), trigger=Every(rounds))


class TestPunctual(RecipeContract):
    @pytest.fixture
    def recipe(self) -> fb.Recipe:
        return Punctual(dimension=3, agents=2, rounds=4)

    @pytest.fixture
    def build(self) -> Build:
        return Punctual


@dataclass
class Moody:
    """A trigger that remembers: what it says depends on who asked before."""

    asked: int = 0

    def threshold(self, _count: int, /) -> float:
        self.asked += 1
        return -1.0 if self.asked % 7 == 0 else inf


@recipe(name="Moody")
def moody_recipe(*, dimension: int, agents: int) -> Parts:
    """A recipe that no agent can be restored of."""
    del agents
    return Parts(memory=GramMemory(dimension, ridge=1.0), trigger=Moody())


def test_a_recipe_with_a_state_of_its_own_is_found_out() -> None:
    moody = moody_recipe(dimension=3, agents=2)
    with pytest.raises(AssertionError):
        RecipeContract().test_messages_survive_the_wire(moody)


class UrllibTransport:
    """A transport of one's own, on urllib."""

    def __init__(self, url: str, *, model: str, agent: str, token: str | None) -> None:
        self._base = f"{url}/v1/models/{model}/agents/{agent}/"
        self._headers = {"Content-Type": wire.MEDIA_TYPE, "Authorization": f"Bearer {token}"}

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        try:
            with urlopen(Request(self._base + path, body, self._headers), timeout=5) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            with error:
                field = json.loads(error.read())["error"]["field"]
            if error.code >= 500:
                raise Unreachable(str(error)) from error
            raise Refused(str(error), status=error.code, field=field) from error
        except OSError as error:
            raise Unreachable(str(error)) from error

    def close(self) -> None:
        pass


class TestUrllib(TransportContract):
    @pytest.fixture
    def open_transport(self) -> OpenTransport:
        return UrllibTransport


class Deaf(HttpTransport):
    """Takes every refusal for silence."""

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        try:
            return super().exchange(path, body)
        except Refused as error:
            raise Unreachable(str(error)) from error


def test_a_transport_that_takes_no_for_silence_is_found_out() -> None:
    contract = TransportContract()
    with coordinator(RECIPE) as served, pytest.raises(Unreachable):
        contract.test_an_agent_without_its_token_is_refused(
            served,
            lambda url, **names: Deaf(url, **names, timeout=5.0),
            "wrong",
        )


@dataclass(frozen=True)
class Forgetful:
    """A world that is another one every time, which no experiment could resume."""

    dimension: int = 2
    agents: int = 2

    def rounds(self, n: int) -> Iterator[fb.Round]:
        rng: Any = np.random.default_rng()
        for t in range(n):
            yield fb.Round(t % 2, rng.random((3, 2)), rng.random(3), rng.random(3))


def test_a_world_that_changes_is_found_out() -> None:
    with pytest.raises(AssertionError):
        WorldContract().test_a_shorter_run_is_a_prefix_and_a_repeat_is_the_same(Forgetful())
