"""Groups that are watched, without a store: what liars of every kind cannot do, over time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.summary import Gram
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.membership import key_of
from fedbandit.service.groups.rewards import believed, noise_for_fewer, noise_of, shown_by_several
from fedbandit.service.groups.sums import GroupSum, nothing, sum_of, tempered
from fedbandit.service.groups.telling import as_told
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.wire import encode
from tests.service.groups.fleet import RECIPES, THETA, D, Fleet, each_recipe, fakes, lie, observed


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("length", [1.0, 1e3, 1e6])
def test_one_that_outweighs_all_others_is_not_taken_for_certain(length: float, mode: bool) -> None:
    """Its rewards are what was estimated, so that nothing but its mass gives it away."""
    recipe = RECIPES["FedLinUCB"]
    fleet, x = Fleet(recipe, watched=mode), np.eye(D)[0]
    before, at = fleet.knows(), fleet.server.theta
    known = float(before.reading.squared_widths(x[None])[0])
    arms = 1e4 * length**2 * np.eye(D)
    sent = fleet.send(3, fb.Upload(0, fb.Statistics(Gram(arms), arms @ at, 60_000)))
    assert sent[24_003]
    for _ in range(2):
        after = fleet.knows()
        assert float(after.reading.squared_widths(x[None])[0]) > 0.5 * known
        assert np.linalg.norm(after.theta - before.theta) < 0.1
        fleet.restart()


@each_recipe
def test_one_that_says_first_that_everything_is_known_is_found_out_once_others_are_heard(
    recipe: fb.Recipe,
) -> None:
    """Nothing that they see counts beside it: they are heard because they were not for long."""
    fleet, x = Fleet(recipe, watched=True, honest=0), THETA / np.linalg.norm(THETA)
    for upload in fakes(recipe, 10_000):
        fleet.send(12, upload)
    assert fleet.knows().theta @ x < -0.3
    for number in range(36):
        fleet.send(number % 12, observed(recipe, number))
    known = fleet.knows()
    assert known.theta @ x > 0.6 * np.linalg.norm(THETA)  # FSCLB's shed makes it shorter
    assert float(known.reading.squared_widths(x[None])[0]) > 1e-3


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("squares", [0.0, 1100.0, 1e12])
def test_sums_of_rewards_that_one_group_made_up_change_nobodys_radius_much(
    squares: float, mode: bool
) -> None:
    recipe = RECIPES["lean"]
    fleet = Fleet(recipe, watched=mode)
    before, nothing_seen = fleet.radius(), recipe.parts.memory.empty()
    rewards = Rewards(10_000, 0.0, squares)
    fleet.send(3, fb.Upload(0, replace(nothing_seen, count=10_000, rewards=rewards)))
    assert before / 2.0 < fleet.radius() < 2.0 * before


@given(
    honest=st.lists(st.floats(0.5, 2.0), min_size=12, max_size=24),
    lies=st.lists(st.tuples(st.integers(1, 10**9), st.floats(0.0, 1e30)), max_size=3),
)
def test_few_groups_cannot_make_the_mean_of_squares_what_they_like(
    honest: list[float], lies: list[tuple[int, float]]
) -> None:
    sums = [Rewards(100, 0.0, 100.0 * mean) for mean in honest]
    sums += [Rewards(count, 0.0, squares) for count, squares in lies]
    some = [False] * len(sums)
    noise = noise_of(sums, explained=np.zeros(len(sums)), trusted=some)
    assert noise is not None
    true, most = float(np.mean(honest)), (1 + len(lies)) * 1.01
    assert true / most <= noise <= most * true
    if not lies:
        assert np.isclose(noise, true)


@pytest.mark.parametrize("trusted", [0, 1])
@pytest.mark.parametrize("paid", [0, 1, 3, 7, 8])
def test_one_group_does_not_make_up_the_noise_where_few_have_had_a_reward(
    paid: int, trusted: int
) -> None:
    """``paid`` groups had one reward of 1 in 100, a liar 100 of 10; a log is none of them."""
    nobody, liar = Rewards(100), Rewards(100, 1000.0, 1e4)
    sums = [Rewards(100, 1.0, 1.0)] * (paid + trusted) + [liar] + [nobody] * 17
    past = [n < trusted for n in range(len(sums))]
    found = noise_of(sums, explained=np.zeros(len(sums)), trusted=past)
    if not paid:
        assert found is None  # nobody can tell who is right
    else:
        assert found is not None
        assert found <= 2.01 * (paid + trusted) / (100 * (len(sums) - 1))


def test_sums_are_told_as_they_are_where_they_say_about_as_much() -> None:
    whole = Rewards(100, 10.0, 66.0)
    assert believed(whole, noise=0.012, explained=0.65) is whole
    assert believed(whole, noise=0.014, explained=0.64) is whole
    told = believed(whole, noise=0.01, explained=0.1)  # theta explains only what is told
    assert told.squares == pytest.approx(11.0)
    assert abs(told.total) <= np.sqrt(told.count * told.squares)
    assert noise_of([Rewards(9, 9.0, 9.0)] * 9, explained=np.full(9, 9.5), trusted=[False] * 9) == 0


@given(mass=st.floats(1e-3, 1e30), trusted=st.booleans())
def test_no_sum_leaves_the_others_without_digits(mass: float, trusted: bool) -> None:
    memory = RECIPES["FedLinUCB"].parts.memory
    sums = [sum_of(memory, observed(RECIPES["FedLinUCB"], n).statistics) for n in range(5)]
    large = replace(nothing(memory), matrix=mass / D * np.eye(D), moment=np.full(D, mass))
    *others, last = tempered([*sums, large], ridge=1.0, trusted=[False] * 5 + [trusted])
    assert all(one is other for one, other in zip(others, sums, strict=True))
    median = float(np.median([each.mass for each in [*sums, large]]))
    assert trusted or last.mass <= 1.01e4 * max(each.mass for each in sums)
    if trusted or mass <= 1e4 * median / 2.0:
        assert last is large
    assert np.allclose(last.moment / last.mass, large.moment / large.mass)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("below", [0.0, 1e-12])
def test_a_matrix_that_rounding_made_indefinite_is_not_told_as_it_is(
    below: float, mode: bool
) -> None:
    """The door takes that for rounding of 10,000 observations; other groups have many, too."""
    recipe, x, rng = RECIPES["FedLinUCB"], np.eye(D)[5], np.random.default_rng(0)
    fleet = Fleet(recipe, watched=mode, honest=0)
    for number in range(23):
        arms = 300.0 * rng.standard_normal((40, D)) * (np.arange(D) < 2)
        matrix = arms.T @ arms
        moment = arms.T @ (0.3 * arms[:, 0] + rng.standard_normal(40))
        fleet.send(number, fb.Upload(0, fb.Statistics(Gram(matrix), moment, 40)))
    told = 1e12 * np.diag(x)
    told[2:5, 2:5] = below * told[5, 5] * (2.0 * np.eye(3) - np.ones((3, 3)))
    assert np.isclose(np.linalg.eigvalsh(told)[0], -below * told[5, 5], atol=1e-3)
    fleet.send(23, fb.Upload(0, fb.Statistics(Gram(told), np.zeros(D), 10_000)))
    assert float(fleet.knows().reading.squared_widths(x[None])[0]) > 0.9


@pytest.mark.parametrize("mode", [True, False])
def test_a_lie_is_weighed_while_nobody_had_a_reward(mode: bool) -> None:
    """No noise excuses anybody then, and a lie is larger than any number times that."""
    recipe = RECIPES["FedLinUCB"]
    fleet, one = Fleet(recipe, watched=mode, honest=0), np.eye(D)
    for number in range(20):
        arms = 40.0 * np.diag(one[number % D])
        nothing_paid = fb.Statistics(Gram(arms), np.zeros(D), 40, Rewards(40))
        fleet.send(number, fb.Upload(0, nothing_paid))
    lie_told = fb.Statistics(Gram(100.0 * np.diag(one[0])), -9e7 * one[0], 100)
    fleet.send(23, fb.Upload(0, lie_told))
    assert fleet.server.theta[0] < -1e5
    assert np.abs(fleet.knows().theta).max() < 1e-3


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("name", ["FedLinUCB", "lean"])
@pytest.mark.parametrize("seed", range(3))
def test_who_alone_sees_a_feature_is_told_it_whatever_another_says_of_it(
    seed: int, name: str, mode: bool
) -> None:
    """The liar fits the others in all else; a small share of what the owner sent is weighed."""
    recipe, rng = RECIPES[name], np.random.default_rng(seed)
    fleet, own = Fleet(recipe, watched=mode, honest=0), np.eye(D)[5]
    theta = np.append(rng.standard_normal(5) / 4.0, 0.7)

    def others(count: int) -> Array:
        arms = rng.standard_normal((count, D)) * (np.arange(D) < 5)
        return np.asarray(arms / np.linalg.norm(arms, axis=1, keepdims=True))

    def paid(arms: Array) -> Array:
        return np.asarray(arms @ theta + 0.05 * rng.standard_normal(len(arms)))

    fleet.observed(0, np.tile(own, (60, 1)), paid(np.tile(own, (60, 1))))
    for number in range(1, 16):
        fleet.observed(number, some := others(60), paid(some))
    lies = np.vstack([some := others(60), np.tile(own, (12, 1))])
    fleet.observed(23, lies, np.append(paid(some), -np.ones(12)))
    key = key_of(24, 0)
    named = [each.key for each in fleet.groups.standing_out(fleet.server) if each.contradicts]
    assert key not in named
    told = fleet.groups.told_to(fleet.server, key)
    assert as_told(recipe, fleet.server, told).theta @ own > 0.55


def heavier(fleet: Fleet, share: float, turned: float = 0.0) -> None:
    """Let one group get this share of all mass, with the estimate turned by so much."""
    held = sum(fleet.groups._sums.masses.values())
    mine = fleet.groups._sums.masses[24, 3]
    arms = np.eye(D) * (share * held - mine) / (1.0 - share) / D
    paid = arms @ ((1.0 - turned) * fleet.server.theta)
    fleet.send(3, fb.Upload(0, fb.Statistics(Gram(arms), paid, 10_000)))


@pytest.mark.parametrize("share", [0.08, 0.15, 0.23])
def test_who_has_more_mass_turns_the_estimate_no_harder_than_others(share: float) -> None:
    """By as much as chance explains, so that it is not found out."""
    fleet = Fleet(RECIPES["FedLinUCB"], watched=True, honest=72, many=18)
    before = fleet.server.theta
    heavier(fleet, share, turned=0.1)
    assert not fleet.groups.standing_out(fleet.server)
    moved, told = before - fleet.server.theta, before - fleet.knows().theta
    assert told @ before < 0.6 * moved @ before


@pytest.mark.parametrize(("share", "heavy"), [(0.23, False), (0.28, True)])
def test_a_quarter_of_all_mass_stands_out(share: float, heavy: bool) -> None:
    """Of sixteen groups or more; with what was estimated anyway."""
    fleet = Fleet(RECIPES["FedLinUCB"], watched=True, honest=72, many=18)
    heavier(fleet, share)
    assert fleet.groups._alarmed == heavy
    assert [each.key for each in fleet.groups.standing_out(fleet.server)] == [24_003] * heavy
    for each in fleet.groups.standing_out(fleet.server):
        assert not each.contradicts
        assert np.isclose(each.share, share)


@each_recipe
def test_what_restarts_hide_of_a_lone_sender_is_nothing(recipe: fb.Recipe) -> None:
    """While others have not sent, there is nothing to hold its sum against: all is stored."""
    fleet = Fleet(recipe, watched=True, honest=0)
    for number in range(10):
        fleet.send(12, observed(recipe, number))
    for _ in range(20):
        for upload in fakes(recipe, 30):
            fleet.send(12, upload)
        fleet.restart()
    for number in range(48):
        fleet.send(number % 12, observed(recipe, number))
    assert fleet.told
    assert np.linalg.norm(fleet.knows().theta - THETA) < 0.4 * np.linalg.norm(THETA)


@each_recipe
def test_what_was_just_told_is_not_read_again_and_is_the_same(recipe: fb.Recipe) -> None:
    """Bit for bit as from its bytes; of bytes from a store, the state is not known."""
    fleet = Fleet(recipe, watched=True)
    fleet.send(3, lie(recipe))
    for told in (fleet.told, fleet.groups.told_to(fleet.server, key_of(24, 3))):
        read = as_told(recipe, fleet.server, told)
        server, state = fleet.groups.opened(fleet.server, told)
        assert encode(server.download()) == encode(read.download())
        assert state in (None, told)
        assert fleet.groups.opened(fleet.server, bytes(bytearray(told)))[1] is None
    assert state == encode(server.whole())  # of the last
    assert fleet.groups.opened(fleet.server, b"") == (fleet.server, None)
    fleet.groups._time.saved = -5.0  # so that it is told once more, as a later version
    fleet.send(4, observed(recipe, 400))
    for _ in range(2):
        server, state = fleet.groups.opened(fleet.server, fleet.told)
        assert server.version == fleet.server.version
        assert state is None or state == encode(server.whole())


class Clock:
    """Each look at it takes a twentieth of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.05
        return self.now


