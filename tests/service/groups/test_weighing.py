"""Groups that contradict the others count less; honest ones lose nothing by being looked at."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.statistics import NO_REWARDS, Rewards
from fedbandit.service.groups.sums import GroupSum, nothing, packed, sum_of, unpacked
from fedbandit.service.groups.telling import moment_for
from fedbandit.service.groups.weighing import Weighed, weigh

RIDGE = 1.0
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=6, sketch_size=4, agents=3),
    "averaged": fb.FSCLB(dimension=6, sketch_size=4, agents=3, estimate="averaged"),
    "int8": fb.FSCLB(dimension=6, sketch_size=4, agents=3, estimate="corrected", wire="int8"),
    "FedLinUCB": fb.FedLinUCB(dimension=6, agents=3),
    "lean": fb.FSCLB.lean(dimension=6, agents=3),
    "lean, few rows": fb.FSCLB.lean(dimension=6, agents=3, sketch_size=3, server_size=5),
    "many features": fb.FSCLB.lean(dimension=150, agents=3),
}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def told_sum(arms: Array, rewards: Array) -> GroupSum:
    """What a group sent, as it is."""
    n, d = arms.shape
    sums = Rewards(n, float(rewards.sum()), float(rewards @ rewards))
    return GroupSum(arms.T @ arms, np.zeros((0, d)), np.zeros(d), rewards @ arms, n, sums)


def everything(sums: list[GroupSum]) -> GroupSum:
    """The sum of all groups, in full."""
    square, moment = sum(each.square for each in sums), sum(each.moment for each in sums)
    assert isinstance(square, np.ndarray)
    assert isinstance(moment, np.ndarray)
    d, count = len(moment), sum(each.count for each in sums)
    return GroupSum(square, np.zeros((0, d)), np.zeros(d), moment, count)


def estimate(sums: list[GroupSum]) -> Array:
    """The estimate from everything."""
    whole = everything(sums)
    solved = np.linalg.solve(RIDGE * np.eye(len(whole.moment)) + whole.square, whole.moment)
    return solved.astype(np.float64)


def weighed(sums: list[GroupSum]) -> Weighed:
    """What is found of groups."""
    return weigh(sums, ridge=RIDGE)


def honest(rng: np.random.Generator, theta: Array, counts: list[int], rank: int) -> list[GroupSum]:
    """Groups whose arms lie in spaces of their own, with noise of 0.1."""
    found = []
    for count in counts:
        basis = np.linalg.qr(rng.standard_normal((len(theta), rank)))[0]
        arms = rng.standard_normal((count, rank)) @ basis.T / np.sqrt(rank)
        found.append(told_sum(arms, arms @ theta + 0.1 * rng.standard_normal(count)))
    return found


@pytest.mark.parametrize("rank", [3, 12], ids=["own", "shared"])
@pytest.mark.parametrize("heavy", [1, 200])
def test_honest_groups_are_not_doubted_whatever_they_saw_and_however_much(
    heavy: int, rank: int
) -> None:
    doubted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        counts = [heavy * 20, *rng.integers(5, 60, size=15).tolist()]
        sums = honest(rng, rng.standard_normal(12) / 3.0, counts, rank)
        doubted += bool(weighed(sums).doubted.any())
    # of 60; one that has half of all mass, all of it in three directions, is doubted in 6 % of 400
    assert doubted <= (6 if heavy > 1 and rank < 12 else 3)


def uncentred(rng: np.random.Generator, theta: Array, count: int, noise: float) -> GroupSum:
    """A group whose features are raw numbers from 0 to 1: all arms have much in common."""
    arms = rng.random((count, len(theta))) / np.sqrt(len(theta))
    return told_sum(arms, arms @ theta + noise * rng.standard_normal(count))


@pytest.mark.parametrize("seed", range(5))
def test_a_lie_in_what_arms_do_not_have_in_common_is_doubted(seed: int) -> None:
    """It fits the others along what arms have in common, where nearly all mass is."""
    rng, d, noise = np.random.default_rng(seed), 20, 0.3
    theta = rng.standard_normal(d)
    sums = [uncentred(rng, theta, 200, noise) for _ in range(23)]
    assert not weighed(sums).doubted.any()
    known, at = everything(sums).square, estimate(sums)
    common = np.linalg.eigh(known)[1][:, -1]
    away = -(at - (at @ common) * common)
    u = known @ away / np.linalg.norm(known @ away)
    lie = sums[0].mass * np.outer(common, common) + 0.2 * float(u @ known @ u) * np.outer(u, u)
    moved = noise * np.sqrt(1.5 * d)  # about as far as noise moves theta, all of it one way
    pull = moved * u / np.sqrt(u @ np.linalg.solve(known + lie, u))
    count, rewards = sums[0].count, sums[0].rewards
    told = GroupSum(lie, np.zeros((0, d)), np.zeros(d), lie @ at + pull, count, rewards)
    found = weighed([*sums, told])
    assert found.theta is not None
    assert found.doubted.tolist() == [False] * 23 + [True]
    length = float(np.sqrt((found.theta - at) @ known @ (found.theta - at)))
    assert length < moved / 3.0


@given(seed=st.integers(0, 10_000), lie=st.floats(-2.0, 2.0))
@settings(max_examples=50)
def test_how_features_are_turned_changes_nothing(seed: int, lie: float) -> None:
    """What groups say of each other does not depend on which directions have a name."""
    rng, d = np.random.default_rng(seed), 6
    theta = rng.standard_normal(d) / 2.0
    sums = [uncentred(rng, theta, 80, 0.1) for _ in range(12)]
    sums.append(uncentred(rng, -(10.0**lie) * theta, 80, 0.1))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    turned = [
        replace(each, matrix=turn @ each.square @ turn.T, moment=turn @ each.moment)
        for each in sums
    ]
    one, other = weigh(sums, ridge=1e-6), weigh(turned, ridge=1e-6)
    assert one.theta is not None
    assert other.theta is not None
    assert_allclose(one.weights, other.weights, rtol=1e-2)
    assert_allclose(turn @ one.theta, other.theta, atol=1e-2 * float(np.linalg.norm(one.theta)))


@given(seed=st.integers(0, 10_000), size=st.floats(-2.0, 4.0), mass=st.floats(-2.0, 3.0))
def test_a_group_moves_the_estimate_by_no_more_than_it_contradicts(
    seed: int, size: float, mass: float
) -> None:
    """As V measures lengths, by sqrt(v scale): M is no more than V. By another route than v's."""
    rng, d = np.random.default_rng(seed), 5
    sums = [uncentred(rng, rng.standard_normal(d), 40, 0.1) for _ in range(9)]
    lie = uncentred(rng, 10.0**size * rng.standard_normal(d), 40, 0.1).scaled(10.0**mass)
    each = [*sums, lie]
    v, at = RIDGE * np.eye(d) + everything(each).square, estimate(each)
    pull = lie.moment - lie.square @ at
    moved = np.linalg.solve(v, pull)  # what theta loses if its pull is left out
    found = weigh(each, ridge=RIDGE)
    assert moved @ v @ moved <= pull @ found.inverse @ pull * (1.0 + 1e-9)


