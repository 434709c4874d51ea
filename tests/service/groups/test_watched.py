"""Groups that are watched: nothing changes until one stands out, and then it is left out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.summary import Gram
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.statistics import Base, Rewards
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.rewards import believed
from fedbandit.service.groups.sums import nothing, sum_of, tempered
from fedbandit.service.groups.telling import as_told
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.merge import merge
from fedbandit.service.models import undo
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.relay.upstream import begin
from fedbandit.service.storage.contract import Store
from tests.service.groups.fleet import (
    AGENTS,
    GROUPS,
    LIAR,
    RECIPES,
    THETA,
    D,
    check_shown,
    each_kind,
    each_recipe,
    honest,
    lie,
    made,
    observed,
    send,
    told,
)


def watched(url: str, recipe: fb.Recipe) -> Store:
    return made(url, recipe, watched=True)


def own_theta(store: Store, recipe: fb.Recipe) -> Array:
    """The estimate from everything, as an agent has it that is told the whole as it is."""
    agent = recipe.agent(0)
    agent.receive(server_at(recipe, store.state("news")[1]).download())
    return agent.theta


@each_recipe
def test_an_honest_fleet_is_told_the_whole_bit_for_bit(recipe: fb.Recipe, store_url: str) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    assert np.array_equal(told(store_url, recipe).theta, own_theta(store, recipe))
    assert store.model("news").told == b""
    store.close()


@each_recipe
def test_a_liar_is_left_out_and_named_until_it_is_taken_out(
    recipe: fb.Recipe, store_url: str
) -> None:
    store, sent = watched(store_url, recipe), honest(recipe)
    send(store_url, recipe, sent)
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    assert np.linalg.norm(own_theta(store, recipe) - fair) > 0.3
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    check_shown(store, LIAR)
    send(store_url, recipe, [(AGENTS[0], observed(recipe, 7))], first=2000)  # another coordinator
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    copy = read_archive(archive_bytes(store.archive("news")), name="copy")
    assert (copy.model.watched, copy.model.told) == (True, store.model("news").told)
    with store.lock("news") as locked:
        undo.forget_agent(locked, LIAR)
    assert store.model("news").told == b""
    assert np.array_equal(told(store_url, recipe).theta, own_theta(store, recipe))
    store.close()


@each_kind
def test_few_agents_are_told_the_whole_whatever_they_send(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, [(agent, observed(recipe, 1)) for agent in AGENTS[:6]])
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    assert store.model("news").told == b""
    store.close()


@each_kind
def test_groups_that_were_watched_are_weighed_once_that_is_asked_for(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    for watching in (False, True):
        with store.lock("news") as locked:
            undo.set_groups(locked, GROUPS, watched=watching)
        model = store.model("news")
        assert (model.weighed, model.watched, model.told == b"") == (True, watching, watching)
    store.close()


def test_a_relay_passes_on_a_model_whose_groups_nobody_asked_for(store_url: str) -> None:
    store = watched(store_url, RECIPES["lean"])
    with store.lock("news") as locked:
        begin(locked)
    assert not store.model("news").groups
    store.close()


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
    """Twelve groups and a server, without a store; each group has sent honest uploads."""

    def __init__(self, recipe: fb.Recipe, *, watched: bool, honest: int = 24) -> None:
        self.recipe, self.server = recipe, recipe.server()
        self.groups, self.told = WeighedGroups(recipe, watched=watched, clock=float), b""
        self.stored: dict[int, bytes] = {}
        for number in range(honest):
            self.send(number % 12, observed(recipe, number))

    def send(self, group: int, upload: fb.Upload) -> dict[int, bytes]:
        merge(self.recipe, self.server, [upload])
        stored = self.groups.absorb([(1000 * 24 + group, upload.statistics)], 0.0)
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
@pytest.mark.parametrize("squares", [0.0, 1e12])
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
    whole = Rewards()
    for each in sums:
        whole = whole.plus(each)
    now = believed(whole, sums)
    told, true = now.squares / now.count, float(np.mean(honest))
    most = 1.5 * (1 + len(lies)) * 1.01  # 1.5 is told as it is; and a count is a whole number
    assert true / most <= told <= most * true
    assert now.count <= whole.count
    if not lies:
        assert now is whole


def test_rewards_are_as_they_are_while_few_have_had_any() -> None:
    sums = [Rewards(100, 1.0, 1.0)] * 7 + [Rewards(100)] * 17
    whole = Rewards(2400, 7.0, 7.0)
    assert believed(whole, sums) is whole


@given(mass=st.floats(1e-3, 1e30), trusted=st.booleans())
def test_no_sum_leaves_the_others_without_digits(mass: float, trusted: bool) -> None:
    memory = RECIPES["FedLinUCB"].parts.memory
    sums = [sum_of(memory, observed(RECIPES["FedLinUCB"], n).statistics) for n in range(5)]
    large = replace(nothing(memory), matrix=mass / D * np.eye(D), moment=np.full(D, mass))
    *others, last = tempered([*sums, large], ridge=1.0, trusted=[False] * 5 + [trusted])
    assert all(one is other for one, other in zip(others, sums, strict=True))
    median = float(np.median([each.mass for each in [*sums, large]]))
    assert trusted or last.mass <= 1.01e6 * max(each.mass for each in sums)
    if trusted or mass <= 1e6 * median / 2.0:
        assert last is large
    assert np.allclose(last.moment / last.mass, large.moment / large.mass)


@each_recipe
def test_a_log_that_was_merged_counts_in_full_whatever_its_mass(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, [("warm-0123", observed(recipe, seed)) for seed in range(100, 140)])
    send(store_url, recipe, honest(recipe), first=1000)
    assert store.model("news").told == b""
    store.close()


def test_few_agents_write_their_sums_when_they_have_grown_alone() -> None:
    fleet = Fleet(RECIPES["lean"], watched=True, honest=0)
    written = [
        len(fleet.send(number % 3, observed(RECIPES["lean"], number))) for number in range(300)
    ]
    assert sum(written[:3]) == 3
    assert sum(written[150:]) < 50