@each_recipe
def test_a_coordinator_that_shares_a_model_tells_what_the_other_found_and_is_not_in_debt(
    recipe: fb.Recipe,
) -> None:
    """It reads each time that the other has merged; and looks once it has time to."""
    clock = Clock()
    fleet = Fleet(recipe, watched=True, clock=clock)
    clean, at = dict(fleet.stored), fleet.knows().theta
    clock.now += 100.0
    for _ in range(3):
        fleet.send(3, lie(recipe))
    assert fleet.told
    other = WeighedGroups(recipe, watched=True, clock=clock)
    for number in range(60):
        carried = as_told(recipe, fleet.server, fleet.told).statistics
        other.read(fleet.stored, 0.0, carried)
        upload = observed(recipe, number)
        fleet.server.receive(upload)
        fleet.stored |= other.absorb([(key_of(24, number % 12), upload.statistics)], 0.0)
        fleet.told = other.told(fleet.server)
        assert np.linalg.norm(fleet.knows().theta - at) < 0.2
    other.read(clean)  # the liar is taken out
    clock.now += 10.0
    second = lie(recipe)
    server = recipe.server()
    for number in range(24):
        server.receive(observed(recipe, number))
    for _ in range(3):
        server.receive(second)
        other.absorb([(key_of(24, 5), second.statistics)], 0.0)
        clock.now += 10.0
    assert other.told(server)