@pytest.mark.parametrize("rank", [3, 12], ids=["own", "shared"])
def test_honest_groups_are_told_about_what_everything_says(rank: int) -> None:
    lost = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(12) / 3.0
        sums = honest(rng, theta, [60] * 24, rank)
        told, plain = weighed(sums).theta, estimate(sums)
        assert told is not None
        lost.append(np.linalg.norm(told - theta) / np.linalg.norm(plain - theta))
    assert np.mean(lost) < 1.15


@pytest.mark.parametrize("active", [2, 3, 6, 11])
@pytest.mark.parametrize("lie", [0.0, 1.0])
def test_where_most_groups_have_seen_little_the_others_count_in_full(
    active: int, lie: float
) -> None:
    """A group that counted as much as the median one would count next to nothing."""
    lost, d = [], 12
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta, sums = rng.standard_normal(d) / np.sqrt(d), []
        for count in [500] * active + [5] * (24 - active):
            arms = rng.standard_normal((count, d)) / np.sqrt(d)
            sums.append(told_sum(arms, arms @ theta + 0.5 * rng.standard_normal(count)))
        small = 0.1 * theta[None] / np.linalg.norm(theta)
        found = weighed([*sums, told_sum(small, -lie * small @ theta)])
        assert found.theta is not None
        assert not found.doubted[:active].any()
        lost.append(np.linalg.norm(found.theta - theta) / np.linalg.norm(estimate(sums) - theta))
    assert np.mean(lost) < 1.2


