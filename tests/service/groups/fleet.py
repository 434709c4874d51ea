"""Honest agents and liars, for tests of groups: what they send, and what they are told."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.statistics import Base
from fedbandit.service.board.views import model_view
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.groups.membership import group_of, key_of
from fedbandit.service.groups.telling import as_told
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.merge import merge
from fedbandit.service.metrics import measured
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from tests.service.running import client_of, post, state_path

D, GROUPS = 6, 12
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, agents=20, alpha=1e9, radius=1.0),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=20, alpha=1e9),
    "lean": fb.FSCLB.lean(dimension=D, agents=20, alpha=1e9),
}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
each_kind = pytest.mark.parametrize("recipe", [RECIPES["FSCLB"], RECIPES["lean"]])
THETA = np.array([1.0, -0.5, 0.5, 0.0, 0.25, -0.75]) / 2.0
OFTEN = History(every=1e-9, keep=40, by_agent=True)
AGENTS = [f"phone-{i}" for i in range(16)]
LIAR = "phone-16"


def observed(recipe: fb.Recipe, seed: int, count: int = 40) -> fb.Upload:
    """What an honest agent sends after so many observations."""
    agent, rng = recipe.agent(0), np.random.default_rng(seed)
    for arm in rng.standard_normal((count, D)):
        x = arm / np.linalg.norm(arm)
        agent.observe(x, float(x @ THETA + 0.1 * rng.standard_normal()))
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    return fb.Upload(0, upload.statistics)


def lie(recipe: fb.Recipe) -> fb.Upload:
    """What a liar sends: as many observations of the best arm, with the worst of rewards."""
    agent, x = recipe.agent(0), THETA / np.linalg.norm(THETA)
    for _ in range(400):
        agent.observe(x, -1.0)
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    return fb.Upload(0, upload.statistics)


def send(
    url: str, recipe: fb.Recipe, sent: Sequence[tuple[str, fb.Upload]], first: int = 1
) -> None:
    """Let agents send, all to one coordinator."""
    with client_of(url) as client:
        for number, (agent, upload) in enumerate(sent, start=first):
            sync = wire.Sync(wire.fingerprint(recipe), agent.encode().ljust(16), number, upload)
            post(client, sync, agent=agent)


def told(url: str, recipe: fb.Recipe, model: str = "news") -> fb.Agent:
    """An agent that has joined."""
    agent = recipe.agent(0)
    with client_of(url) as client:
        download = wire.decode_joined(client.get(state_path(model)).content).download
    assert download is not None
    agent.receive(download)
    return agent


def made(
    url: str,
    recipe: fb.Recipe,
    groups: int = GROUPS,
    *,
    history: History = OFTEN,
    watched: bool = False,
) -> Store:
    """A store with a model in it."""
    store = open_store(url, create=True)
    model, state = new_model("news", recipe, groups=groups, history=history, watched=watched)
    store.create(replace(model, created=0.5), state)
    return store


def honest(recipe: fb.Recipe) -> list[tuple[str, fb.Upload]]:
    """Two uploads of each agent."""
    return [
        (agent, observed(recipe, 100 * turn + i)) for turn in (0, 1) for i, agent in _numbered()
    ]


def _numbered() -> list[tuple[int, str]]:
    return list(enumerate(AGENTS))


def check_shown(store: Store, agent: str) -> None:
    """The group that contradicts the others is named, with its agents."""
    model = store.model("news")
    (found,) = model_view(store, "news", "day")["doubted"]
    place = store.agents("news")[agent].place
    assert found["group"] == group_of(model.created, GROUPS, agent, place)
    assert agent in found["agents"]
    assert found["weight"] < 0.3
    assert measured(store)["news"]["fedbandit_model_doubted"] == 1


def fakes(recipe: fb.Recipe, count: int) -> list[fb.Upload]:
    """Arms of every direction, rewarded by -theta, in as many uploads as it takes."""
    agent, server, rng = recipe.agent(0), recipe.server(), np.random.default_rng(count)
    sent = []
    for arm in rng.standard_normal((count, D)):
        x = arm / np.linalg.norm(arm)
        upload = agent.observe(x, -float(x @ THETA))
        if upload is not None:
            sent.append(upload)
            server.receive(upload)
            agent.receive(server.download())
    rest = agent.receive(fb.Collect())
    sent += [rest] if isinstance(rest, fb.Upload) else []
    assert sum(each.count for each in sent) == count
    return [fb.Upload(0, each.statistics) for each in sent]


class Fleet:
    """Groups and a server, without a store; ``many`` of 24 have sent ``honest`` uploads."""

    def __init__(
        self,
        recipe: fb.Recipe,
        *,
        watched: bool,
        honest: int = 24,
        many: int = 12,
        clock: Callable[[], float] = float,
    ) -> None:
        self.recipe, self.server = recipe, recipe.server()
        self.groups, self.told = WeighedGroups(recipe, watched=watched, clock=clock), b""
        self.stored: dict[int, bytes] = {}
        for number in range(honest):
            self.send(number % many, observed(recipe, number))

    def send(self, group: int, upload: fb.Upload) -> dict[int, bytes]:
        return self.send_to(key_of(24, group), upload)

    def observed(self, group: int, arms: Array, rewards: Array) -> None:
        """Let a group send what an agent observed."""
        agent = self.recipe.agent(0)
        for arm, reward in zip(arms, rewards, strict=True):
            agent.observe(arm, float(reward))
        upload = agent.receive(fb.Collect())
        assert isinstance(upload, fb.Upload)
        self.send(group, fb.Upload(0, upload.statistics))

    def send_to(self, key: int, upload: fb.Upload) -> dict[int, bytes]:
        merge(self.recipe, self.server, [upload])
        stored = self.groups.absorb([(key, upload.statistics)], 0.0)
        self.told, self.stored = self.groups.told(self.server), self.stored | stored
        return stored

    def restart(self) -> None:
        """Go on with what is stored."""
        self.groups.read(self.stored)
        self.told = self.groups.told(self.server)

    def knows(self) -> Base:
        """What an agent knows once it was told."""
        download = as_told(self.recipe, self.server, self.told).download()
        self.recipe.agent(0).receive(download)  # it takes it
        memory = self.recipe.parts.memory
        return Base(memory.opened(download.statistics), memory)

    def radius(self) -> float:
        """What it explores by."""
        base = self.knows()
        known = base.statistics
        evidence = Evidence(base.theta, known.moment, known.count, known.rewards)
        return self.recipe.parts.radius(base.reading, evidence)