@each_recipe
def test_a_lie_that_is_taken_back_before_anybody_looks_is_told_to_nobody(recipe: fb.Recipe) -> None:
    """Looks cost time that is not there: what came since the last one is not told."""
    clock = Clock()
    fleet = Fleet(recipe, watched=True, honest=36, clock=clock)
    clock.now += 1000.0
    fleet.send(4, observed(recipe, 99))
    at = fleet.knows().theta
    fleet.groups._time.saved = -0.5  # as after looks that took long
    for _ in range(3):
        fleet.send(3, lie(recipe))
        assert fleet.server.theta @ THETA < 0.5 * at @ THETA
        assert np.linalg.norm(fleet.knows().theta - at) < 0.05
    other = WeighedGroups(recipe, watched=True, clock=clock)
    known = as_told(recipe, fleet.server, fleet.told).statistics
    other.read(fleet.stored, 0.0, known, fleet.server.statistics)
    other._time.saved = -0.5  # neither does another coordinator
    assert np.allclose(as_told(recipe, fleet.server, other.told(fleet.server)).theta, at, atol=0.05)
    clock.now += 1000.0
    fleet.send(5, observed(recipe, 98))
    assert np.linalg.norm(fleet.knows().theta - THETA) < 0.4 * np.linalg.norm(THETA)