@pytest.mark.parametrize("mute", [0, 14])
def test_nobody_can_have_those_who_have_seen_little_speak_for_all(mute: int) -> None:
    """Neither by much that agrees with them, nor by telling nothing of rewards."""
    lost, d = [], 12
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta, sums = rng.standard_normal(d) / np.sqrt(d), []
        for count in [500] * 8 + [5] * 15:
            arms = rng.standard_normal((count, d)) / np.sqrt(d)
            sums.append(told_sum(arms, arms @ theta + 0.5 * rng.standard_normal(count)))
        sums[9:9] = [replace(each, rewards=NO_REWARDS) for each in sums[9 : 9 + mute]]
        del sums[9 + mute : 9 + 2 * mute]
        much, liar = 3300 / d * np.eye(d), list[GroupSum]()
        for _ in range(4):
            silent = [replace(each, rewards=NO_REWARDS) for each in [*sums, *liar]]
            light = weighed(silent).theta  # by the median: nothing is known of noise
            assert light is not None
            pull = much @ light
            liar = [GroupSum(much, np.zeros((0, d)), np.zeros(d), pull, 3300, NO_REWARDS)]
        found = weighed([*sums, *liar])
        assert found.theta is not None
        lost.append(np.linalg.norm(found.theta - theta) / np.linalg.norm(estimate(sums) - theta))
    assert np.mean(lost) < 1.5


def test_two_that_outweigh_all_others_count_in_full_only_if_those_explain_it() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(12) / np.sqrt(12)
        sums = honest(rng, theta, [60] * 22, 12)
        liars = [told_sum(*_lie(rng, -theta, 5000)) for _ in range(2)]
        found = weighed([*sums, *liars])
        assert found.theta is not None
        assert found.doubted.tolist() == [False] * 22 + [True] * 2
        assert np.linalg.norm(found.theta - theta) < 0.3 * np.linalg.norm(theta)


def _lie(rng: np.random.Generator, theta: Array, count: int) -> tuple[Array, Array]:
    arms = rng.standard_normal((count, len(theta))) / np.sqrt(len(theta))
    return arms, arms @ theta + 0.1 * rng.standard_normal(count)


@given(
    seed=st.integers(0, 10_000),
    groups=st.integers(6, 30),
    share=st.floats(0.0, 0.33),
    mass=st.floats(-3.0, 7.0),
    lie=st.floats(-3.0, 4.0),
    alike=st.booleans(),
)
@settings(max_examples=200)
def test_liars_in_a_third_of_the_groups_move_the_estimate_by_a_few_deviations_of_noise(
    seed: int, groups: int, share: float, mass: float, lie: float, alike: bool
) -> None:
    """Lies of any mass and size, alike or each its own, against groups that see alike."""
    rng, d, n, noise = np.random.default_rng(seed), 4, 400, 0.1
    liars = int(share * groups)
    theta = rng.standard_normal(d)
    good = honest(rng, theta, [n] * (groups - liars), d)
    bad, first = [], rng.standard_normal((n, d))
    for _ in range(liars):
        told = first if alike else rng.standard_normal((n, d))
        length = 10.0**mass * float(np.sqrt(good[0].mass / (told * told).sum()))
        told = length * told if alike else length * told[:, :1] * rng.standard_normal(d)
        bad.append(told_sum(told, told @ (-(10.0**lie) * theta)))
    sums = [*good, *bad]
    found = weighed(sums)
    at = estimate(sums) if found.theta is None else found.theta
    away, known = at - estimate(good), everything(good).square
    assert away @ known @ away <= 9.0 * d * noise**2


def test_a_lie_that_is_hardly_larger_than_noise_is_trusted_less_and_honest_groups_as_ever() -> None:
    liars, others, d = [], [], 12
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta, sums = rng.standard_normal(d) / np.sqrt(d), []
        for n in [100] * 23:
            arms = rng.standard_normal((n, d)) / np.sqrt(d)
            sums.append(told_sum(arms, arms @ theta + rng.standard_normal(n)))
        lie = rng.standard_normal((400, d)) / np.sqrt(d)
        found = weighed([*sums, told_sum(lie, -lie @ theta)])
        liars.append(found.weights[-1])
        others.append(found.weights[:-1].mean())
    assert np.mean(liars) < 0.04  # pulls by a typical group's alone: 0.11
    assert np.mean(others) > 0.85


