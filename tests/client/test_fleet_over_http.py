"""A fleet over HTTP, against the real coordinator, is the simulation: to the last bit."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.private import private_coordinator
from fedbandit.service.storage.opening import open_store
from tests.client.proxy import between

WORLD = fb.worlds.Synthetic(dimension=8, arms=5, agents=3, seed=4)
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=8, sketch_size=4, agents=3, radius=0.3),
    "FSCLB, buffered": fb.FSCLB(dimension=8, sketch_size=4, agents=3, cadence="buffered"),
    "FedLinUCB": fb.FedLinUCB(dimension=8, agents=3),
    "FedLinUCB, int8": fb.FedLinUCB(dimension=8, agents=3, wire="int8"),
    "FSCLB.lean": fb.FSCLB.lean(dimension=8, agents=3, radius=0.3),
}
ROUNDS = 200


def simulated(recipe: fb.Recipe) -> tuple[list[int], list[int], fb.Server]:
    """Play in process, by hand: arms, uploads so far, and the server in the end."""
    agents, server, arms, uploads = recipe.fleet(), recipe.server(), [], []
    for this in WORLD.rounds(ROUNDS):
        agent = agents[this.agent]
        arms.append(agent.choose(this.arms))
        upload = agent.observe(arms[-1], float(this.rewards[arms[-1]]))
        if upload is not None:
            for answer in server.receive(upload):
                agents[answer.agent].receive(answer.message)
        uploads.append(server.version)
    return arms, uploads, server


def stored(store_url: str) -> fb.Download:
    store = open_store(store_url)
    try:
        message = wire.decode(store.state("news")[1])
        assert isinstance(message, fb.Download)
        return message
    finally:
        store.close()


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_in_step_with_the_simulation(recipe: fb.Recipe, store_url: str, tmp_path: Path) -> None:
    arms, uploads = [], []
    with ExitStack() as fleet:
        url = fleet.enter_context(private_coordinator(store_url, model="news", recipe=recipe))
        agents = [
            fleet.enter_context(
                fb.connect(url, model="news", agent=f"a{i}", state_dir=tmp_path / str(i))
            )
            for i in range(3)
        ]
        for this in WORLD.rounds(ROUNDS):
            agent = agents[this.agent]
            decision = agent.decide(this.arms)
            agent.reward(decision.id, float(this.rewards[decision.index]))
            assert agent.sync()
            arms.append(decision.index)
            uploads.append(sum(each.status().uploads for each in agents))
    trace = fb.simulate(recipe, WORLD, rounds=ROUNDS)
    expected_arms, expected_uploads, server = simulated(recipe)
    assert_array_equal(arms, trace.arm)
    assert_array_equal(arms, expected_arms)
    assert_array_equal(uploads, trace.uploads)
    assert_array_equal(uploads, expected_uploads)
    found = stored(store_url)
    assert (found.count, found.version) == (server.count, server.version)
    assert_array_equal(found.moment, server.moment)
    if isinstance(found.summary, fb.Sketch) and isinstance(server.summary, fb.Sketch):
        assert_array_equal(found.summary.rows, server.summary.rows)
        assert found.summary.shed == server.summary.shed
    if isinstance(found.summary, fb.Gram) and isinstance(server.summary, fb.Gram):
        assert_array_equal(found.summary.matrix, server.summary.matrix)


def test_the_real_coordinator_through_a_proxy_that_cuts_and_copies(
    store_url: str, tmp_path: Path
) -> None:
    d = 60
    recipe = fb.FSCLB(dimension=d, sketch_size=3, agents=2)
    with (
        private_coordinator(store_url, model="news", recipe=recipe) as url,
        between(int(url.rpartition(":")[2]), seed=11) as proxy,
    ):
        proxy.calm = True
        with fb.connect(proxy.url, model="news", agent="a", state_dir=tmp_path / "a") as agent:
            proxy.calm = False
            for i in range(d):
                agent.reward(agent.decide(np.eye(d)[i : i + 1]).id, 1.0)
                agent.sync(timeout=0.02)
            proxy.calm = True
            assert agent.sync(everything=True, timeout=30.0)
    found = stored(store_url)
    assert found.count == d
    assert_array_equal(found.moment, np.ones(d))
