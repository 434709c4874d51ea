"""Agents are told the median of groups, and few liars cannot move it far."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.statistics import Base
from fedbandit.errors import InvalidParameter
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.groups.membership import check_groups, group_of
from fedbandit.service.groups.telling import as_told, geometric_median, told_moment
from fedbandit.service.models import undo
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.opening import open_store
from tests.service.running import client_of, post, state_path

D = 6
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, agents=3, alpha=1e9),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=3, alpha=1e9),
    "averaged": fb.FSCLB(dimension=D, sketch_size=4, agents=3, estimate="averaged", alpha=1e9),
    "lean": fb.FSCLB.lean(dimension=D, agents=3, alpha=1e9),
}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
OFTEN = History(every=1e-9, keep=5, by_agent=True)


@given(
    seed=st.integers(0, 999), honest=st.integers(2, 20), d=st.integers(1, 5), far=st.floats(0, 1e6)
)
def test_less_than_half_of_the_points_cannot_carry_the_median_away(
    seed: int, honest: int, d: int, far: float
) -> None:
    rng = np.random.default_rng(seed)
    good = rng.standard_normal((honest, d))
    bad = good.mean(axis=0) + far * rng.standard_normal((honest - 1, d))
    found = geometric_median(np.vstack([good, bad]))
    centre = good.mean(axis=0)
    radius = float(np.linalg.norm(good - centre, axis=1).max())
    share = (honest - 1) / (2 * honest - 1)  # Lopuhaa and Rousseeuw, 1991
    assert np.linalg.norm(found - centre) <= 2 * (1 - share) / (1 - 2 * share) * radius + 1e-6


def test_the_median_is_where_the_distances_are_least() -> None:
    for seed in range(20):
        points = np.random.default_rng(seed).standard_normal((9, 4))
        found = geometric_median(points)
        least = np.linalg.norm(points - found, axis=1).sum()
        for step in np.random.default_rng(seed).standard_normal((50, 4)):
            assert np.linalg.norm(points - found - 0.01 * step, axis=1).sum() >= least - 1e-7
    assert_allclose(geometric_median(np.ones((4, 3))), np.ones(3))


@each_recipe
def test_what_is_told_gives_the_median_and_the_certainty_of_the_whole(recipe: fb.Recipe) -> None:
    memory, whole = recipe.parts.memory, recipe.server()
    groups = {number: recipe.server() for number in range(5)}
    for seed in range(20):
        upload = fb.Upload(0, _sent(recipe, seed))
        whole.receive(upload)
        groups[seed % 4].receive(upload)  # the fifth has no say
    told = told_moment(recipe, whole, groups)
    thetas = [Base(groups[i].statistics, memory).theta for i in range(4)]
    server = as_told(recipe, whole, told.astype("<f8").tobytes())
    assert_allclose(Base(server.statistics, memory).theta, geometric_median(np.array(thetas)))
    agent = recipe.agent(0)
    agent.receive(server.download())  # its moment may be in float32
    assert_allclose(agent.theta, geometric_median(np.array(thetas)), rtol=1e-6, atol=1e-7)
    assert server.version == whole.version
    assert as_told(recipe, whole, b"") is whole


def _sent(recipe: fb.Recipe, seed: int) -> fb.Statistics:
    agent, rng = recipe.agent(0), np.random.default_rng(seed)
    for arm in rng.standard_normal((7, D)):
        agent.observe(arm / np.linalg.norm(arm), float(rng.uniform(-1, 1)))
    upload = agent.receive(fb.Collect())
    return recipe.parts.memory.empty() if upload is None else upload.statistics


@pytest.mark.parametrize("scale", [1e20, 1e100, 1e149])
@each_recipe
def test_numbers_at_the_end_of_the_range_leave_something_to_tell(
    recipe: fb.Recipe, scale: float
) -> None:
    memory, whole = recipe.parts.memory, recipe.server()
    groups = {number: recipe.server() for number in range(5)}
    for number, group in groups.items():
        sent = _sent(recipe, number)
        group.adopt(memory.merged(memory.empty_server(), [sent], None), version=1)
        whole.receive(fb.Upload(0, sent))
    huge = groups[0].statistics.summary.scaled(1.0)
    wild = fb.Statistics(huge, scale * np.ones(D), 5)
    groups[0].adopt(wild, version=1)
    told = told_moment(recipe, whole, groups)
    others = [Base(groups[number].statistics, memory).theta for number in range(1, 5)]
    server = as_told(recipe, whole, told.astype("<f8").tobytes())
    theta = Base(server.statistics, memory).theta
    assert np.linalg.norm(theta) <= 10.0 * max(np.linalg.norm(each) for each in others)


def test_agents_are_spread_over_the_groups_and_nobody_can_choose() -> None:
    numbers = [group_of(12.5, 8, f"phone-{i}") for i in range(800)]
    assert all(60 < numbers.count(number) < 140 for number in range(8))
    assert numbers != [group_of(12.75, 8, f"phone-{i}") for i in range(800)]
    for wrong in (1, 2, 1000, -1):
        with pytest.raises(InvalidParameter, match="groups"):
            check_groups(wrong)


@each_recipe
def test_a_coordinator_tells_it_restarts_with_it_and_takes_out_of_it(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = open_store(store_url, create=True)
    model, state = new_model("news", recipe, groups=3, weighed=False, history=OFTEN)
    store.create(model, state)
    groups = {number: recipe.server() for number in range(3)}
    whole, answers = recipe.server(), {}
    agents = [f"phone-{i}" for i in range(6)]
    for sequence in (1, 2, 3):
        with client_of(store_url) as client:  # a new coordinator each time
            for agent in agents:
                upload = fb.Upload(0, _sent(recipe, hash_of(agent, sequence)))
                sync = wire.Sync(
                    wire.fingerprint(recipe), agent.encode().ljust(16), sequence, upload
                )
                answers[sequence, agent] = post(client, sync, agent=agent).download
                whole.receive(upload)
                groups[group_of(model.created, 3, agent)].receive(upload)
            joined = client.get(state_path())
            told = wire.decode_joined(joined.content).download
            assert told is not None
            assert wire.encode(told) == wire.encode(answers[sequence, agents[-1]])
        expected = told_moment(recipe, whole, groups).astype("<f8").tobytes()
        told_theta = Base(as_told(recipe, whole, expected).statistics, recipe.parts.memory).theta
        listener = recipe.agent(0)
        listener.receive(told)
        assert_allclose(listener.theta, told_theta, rtol=1e-6, atol=1e-7)
    kept = {agent: [hash_of(agent, s) for s in (1, 2, 3)] for agent in agents[1:]}
    with store.lock("news") as locked:
        undo.forget_agent(locked, agents[0])
    check_told(store_url, recipe, model.created, kept)
    with store.lock("news") as locked:
        undo.roll_back(locked, 0)
    check_told(store_url, recipe, model.created, {})
    archive = read_archive(archive_bytes(store.archive("news")), name="other")
    store.install(archive)
    assert store.archive("other").groups == store.archive("news").groups
    store.close()


def hash_of(agent: str, sequence: int) -> int:
    return 100 * sequence + int(agent[-1])


def check_told(url: str, recipe: fb.Recipe, created: float, kept: dict[str, list[int]]) -> None:
    """What is told is the median of groups of just these uploads."""
    memory, thetas = recipe.parts.memory, []
    for number in range(3):
        sent = [
            _sent(recipe, seed)
            for agent, seeds in kept.items()
            for seed in seeds
            if group_of(created, 3, agent) == number
        ]
        if sent:
            merged = memory.merged(memory.empty_server(), sent, None)
            thetas.append(Base(merged, memory).theta)
    with client_of(url) as client:
        told = wire.decode_joined(client.get(state_path()).content).download
    assert told is not None
    agent = recipe.agent(0)
    agent.receive(told)
    expected = geometric_median(np.array(thetas)) if thetas else np.zeros(D)
    exact = isinstance(told.summary, fb.Gram)
    tolerance = 1e-9 if exact else 0.2  # parts were merged in turns, and may be corrected
    assert_allclose(agent.theta, expected, atol=tolerance)


def test_one_wild_liar_does_not_move_what_agents_are_told(tmp_path: object) -> None:
    recipe = fb.FedLinUCB(dimension=3, agents=3)
    url = f"sqlite:///{tmp_path}/g.db"
    store = open_store(url, create=True)
    store.create(*new_model("news", recipe, groups=9, weighed=False))
    store.close()
    theta = np.array([1.0, 0.5, -0.5])
    with client_of(url) as client:
        for number in range(60):
            rng = np.random.default_rng(number)
            arms = rng.standard_normal((20, 3))
            moment = arms.T @ (arms @ theta + 0.1 * rng.standard_normal(20))
            honest = fb.Statistics(fb.Gram(arms.T @ arms), moment, 20)
            sync = wire.Sync(wire.fingerprint(recipe), bytes(16), 1, fb.Upload(0, honest))
            post(client, sync, agent=f"phone-{number}")
        lie = fb.Statistics(fb.Gram(1e9 * np.eye(3)), -1e9 * theta, 10_000)
        sync = wire.Sync(wire.fingerprint(recipe), bytes(16), 1, fb.Upload(0, lie))
        answer = post(client, sync, agent="liar")
    agent = recipe.agent(0)
    agent.receive(answer.download)
    assert np.linalg.norm(agent.theta - theta) < 0.1
