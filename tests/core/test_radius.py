"""``radius="auto"``: a radius in units of the rewards themselves."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.messages import Collect
from fedbandit.core.parts.radius import Empirical, Evidence
from fedbandit.worlds import Round, World
from tests.core import literal
from tests.core.histories import histories
from tests.core.literal_worlds import M, shifting, synthetic

Array = NDArray[np.float64]
WORLDS: dict[str, World] = {
    "isotropic": synthetic(seed=1),
    "low rank": synthetic(seed=3, spectrum="low-rank", rank=3),
    "long arms": synthetic(seed=5, norm=4.0),
    "clicks": synthetic(seed=6, rewards="clicks", mean=0.2),
    "shifting": shifting,
    "first rewards are 0": fb.worlds.Classification(data="satimage", target=3, agents=M, seed=0),
}
ROUNDS = 300
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


@dataclass(frozen=True)
class Scaled:
    """Another world with every reward multiplied by ``factor``."""

    world: World
    factor: float

    @property
    def dimension(self) -> int:
        return self.world.dimension

    @property
    def agents(self) -> int:
        return self.world.agents

    def rounds(self, n: int) -> Any:
        for who, arms, means, rewards in self.world.rounds(n):
            yield Round(who, arms, self.factor * means, self.factor * rewards)


def dense_radius(arms: Array, rewards: Array, ridge: float) -> float:
    """Return sigma + 2 sqrt(ridge) tau from the observations (n x d and n) themselves."""
    if not rewards.any():
        return 1.0
    n, d = arms.shape
    gram = arms.T @ arms
    hat = arms @ np.linalg.solve(gram + ridge * np.eye(d), arms.T)
    theta = np.linalg.solve(gram + ridge * np.eye(d), arms.T @ rewards)
    sigma = sqrt(rewards @ (np.eye(n) - hat) @ rewards / n)
    if not arms.any():
        return sigma
    return float(sigma + 2 * sqrt(ridge) * np.linalg.norm(theta) / sqrt(np.trace(hat)))


def literal_fedlinucb(rounds: list[Round], *, d: int, alpha: float, ridge: float) -> list[int]:
    """FedLinUCB where the server keeps every observation, and every download is all of them."""
    held: list[list[tuple[Array, float]]] = [[] for _ in range(M)]
    pending: list[list[tuple[Array, float]]] = [[] for _ in range(M)]
    server: list[tuple[Array, float]] = []
    played = []
    for who, arms, _, rewards in rounds:
        x = np.array([x for x, _ in held[who]]).reshape(-1, d)
        r = np.array([r for _, r in held[who]])
        V = ridge * np.eye(d) + x.T @ x
        theta = np.linalg.solve(V, x.T @ r)
        k = literal.ucb(theta, np.linalg.inv(V), dense_radius(x, r, ridge), arms)
        played.append(k)
        pending[who].append((arms[k], float(rewards[k])))
        new = np.array([x for x, _ in pending[who]])
        growth = literal.logdet(V + new.T @ new) - literal.logdet(V)
        if exceeds(growth, np.log(1 + alpha)):
            server += pending[who]
            held[who], pending[who] = list(server), []
    return played


@every_world
@pytest.mark.parametrize(("alpha", "ridge"), [(1.0, 1.0), (0.5, 0.2)])
def test_fedlinucb_plays_what_the_formula_says(world: World, alpha: float, ridge: float) -> None:
    d = world.dimension
    recipe = fb.FedLinUCB(dimension=d, agents=M, alpha=alpha, ridge=ridge, radius="auto")
    trace = fb.simulate(recipe, world, rounds=ROUNDS)
    expected = literal_fedlinucb(list(world.rounds(ROUNDS)), d=d, alpha=alpha, ridge=ridge)
    np.testing.assert_array_equal(trace.arm, expected)


@every_world
def test_a_sketch_that_sheds_nothing_plays_as_fedlinucb(world: World) -> None:
    d = world.dimension
    full = fb.FSCLB(dimension=d, sketch_size=d + 1, agents=M, radius="auto")
    matrix = fb.FedLinUCB(dimension=d, agents=M, radius="auto")
    traces = [fb.simulate(recipe, world, rounds=ROUNDS) for recipe in (full, matrix)]
    np.testing.assert_array_equal(traces[0].arm, traces[1].arm)


BUILDS: dict[str, Callable[[int, float], fb.Recipe]] = {
    "FedLinUCB": lambda d, _: fb.FedLinUCB(dimension=d, agents=M, radius="auto"),
    "FSCLB": lambda d, _: fb.FSCLB(dimension=d, sketch_size=5, agents=M, radius="auto"),
    "FSCLB.lean": lambda d, _: fb.FSCLB.lean(dimension=d, agents=M, radius="auto"),
}
every_build = pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)


@every_build
@every_world
@pytest.mark.parametrize("factor", [10.0, 0.1, 2.0**30])
def test_rewards_of_any_scale_lead_to_the_same_arms(
    build: Callable[[int, float], fb.Recipe], world: World, factor: float
) -> None:
    d = world.dimension
    one = fb.simulate(build(d, 1.0), world, rounds=ROUNDS)
    other = fb.simulate(build(d, factor), Scaled(world, factor), rounds=ROUNDS)
    np.testing.assert_array_equal(one.arm, other.arm)


@every_build
def test_while_all_rewards_are_0_arms_are_those_of_a_constant(
    build: Callable[[int, float], fb.Recipe],
) -> None:
    world = Scaled(synthetic(seed=1), 0.0)
    auto = build(world.dimension, 1.0)
    constant = fb.RECIPES[auto.name](**auto.params | {"radius": 1.0})
    traces = [fb.simulate(recipe, world, rounds=ROUNDS) for recipe in (auto, constant)]
    np.testing.assert_array_equal(traces[0].arm, traces[1].arm)
    assert len(set(traces[0].arm)) > 1


@every_build
def test_agents_know_the_sums_after_every_download_and_restart(
    build: Callable[[int, float], fb.Recipe],
) -> None:
    world = synthetic(seed=2)
    recipe = build(world.dimension, 1.0)
    fleet, server = recipe.fleet(), recipe.server()
    for who, arms, _, rewards in world.rounds(200):
        k = fleet[who].choose(arms)
        upload = fleet[who].observe(k, float(rewards[k]))
        if upload is not None:
            (answer,) = server.receive(upload)
            download = wire.decode(wire.encode(answer.message))
            assert isinstance(download, fb.Download)
            assert download.statistics.rewards == server.statistics.rewards
            fleet[who].receive(download)
            again = fb.Agent.restore(recipe, fleet[who].state())
            assert again.policy.radius == fleet[who].policy.radius
    assert server.statistics.rewards.count == server.count > 100


def test_downloads_tell_sums_only_where_they_are_used() -> None:
    recipe = fb.FSCLB(dimension=4, sketch_size=3, agents=1, wire="int8")
    upload = None
    agent, server = recipe.agent(0), recipe.server()
    while upload is None:
        upload = agent.observe(np.eye(4)[0], 1.0)
    (answer,) = server.receive(upload)
    assert isinstance(answer.message, fb.Download)
    assert answer.message.statistics.rewards == fb.Rewards()


@given(
    arms=histories(dimension=4),
    scale=st.sampled_from([1e-60, 1.0, 1e60]),
    ridge=st.sampled_from([1e-3, 1.0, 50.0]),
    seed=st.integers(0, 99),
)
def test_it_is_what_the_observations_say(
    arms: Array, scale: float, ridge: float, seed: int
) -> None:
    rewards = np.random.default_rng(seed).integers(-2, 3, size=len(arms)).astype(float)
    gram = fb.FedLinUCB(dimension=4, agents=1, ridge=ridge).parts.memory.read(
        fb.Gram(arms.T @ arms)
    )
    moment = arms.T @ (scale * rewards)
    squares = float(scale * rewards @ (scale * rewards))
    evidence = Evidence(
        gram.estimate(moment), moment, len(arms), fb.Rewards(len(arms), 0.0, squares)
    )
    radius = Empirical(ridge)(gram, evidence)
    assert isfinite(radius)
    assert radius > 0.0
    data = float(np.sum(arms**2)) / ridge
    if rewards.any() and (data == 0.0 or data > 1e-4):  # between them d - ridge trace(V^-1) cancels
        one = dense_radius(arms, rewards, ridge)
        # sum r^2 - theta . sum r x cancels where theta explains nearly everything
        loose = sqrt(1e-15 * (1.0 + data) * float(rewards @ rewards))
        assert radius == pytest.approx(scale * one, rel=1e-6, abs=scale * loose)


@given(arms=histories(dimension=8, most=60))
def test_directions_that_a_sketch_shows_are_no_more_than_there_are(arms: Array) -> None:
    """What was shed counts, but not in directions that were never played."""
    arms = arms.copy()
    arms[:, 4:] = 0.0
    recipe = fb.FSCLB(dimension=8, sketch_size=3, agents=1, estimate="averaged", alpha=1e300)
    agent, server = recipe.agent(0), recipe.server()
    for x in arms:
        agent.observe(x, 0.0)
    upload = agent.receive(Collect())
    assert upload is not None
    server.receive(upload)
    shown = recipe.parts.memory.read(server.summary).shown_directions(1.0)
    assert 0.0 <= shown <= 4.0 + 2.0 + 1e-9  # two rows may count again in what was shed


def test_sums_that_were_not_told_leave_the_size_of_theta() -> None:
    """Uploads of version 1 carry no sums of rewards."""
    recipe = fb.FedLinUCB(dimension=3, agents=1, radius="auto")
    agent, server = recipe.agent(0), recipe.server()
    upload = None
    while upload is None:
        upload = agent.observe(np.eye(3)[0], 2.0)
    (answer,) = server.receive(
        replace(upload, statistics=replace(upload.statistics, rewards=fb.Rewards()))
    )
    agent.receive(answer.message)
    n = server.count
    assert agent.policy.radius == pytest.approx(2 * (2 * n / (n + 1)) / sqrt(n / (n + 1)))


def test_a_new_arm_with_a_new_feature_is_found() -> None:
    """After long play an arm that was never seen still gets a bonus on the scale of theta."""
    world = fb.worlds.Late(dimension=12, arms=6, agents=M, at=3000, rank=3, seed=1)
    recipe = fb.FedLinUCB(dimension=12, agents=M, radius="auto")
    noise_alone = replace(recipe, parts=replace(recipe.parts, radius=Empirical(ridge=1e-9)))
    late = []
    for each in (recipe, noise_alone):
        regret = fb.simulate(each, world, rounds=3500).regret
        late.append(regret[-1] - regret[2999])
    assert late[0] < 1.0
    assert late[1] > 10.0


@pytest.mark.parametrize("name", ["AsyncLinUCB", "DisLinUCB", "LinUCB", "Centralised"])
def test_other_recipes_do_not_know_it(name: str) -> None:
    with pytest.raises(fb.errors.LocalError, match="radius"):
        fb.RECIPES[name](dimension=3, agents=2, radius="auto")