@pytest.mark.parametrize("key", [key_of(24, 3), key_of(1, 0)])
def test_who_plays_better_arms_than_the_others_takes_no_noise_away(key: int) -> None:
    """A group with a fifth of all mass, or a log with most of it, where rewards are larger."""
    recipe, rng = RECIPES["lean"], np.random.default_rng(3)
    fleet = Fleet(recipe, watched=True, honest=36)
    before, x = fleet.radius(), 3.0 * THETA / np.linalg.norm(THETA)
    usual = fleet.server.statistics.rewards
    agent = recipe.agent(0)
    for _ in range(30 if key == key_of(24, 3) else 300):
        agent.observe(x, float(x @ THETA + 0.1 * rng.standard_normal()))
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    fleet.send_to(key, fb.Upload(0, upload.statistics))
    rewards = fleet.server.statistics.rewards
    assert rewards.squares / rewards.count > 1.7 * usual.squares / usual.count
    assert 0.5 * before < fleet.radius() < 2.0 * before


@given(size=st.floats(0.05, 1e4), groups=st.integers(8, 24))
def test_directions_that_one_group_shows_alone_lower_no_radius(size: float, groups: int) -> None:
    d, ridge, length = 40, 1.0, 0.7
    rng = np.random.default_rng(groups)

    def piece(rows: Array) -> GroupSum:
        return GroupSum(np.zeros((d, d)), rows, np.zeros(d), np.zeros(d), len(rows))

    def shown(sums: list[GroupSum]) -> float:
        whole = sum((one.square for one in sums), ridge * np.eye(d))
        return d - ridge * float(np.linalg.inv(whole).trace())

    honest = [piece(rng.standard_normal((30, d)) * (np.arange(d) < 3)) for _ in range(groups - 1)]
    told = [piece(np.sqrt(size) * np.eye(d)), *honest]
    several = shown_by_several(told, ridge=ridge, trusted=[False] * groups)
    assert 2.8 < several <= shown(honest)
    more = noise_for_fewer(told=shown(told), shown=several, ridge=ridge, length=length)
    if more:
        radius = 2.0 * length * np.sqrt(ridge / np.array([shown(told), several]))
        assert np.isclose(more + radius[0], radius[1])
    else:
        assert shown(told) <= 1.5 * several
