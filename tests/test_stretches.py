"""Playing many rounds at a time is playing them one by one, to the last bit."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import errors, wire
from fedbandit.simulation import window
from fedbandit.testing import ChangingArms
from fedbandit.worlds import World
from tests.core.builds import D, M, every_recipe

WORLDS: dict[str, World] = {
    "isotropic": fb.worlds.Synthetic(dimension=D, arms=4, agents=M, noise=0.1, seed=5),
    "one agent of many rounds": fb.worlds.Synthetic(dimension=D, arms=9, agents=1, seed=6),
    "steep": fb.worlds.Synthetic(
        dimension=D, arms=5, agents=M, seed=7, spectrum="power-law", mean=2.0
    ),
    "changing": ChangingArms(dimension=D, agents=M, seed=8),
}


def one_by_one(recipe: fb.Recipe, world: World, rounds: int) -> dict[str, list[float]]:
    """Play as the documentation of ``Agent`` says: choose, observe, carry messages."""
    agents, server = recipe.fleet(), recipe.server()
    seen: dict[str, list[float]] = {name: [] for name in ("arm", "uploads", "bytes", "regret")}
    uploads, size, regret = 0, 0, 0.0
    for this in world.rounds(rounds):
        arm = agents[this.agent].choose(this.arms)
        first = agents[this.agent].observe(arm, float(this.rewards[arm]))
        waiting = [] if first is None else [first]
        while waiting:
            upload = waiting.pop(0)
            uploads, size = uploads + 1, size + len(wire.encode(upload))
            for answer in server.receive(upload):
                size += len(wire.encode(answer.message))
                more = agents[answer.agent].receive(answer.message)
                waiting += [] if more is None else [more]
        regret += float(this.means.max() - this.means[arm])
        for name, value in zip(seen, (arm, uploads, size, regret), strict=True):
            seen[name].append(value)
    return seen


@every_recipe
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_simulation_is_the_loop_of_choose_and_observe(
    recipe: fb.Recipe, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_LONGEST", 61)  # so that agents go on in a later window
    expected = one_by_one(recipe, world, 200)
    trace = fb.simulate(recipe, world, rounds=200)
    for name, column in expected.items():
        assert_array_equal(getattr(trace, name), column, err_msg=name)


@every_recipe
def test_an_agent_that_played_is_one_that_chose_and_observed(recipe: fb.Recipe) -> None:
    """Whatever is saved is the same, after every stretch, and so is every upload."""
    rng = np.random.default_rng(3)
    theta = rng.standard_normal(D)
    played, stepped = recipe.agent(0), recipe.agent(0)
    servers = recipe.server(), recipe.server()
    for many in (1, 2, 7, 40, 90):
        arms = rng.standard_normal((many, 4, D))
        rewards = arms @ theta + 0.1 * rng.standard_normal((many, 4))
        at = 0
        while at < many:
            stretch = played.play(arms[at:], rewards[at:])
            upload = None
            for arm in stretch.arms.tolist():
                assert upload is None
                assert stepped.choose(arms[at]) == arm
                upload = stepped.observe(arm, float(rewards[at, arm]))
                at += 1
            assert (upload is None) == (stretch.upload is None)
            if upload is not None and stretch.upload is not None:
                assert wire.encode(upload) == wire.encode(stretch.upload)
                for each, sent, server in zip(
                    (played, stepped), (stretch.upload, upload), servers, strict=True
                ):
                    for answer in server.receive(sent):
                        if answer.agent == 0:
                            each.receive(answer.message)
            assert_same_state(played, stepped)


@pytest.mark.parametrize("rank", [1, 2, 6])
def test_a_sketch_that_is_full_sheds_as_it_does_one_by_one(rank: int) -> None:
    """Long enough for its rows to be made orthogonal afresh, which is every 256 updates."""
    recipe = fb.FSCLB(dimension=6, sketch_size=4, agents=1, alpha=1e300)
    rng, rounds = np.random.default_rng(rank), 600
    arms = rng.standard_normal((rounds, 3, rank)) @ rng.standard_normal((rank, 6))
    rewards = rng.standard_normal((rounds, 3))
    played, stepped = recipe.agent(0), recipe.agent(0)
    chosen, upload = played.play(arms, rewards)
    assert (len(chosen), upload) == (rounds, None)
    for t in range(rounds):
        assert stepped.choose(arms[t]) == chosen[t]
        stepped.observe(int(chosen[t]), float(rewards[t, chosen[t]]))
    assert_same_state(played, stepped)


def assert_same_state(one: fb.Agent, other: fb.Agent) -> None:
    before, after = one.state(), other.state()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert_array_equal(value, after[name], err_msg=name)
    assert one.probability == other.probability


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
)
def test_however_rounds_fall_to_agents_and_windows(
    turns: list[int], longest: int, seed: int
) -> None:
    world = Turns(tuple(turns), seed)
    recipe = fb.FSCLB(dimension=3, sketch_size=2, agents=5, cadence="buffered", alpha=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "_LONGEST", longest)
        patch.setattr(window, "_SHORT", 1)
        trace = fb.simulate(recipe, world, rounds=len(turns))
    expected = one_by_one(recipe, world, len(turns))
    for name, column in expected.items():
        assert_array_equal(getattr(trace, name), column, err_msg=name)


@dataclass(frozen=True)
class Turns:
    """Agents in this order, on random arms."""

    turns: tuple[int, ...]
    seed: int

    dimension, agents = 3, 5

    def rounds(self, n: int) -> Iterator[fb.Round]:
        rng = np.random.default_rng(self.seed)
        for agent in self.turns[:n]:
            arms, rewards = rng.standard_normal((2, 3)), rng.standard_normal(2)
            yield fb.Round(agent, arms, rewards, rewards)


BAD = {
    "features": (np.nan, 1.0, errors.InvalidArms),
    "large features": (1e80, 1.0, errors.InvalidArms),
    "reward": (1.0, np.inf, errors.InvalidReward),
}


UPLOAD_LATE = {
    "FSCLB": fb.FSCLB(dimension=2, sketch_size=2, agents=1, alpha=1e9),
    "FSCLB.lean": fb.FSCLB.lean(dimension=2, agents=1, alpha=1e9),
    "FedLinUCB": fb.FedLinUCB(dimension=2, agents=1, alpha=1e9),
    "Random": fb.Random(dimension=2),
}


@pytest.mark.parametrize("recipe", UPLOAD_LATE.values(), ids=UPLOAD_LATE)
@pytest.mark.parametrize(("feature", "reward", "error"), BAD.values(), ids=BAD)
def test_bad_rounds_raise_as_choose_and_observe_do(
    recipe: fb.Recipe, feature: float, reward: float, error: type[Exception]
) -> None:
    arms, rewards = np.ones((5, 2, 2)), np.zeros((5, 2))
    arms[3, :, 0], rewards[3] = feature, reward
    with pytest.raises(error):
        recipe.agent(0).play(arms, rewards)
    with pytest.raises(errors.InvalidReward, match=r"play, rewards: .* shape \(5, 3\)"):
        recipe.agent(0).play(np.ones((5, 2, 2)), np.zeros((5, 3)))