def test_what_was_merged_before_there_were_groups_counts_by_its_mass() -> None:
    lost = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal(12) / 3.0
        sums = honest(rng, theta, [4000, *[20] * 20], 12)
        past = [True, *[False] * 20]
        told = weigh(sums, ridge=RIDGE, trusted=past).theta
        assert told is not None
        lost.append(np.linalg.norm(told - theta) / np.linalg.norm(estimate(sums) - theta))
    assert np.mean(lost) < 1.1


def one_hot(rng: np.random.Generator, paid: Array, arms: Any) -> GroupSum:
    """A group that played these arms, which pay 1 now and then."""
    rewards = (rng.random(len(arms)) < paid[arms]).astype(np.float64)
    return told_sum(np.eye(len(paid))[arms], rewards)


@pytest.mark.parametrize("events", [1, 5, 40])
def test_those_who_found_one_of_few_rewards_are_not_doubted(events: int) -> None:
    doubted, d, n, groups = 0, 30, 60, 20
    for seed in range(60):
        rng = np.random.default_rng(seed)
        paid = np.full(d, events / (n * groups))
        sums = [one_hot(rng, paid, rng.integers(d, size=n)) for _ in range(groups)]
        doubted += bool(weighed(sums).doubted.any())
    assert doubted <= 3  # of 60


def test_who_says_that_an_arm_pays_which_pays_nobody_else_is_doubted() -> None:
    rng, d = np.random.default_rng(0), 30
    paid = np.full(d, 0.01)
    sums = [one_hot(rng, paid, rng.integers(d, size=300)) for _ in range(20)]
    sums.append(told_sum(np.eye(d)[[7] * 300], np.ones(300)))
    found = weighed(sums)
    assert found.theta is not None
    assert found.weights[-1] < 0.1
    assert estimate(sums)[7] > 0.5
    assert found.theta[7] < 0.1


def test_what_a_group_tells_of_its_rewards_excuses_no_more_than_the_others_noise() -> None:
    rng, d = np.random.default_rng(0), 8
    theta = rng.standard_normal(d) / 3.0
    sums = honest(rng, theta, [200] * 15, d)
    lie = told_sum(np.outer(np.ones(200), theta / np.linalg.norm(theta)), -np.ones(200))
    loud = replace(lie, rewards=Rewards(200, 0.0, 1e12))
    for each in (lie, loud):
        found = weighed([*sums, each])
        assert found.theta is not None
        assert found.weights[-1] < 0.1
        assert np.linalg.norm(found.theta - theta) < 0.1


def test_those_who_have_seen_nothing_make_nobody_else_stand_out() -> None:
    for seed in range(10):
        rng, d = np.random.default_rng(seed), 20
        theta, sums = rng.standard_normal(d) / np.sqrt(d), []
        for _ in range(20):
            arms = rng.standard_normal((100, d)) / np.sqrt(d)
            sums.append(told_sum(arms, (arms @ theta + 1.0) * rng.lognormal(0.0, 1.2, 100)))
        alone, beside = weighed(sums), weighed([*sums, told_sum(np.zeros((1, d)), np.zeros(1))])
        assert_allclose(beside.weights[:-1], alone.weights, rtol=1e-3)  # steps end there
        assert (beside.doubted[:-1] == alone.doubted).all()


def test_those_who_have_seen_nothing_change_nothing() -> None:
    rng, d = np.random.default_rng(0), 6
    theta = rng.standard_normal(d) / 3.0
    sums = honest(rng, theta, [100] * 12, d)
    lie = told_sum(np.outer(np.ones(100), theta / np.linalg.norm(theta)), -np.ones(100))
    silent = [told_sum(np.zeros((5, d)), np.zeros(5))] * 3
    assert not weighed([*sums, *silent]).doubted.any()
    found = weighed([*sums, *silent, lie])
    assert found.theta is not None
    assert np.linalg.norm(found.theta - theta) < 0.1
    assert not weighed(silent * 3).doubted.any()


