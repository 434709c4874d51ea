"""Honest agents and a liar, for tests of groups: what they send, and what they are told."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.board.views import model_view
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.groups.membership import group_of
from fedbandit.service.metrics import measured
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from tests.service.running import client_of, post, state_path

D, GROUPS = 6, 12
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, agents=20, alpha=1e9),
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
    """A store with a model in it; its agents are in ten of twelve groups."""
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
    assert found["group"] == group_of(model.created, GROUPS, agent)
    assert agent in found["agents"]
    assert found["weight"] < 0.3
    assert measured(store)["news"]["fedbandit_model_doubted"] == 1
