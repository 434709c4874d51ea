"""What hangs on one group is told as uncertain: nobody keeps others from trying an arm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.summary import Gram
from fedbandit.core.parts.radius import Evidence
from fedbandit.service.groups.leaning import less_certain, shifts
from fedbandit.service.groups.sums import GroupSum
from tests.service.groups.fleet import Fleet

RIDGE = 1.0


def group(rng: np.random.Generator, theta: Array, count: int) -> GroupSum:
    """What a group saw, with noise."""
    d = len(theta)
    arms = rng.standard_normal((count, d)) * (rng.random(d) < 0.7)
    rewards = arms @ theta + rng.standard_normal(count)
    return GroupSum(arms.T @ arms, np.zeros((0, d)), np.zeros(d), rewards @ arms, count)


def estimate(sums: list[GroupSum]) -> tuple[Array, Array]:
    """V, and theta by all sums."""
    d = len(sums[0].moment)
    v = RIDGE * np.eye(d) + np.sum([each.square for each in sums], axis=0)
    return v, np.linalg.solve(v, np.sum([each.moment for each in sums], axis=0))


@given(
    seed=st.integers(0, 10_000),
    radius=st.floats(0.05, 5.0),
    lie=st.floats(-3.0, 4.0),
    count=st.integers(1, 200),
)
def test_an_agent_expects_no_less_of_any_arm_than_without_a_group(
    seed: int, radius: float, lie: float, count: int
) -> None:
    """Whatever the group sent, and whatever the arm is."""
    rng, d = np.random.default_rng(seed), 5
    theta = rng.standard_normal(d)
    sums = [group(rng, theta, 20) for _ in range(9)]
    sums.append(group(rng, -(10.0**lie) * theta, count))
    v, at = estimate(sums)
    found, _ = shifts(sums, np.ones(10), at, ridge=RIDGE, trusted=[False] * 10)
    told = less_certain(v, found[-1:], radius=radius)
    arms = rng.standard_normal((200, d))
    wide = np.sqrt((arms @ np.linalg.inv(v) * arms).sum(axis=1))
    wider = np.sqrt((arms @ np.linalg.inv(told) * arms).sum(axis=1))
    without = arms @ (at - found[-1]) + radius * wide / np.sqrt(2.0)
    room = 1e-6 * (1.0 + np.abs(arms @ found[-1]))
    assert (arms @ at + radius * wider >= without - room).all()


def test_a_shift_is_what_the_estimate_would_differ_by_without_the_group() -> None:
    """By another route: solve without it. Up to its share of the ridge."""
    rng, d = np.random.default_rng(0), 4
    theta = rng.standard_normal(d)
    sums = [group(rng, theta, 500) for _ in range(8)]
    _, at = estimate(sums)
    found, lengths = shifts(sums, np.ones(8), at, ridge=RIDGE, trusted=[True] + [False] * 7)
    assert not found[0].any()
    assert lengths[0] == 0.0
    for place in range(1, 8):
        _, other = estimate([*sums[:place], *sums[place + 1 :]])
        assert np.allclose(at - other, found[place], atol=2e-3)


@pytest.mark.parametrize("name", ["FedLinUCB", "lean"])
def test_few_observations_do_not_keep_others_from_an_arm_that_few_have_tried(name: str) -> None:
    """Ten arms that are known, and a new one: tried five times, and spoken against within noise."""
    d, rng = 11, np.random.default_rng(0)
    recipe = (
        fb.FedLinUCB(dimension=d, agents=50, alpha=1e9)
        if name == "FedLinUCB"
        else fb.FSCLB.lean(dimension=d, agents=50, alpha=1e9)
    )
    fleet = Fleet(recipe, watched=True, honest=0)
    pays = np.append(np.linspace(0.1, 0.4, 10), 0.5)

    def tried(group_number: int, arms: list[int], rewards: Array | None = None) -> None:
        agent = recipe.agent(0)
        for place, arm in enumerate(arms):
            paid = rng.random() < pays[arm] if rewards is None else rewards[place]
            agent.observe(np.eye(d)[arm], float(paid))
        upload = agent.receive(fb.Collect())
        assert isinstance(upload, fb.Upload)
        fleet.send(group_number, fb.Upload(0, upload.statistics))

    for number in range(20):
        tried(number, rng.integers(10, size=100).tolist())
    for number in range(5):
        tried(number, [10], np.array([float(number % 2 == 0)]))
    honest = fleet.server.theta[10]
    tried(23, rng.integers(10, size=100).tolist())
    assert not fleet.groups._alarmed
    tried(23, [10] * 3, np.zeros(3))
    known = fleet.knows()
    evidence = Evidence(
        known.theta, known.statistics.moment, known.statistics.count, known.statistics.rewards
    )
    radius = recipe.parts.radius(known.reading, evidence)
    width = float(np.sqrt(known.reading.squared_widths(np.eye(d)[10:])[0]))
    assert not fleet.groups._alarmed  # no more than noise explains
    assert fleet.server.theta[10] < 0.75 * honest
    assert known.theta[10] + radius * width > honest


def test_a_state_that_rounding_left_without_some_features_is_taken() -> None:
    """Agents refuse a matrix with an entry beside a feature of which there is nothing."""
    d, rng = 20, np.random.default_rng(3)
    recipe = fb.FedLinUCB(dimension=d, agents=50, alpha=1e9)
    fleet = Fleet(recipe, watched=True, honest=0)
    for number in range(24):
        arms = np.eye(d)[rng.integers(d, size=3)]
        matrix, moment = arms.T @ arms, arms.T @ rng.standard_normal(3)
        fleet.send(number, fb.Upload(0, fb.Statistics(Gram(matrix), moment, 3)))
        fleet.knows()