def test_a_majority_that_has_seen_next_to_nothing_hides_no_liar() -> None:
    rng, d = np.random.default_rng(0), 6
    theta = rng.standard_normal(d) / 3.0
    few = [told_sum(1e-3 * arms, 1e-3 * arms @ theta) for arms in rng.standard_normal((13, 40, d))]
    lie = told_sum(np.outer(np.ones(300), theta / np.linalg.norm(theta)), -np.ones(300))
    found = weighed([*few, *honest(rng, theta, [40] * 10, d), lie])
    assert found.theta is not None
    assert np.linalg.norm(found.theta - theta) < 0.1
    assert found.doubted.tolist() == [False] * 23 + [True]


@pytest.mark.parametrize("times", [1, 15, 1000])
def test_a_liar_that_outweighs_all_others_in_a_direction_does_not_hide_by_it(times: int) -> None:
    """Many features, few observations of each: the estimate from everything fits the liar."""
    rng, d = np.random.default_rng(1), 120
    theta = rng.standard_normal(d)
    theta *= 0.8 / float(np.linalg.norm(theta))
    sums = honest(rng, theta, [100] * 20, d)
    told = 200 * times
    lie = np.sqrt(told) * np.atleast_2d(theta / 0.8)
    rewards = Rewards(told, -float(told), float(told))
    sums.append(replace(told_sum(lie, -np.sqrt(told) * np.ones(1)), count=told, rewards=rewards))
    found = weighed(sums)
    assert estimate(sums) @ theta < 0.0
    assert found.theta is not None
    assert found.theta @ theta > 0.5 * 0.64


def sent(recipe: fb.Recipe, seed: int, count: int = 9) -> fb.Upload:
    """What an agent sends after some observations."""
    agent, rng = recipe.agent(0), np.random.default_rng(seed)
    for arm in rng.standard_normal((count, recipe.dimension)):
        agent.observe(arm / np.linalg.norm(arm), float(rng.uniform(-1, 1)))
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    return upload


@each_recipe
def test_a_sum_is_what_estimates_are_solved_with(recipe: fb.Recipe) -> None:
    memory, server = recipe.parts.memory, recipe.server()
    y = np.random.default_rng(0).standard_normal(recipe.dimension)
    for seed in range(4):
        server.receive(sent(recipe, seed))
        group = sum_of(memory, server.statistics)
        expected = moment_for(recipe, server, y)
        assert_allclose(group.times(y) + memory.ridge * y, expected, rtol=1e-9, atol=1e-9)
        eye = np.eye(recipe.dimension)
        diagonal = [float(group.times(one) @ one) for one in eye]
        assert_allclose(group.diagonal, diagonal, rtol=1e-9, atol=1e-9)
        assert_allclose(group.mass, sum(diagonal))


@each_recipe
def test_sums_of_uploads_add_up_and_are_stored(recipe: fb.Recipe) -> None:
    memory, uploads = recipe.parts.memory, [sent(recipe, seed) for seed in range(5)]
    y = np.random.default_rng(0).standard_normal(recipe.dimension)
    pieces = [sum_of(memory, upload.statistics) for upload in uploads]
    total = nothing(memory).plus(pieces)
    assert_allclose(total.times(y), sum(each.times(y) for each in pieces), rtol=1e-9, atol=1e-9)
    assert_allclose(total.moment, sum(upload.moment for upload in uploads))
    assert total.count == sum(upload.count for upload in uploads)
    back = unpacked(packed(total))
    assert_allclose(back.times(y), total.times(y), rtol=1e-6, atol=1e-5)
    assert np.array_equal(back.moment, total.moment)
    assert back.count == total.count


@pytest.mark.parametrize("d", [20, 150])
def test_a_sum_of_many_rows_loses_nothing(d: int) -> None:
    rng = np.random.default_rng(0)
    total = nothing(fb.FSCLB.lean(dimension=d, agents=3).parts.memory)
    seen = np.zeros((d, d))
    for _ in range(10):
        rows = rng.standard_normal((40, d)) * (np.arange(d) < d - 5)
        piece = GroupSum(None, rows, np.zeros(d), rows[0], 40)
        total, seen = total.plus([piece]), seen + rows.T @ rows
    assert len(total.rows) < d
    assert not total.spread.any()
    assert not total.diagonal_of_v.any()  # of what nobody has tried, nothing is said
    assert_allclose(total.square, seen, rtol=1e-12, atol=1e-12)
