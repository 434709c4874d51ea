"""What hangs on one group is told as uncertain: nobody keeps others from trying an arm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.summary import Gram
from fedbandit.core.parts.radius import Evidence
from fedbandit.service.groups.certainty import Fair
from fedbandit.service.groups.leaning import TAU, shifts, without_leaning
from fedbandit.service.groups.sums import GroupSum
from tests.service.groups.fleet import Fleet

RIDGE = 1.0


def group(rng: np.random.Generator, theta: Array, count: int, unused: int = 0) -> GroupSum:
    """What a group saw, with noise; of the last features nothing."""
    d = len(theta)
    arms = rng.standard_normal((count, d)) * (rng.random(d) < 0.7) * (np.arange(d) < d - unused)
    rewards = arms @ theta + rng.standard_normal(count)
    return GroupSum(arms.T @ arms, np.zeros((0, d)), np.zeros(d), rewards @ arms, count)


def estimate(sums: list[GroupSum]) -> tuple[Array, Array]:
    """V, and theta by all sums."""
    d = len(sums[0].moment)
    v = RIDGE * np.eye(d) + np.sum([each.square for each in sums], axis=0)
    return v, np.linalg.solve(v, np.sum([each.moment for each in sums], axis=0))


each_lie = given(
    seed=st.integers(0, 10_000),
    radius=st.floats(0.05, 5.0),
    lie=st.floats(-3.0, 4.0),
    count=st.integers(1, 200),
    unseen=st.floats(0.0, 10.0),
)


def with_a_lie(
    seed: int, lie: float, count: int, unseen: float
) -> tuple[Fair, Array, list[GroupSum]]:
    """Nine groups and a liar, who alone knows the last feature; what is told of V, and theta."""
    rng, d = np.random.default_rng(seed), 5
    theta = rng.standard_normal(d)
    sums = [group(rng, theta, 20, unused=1) for _ in range(9)]
    told = group(rng, -(10.0**lie) * theta, count, unused=1)
    beside = unseen * np.eye(d)[-1]
    tiny = told.square + 1e-4 * np.diag(np.eye(d)[-1])
    sums.append(GroupSum(tiny, np.zeros((0, d)), np.zeros(d), told.moment + beside, count))
    v, at = estimate(sums)
    return Fair(at, sums, {}, v), at, sums


@each_lie
def test_no_group_takes_more_than_its_part_of_the_bonus_of_any_arm(
    seed: int, radius: float, lie: float, count: int, unseen: float
) -> None:
    """Beside what is expected of it without that group, whatever it sent and whatever the arm."""
    part, at, sums = with_a_lie(seed, lie, count, unseen)
    found = shifts(sums, np.ones(10), at, ridge=RIDGE, trusted=[False] * 10)
    now = without_leaning(part, at, found[-1:], radius=radius, ridge=RIDGE)
    assert now.told is not None
    arms = np.random.default_rng(seed + 1).standard_normal((200, 5))
    bonus = radius * np.sqrt((arms @ np.linalg.inv(now.told) * arms).sum(axis=1))
    without = arms @ (at - found[-1])
    room = 1e-5 * (1.0 + np.abs(arms @ found[-1]) + np.abs(without))
    assert (arms @ now.theta + bonus >= without + (1.0 - TAU) * bonus - room).all()
    assert (arms @ now.theta <= without + TAU * bonus + room).all()


@each_lie
def test_agents_know_no_more_than_was_told_and_no_less_than_the_ridge(
    seed: int, radius: float, lie: float, count: int, unseen: float
) -> None:
    part, at, sums = with_a_lie(seed, lie, count, unseen)
    found = shifts(sums, np.ones(10), at, ridge=RIDGE, trusted=[False] * 10)
    now = without_leaning(part, at, found, radius=radius, ridge=RIDGE)
    assert now.told is not None
    assert part.told is not None
    slack = 1e-6 * float(part.told.trace())
    assert np.linalg.eigvalsh(now.told - RIDGE * np.eye(5))[0] >= -slack
    assert np.linalg.eigvalsh(part.told - now.told)[0] >= -slack
    assert without_leaning(part, at, found, radius=1e9, ridge=RIDGE) is part
    assert abs(now.theta[-1]) <= TAU * radius * 0.3 + 0.02  # of what nobody else has seen


def test_a_shift_is_what_the_estimate_would_differ_by_without_the_group() -> None:
    """By another route: solve without it."""
    rng, d = np.random.default_rng(0), 4
    theta = rng.standard_normal(d)
    sums = [group(rng, theta, 500) for _ in range(8)]
    _, at = estimate(sums)
    found = shifts(sums, np.ones(8), at, ridge=RIDGE, trusted=[True] + [False] * 7)
    assert not found[0].any()
    for place in range(1, 8):
        _, other = estimate([*sums[:place], *sums[place + 1 :]])
        assert np.allclose(at - other, found[place], atol=1e-9)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", ["FedLinUCB", "lean", "FSCLB"])
def test_tiny_arms_that_nobody_else_has_move_neither_an_estimate_nor_the_radius(
    name: str, watched: bool
) -> None:
    """They weigh next to nothing, and their rewards are as large as any."""
    d, rng = 20, np.random.default_rng(1)
    recipe = {
        "FedLinUCB": fb.FedLinUCB(dimension=d, agents=50, alpha=1e9),
        "lean": fb.FSCLB.lean(dimension=d, agents=50, alpha=1e9),
        "FSCLB": fb.FSCLB(dimension=d, sketch_size=d + 1, agents=50, alpha=1e9),
    }[name]
    fleet = Fleet(recipe, watched=watched, honest=0)

    for number in range(20):
        arms = np.eye(d)[rng.integers(10, size=60)]
        fleet.observed(
            number, arms, arms @ np.linspace(0.1, 0.4, d) + 0.1 * rng.standard_normal(60)
        )
    before, radius = fleet.knows(), fleet.radius()
    weight = 0.005
    tiny = np.sqrt(weight / 100) * np.eye(d)[np.tile(np.arange(10, d), 100)]
    fleet.observed(23, tiny, -np.ones(len(tiny)))
    assert np.abs(fleet.server.theta[10:]).min() > 0.3
    known = fleet.knows()
    assert np.abs(known.theta[10:]).max() < 0.06
    assert np.linalg.norm(known.theta[:10] - before.theta[:10]) < 0.05
    assert fleet.radius() < 1.2 * radius + 0.02


@pytest.mark.parametrize("name", ["FedLinUCB", "lean", "FSCLB"])
def test_few_observations_do_not_keep_others_from_an_arm_that_few_have_tried(name: str) -> None:
    """Ten arms that are known, and a new one: tried five times, and spoken against within noise."""
    d, rng = 11, np.random.default_rng(0)
    recipe = {
        "FedLinUCB": fb.FedLinUCB(dimension=d, agents=50, alpha=1e9),
        "lean": fb.FSCLB.lean(dimension=d, agents=50, alpha=1e9),
        "FSCLB": fb.FSCLB(dimension=d, sketch_size=d + 1, agents=50, alpha=1e9),
    }[name]
    fleet = Fleet(recipe, watched=True, honest=0)
    pays = np.append(np.linspace(0.1, 0.4, 10), 0.5)

    def tried(group_number: int, arms: list[int], rewards: Array | None = None) -> None:
        paid = (rng.random(len(arms)) < pays[arms]).astype(float) if rewards is None else rewards
        fleet.observed(group_number, np.eye(d)[arms], paid)

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
    assert known.theta[10] + radius * width > 1.1 * honest


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


def test_where_nobody_shares_anything_tiny_arms_do_not_blow_an_estimate_up() -> None:
    """Next to no direction is shown by several there, so that a radius by that bounds nothing."""
    d, recipe = 24, fb.FSCLB.lean(dimension=24, agents=24, alpha=1e9)
    fleet, rng = Fleet(recipe, watched=True, honest=0), np.random.default_rng(0)

    for _ in range(2):
        for number in range(19):
            arms = np.repeat(np.eye(d)[number : number + 1], 30, axis=0)
            fleet.observed(number, arms, 0.5 + 0.1 * rng.standard_normal(30))
    weight, most = 0.004 / 12, 100
    tiny = np.sqrt(weight / most) * np.tile(np.eye(d), (most, 1))
    for _ in range(12):
        fleet.observed(23, tiny, -np.ones(len(tiny)))
    assert np.abs(fleet.server.theta).max() > 2.0
    assert np.abs(fleet.knows().theta).max() < 0.005  # 0.008 with a radius of 1,600
