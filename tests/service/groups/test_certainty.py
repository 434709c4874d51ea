"""No group has more than its share of any direction of what agents are told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.statistics import Base
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.certainty import fair
from fedbandit.service.groups.shares import shares_kept
from fedbandit.service.groups.sums import sum_of
from fedbandit.service.groups.telling import as_told
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.commit import Committer
from fedbandit.service.merging.merge import merge
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import Answer
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.models.resorting import summed
from fedbandit.service.storage.opening import open_store

D, ROOM = 6, 0.02
NEVER: dict[str, Any] = {"agents": 20, "alpha": 1e9}  # agents send when they are asked to
RECIPES = {
    "FedLinUCB": fb.FedLinUCB(dimension=D, **NEVER),
    "FedLinUCB rounded": fb.FedLinUCB(dimension=D, wire="float16", **NEVER),
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, **NEVER),
    "FSCLB averaged": fb.FSCLB(dimension=D, sketch_size=4, estimate="averaged", **NEVER),
    "FSCLB corrected": fb.FSCLB(dimension=D, sketch_size=4, estimate="corrected", **NEVER),
    "FSCLB auto": fb.FSCLB(dimension=D, sketch_size="auto", **NEVER),
    "FSCLB int8": fb.FSCLB(dimension=D, sketch_size=4, wire="int8", **NEVER),
    "coordinates": fb.FSCLB(dimension=D, sketch_size=4, compensation="coordinates", **NEVER),
    "lean": fb.FSCLB.lean(dimension=D, **NEVER),
    "lean, tight": fb.FSCLB.lean(dimension=D, radius="tight", **NEVER),
}


each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def largest_ratio(one: Array, other: Array) -> float:
    """The largest x^T one x / x^T other x, by another route than the product's."""
    return float(np.linalg.eigvals(np.linalg.solve(other, one)).real.max())


def drawn(rng: np.random.Generator, groups: int) -> Array:
    """Sums of groups that have seen a few directions each, some far more than others."""
    sums = []
    for _ in range(groups):
        rows = rng.standard_normal((int(rng.integers(1, 12)), D)) * 10.0 ** rng.uniform(-2, 3)
        rows[:, rng.random(D) < 0.4] = 0.0
        sums.append(rows.T @ rows)
    return np.array(sums)


@given(
    seed=st.integers(0, 100_000),
    groups=st.integers(1, 30),
    liars=st.lists(st.floats(-3.0, 7.0), max_size=3),
    alike=st.booleans(),
    share=st.sampled_from([0.1, 0.2, 0.27]),
)
@settings(max_examples=150)
def test_what_liars_add_is_bounded_by_what_the_honest_saw(
    seed: int, groups: int, liars: list[float], alike: bool, share: float
) -> None:
    """Liars of any size, all in one direction or each in its own; up to rounding of the largest."""
    rng, one = np.random.default_rng(seed), np.eye(D)
    honest = drawn(rng, groups)
    x = rng.standard_normal((D, 1))
    lies = [10.0**size * (x @ x.T if alike else drawn(rng, 1)[0]) for size in liars]
    seen = np.array([*honest, *lies])
    kept = shares_kept(seen, ridge=1.0, share=share, trusted=[False] * len(seen))
    added = np.zeros((D, D))
    for n, each in enumerate(lies, start=groups):
        added = added + (kept[n].once @ each if n in kept else each)
    part, room = len(lies) * share, max(ROOM, 4e-12 * float(np.trace(seen.sum(axis=0))))
    assert largest_ratio(added, room * one + honest.sum(axis=0)) <= 1.1 * part / (1.0 - part)


@given(seed=st.integers(0, 100_000), groups=st.integers(1, 30))
@settings(max_examples=100)
def test_a_part_of_what_was_sent_is_told(seed: int, groups: int) -> None:
    sums = drawn(np.random.default_rng(seed), groups)
    kept = shares_kept(sums, ridge=1.0, share=0.1, trusted=[False] * groups)
    spread = float(np.sqrt(1.0 + np.trace(sums.sum(axis=0)) / ROOM))  # W^1/2 rounds by its spread
    for place, part in kept.items():
        sent, told = sums[place], part.once @ sums[place]
        size = float(np.linalg.norm(sent))
        rounding = 1e-12 * spread * size
        assert np.allclose(told, part.half @ sent @ part.half.T, atol=rounding)
        assert np.allclose(told, told.T, atol=rounding)
        assert np.linalg.eigvalsh((told + told.T) / 2.0)[0] >= -1e-9 * size
        assert np.linalg.eigvalsh(sent - (told + told.T) / 2.0)[0] >= -1e-9 * size


def test_groups_that_see_alike_and_those_that_are_trusted_are_told_in_full() -> None:
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((20, 300, D))
    sums = np.einsum("gni,gnj->gij", arms, arms)
    assert not shares_kept(sums, ridge=1.0, share=0.1, trusted=[False] * 20)
    sums[3] *= 1000.0
    trusted = [place == 3 for place in range(20)]
    assert not shares_kept(sums, ridge=1.0, share=0.1, trusted=trusted)
    assert list(shares_kept(sums, ridge=1.0, share=0.1, trusted=[False] * 20)) == [3]


class Fleet:
    """The groups of a model and its server, without a store."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self.recipe, self.server = recipe, recipe.server()
        self.groups, self.told = WeighedGroups(recipe, clock=float), b""

    def send(self, group: int, upload: fb.Upload) -> None:
        merge(self.recipe, self.server, [upload])
        self.groups.absorb([(group, upload.statistics)], 0.0)
        self.told = self.groups.told(self.server)

    def knows(self, group: int = -1) -> Base:
        """What an agent of a group knows once it was told; by default, of none that has sent."""
        known, told = self.groups.knows_more(group), self.told
        told = self.groups.told_to(self.server, group) if known else told
        download = as_told(self.recipe, self.server, told).download()
        self.recipe.agent(0).receive(download)
        memory = self.recipe.parts.memory
        return Base(memory.opened(download.statistics), memory)


def claimed(recipe: fb.Recipe, rows: Array, count: int) -> fb.Upload:
    """The rows as they are, each of which paid nothing."""
    empty: Any = recipe.parts.memory.empty().summary
    d = recipe.dimension
    if isinstance(empty, Gram):
        statistics = fb.Statistics(Gram(rows.T @ rows), np.zeros(d), count)
    elif isinstance(empty, Sketch):
        kept = rows[: empty.size - 1]
        statistics = fb.Statistics(Sketch(kept, 0.0, empty.size, empty.lost), np.zeros(d), count)
    else:
        statistics = fb.Statistics(fitted(nothing_lost(rows), 1e-3), np.zeros(d), count)
    return fb.Upload(0, statistics)


def seen(recipe: fb.Recipe, seed: int, *, but: int, count: int = 40) -> fb.Upload:
    """Honest observations of every feature but one, with rewards of 0.5 on average."""
    agent, rng = recipe.agent(0), np.random.default_rng(seed)
    for arm in rng.standard_normal((count, recipe.dimension)):
        arm[but] = 0.0
        agent.observe(arm / np.linalg.norm(arm), float(0.5 + 0.1 * rng.standard_normal()))
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    return fb.Upload(0, upload.statistics)


def width(known: Base, arm: Array) -> float:
    """x^T V^-1 x by what an agent was told."""
    return float(known.reading.squared_widths(arm[None])[0])


@each_recipe
def test_one_agent_cannot_make_others_take_what_it_alone_claims_for_certain(
    recipe: fb.Recipe,
) -> None:
    fleet, hidden = Fleet(recipe), np.eye(D)[2]
    for n in range(20):
        fleet.send(n, seen(recipe, n, but=2))
    before = width(fleet.knows(), hidden)
    for _ in range(5):
        fleet.send(20, claimed(recipe, np.sqrt(50.0) * hidden[None], 50))
    assert fleet.server.base.reading.squared_widths(hidden[None])[0] < 0.05
    assert width(fleet.knows(), hidden) > 0.5 * before
    assert width(fleet.knows(7), hidden) > 0.5 * before
    assert width(fleet.knows(20), hidden) < 0.05


@pytest.mark.parametrize("d", [20, 60])
def test_what_is_told_of_a_feature_is_what_an_agent_reads(d: int) -> None:
    """Messages of lean have a bound for every feature that was seen: a liar makes up none."""
    recipe, rng = fb.FSCLB.lean(dimension=d, **NEVER), np.random.default_rng(0)
    fleet = Fleet(recipe)
    for number in range(20):
        agent = recipe.agent(0)
        for arm in rng.standard_normal((40, d)) / np.sqrt(np.arange(1, d + 1)):
            arm[-4:] = 0.0
            agent.observe(arm / np.linalg.norm(arm), float(rng.standard_normal()))
        upload = agent.receive(fb.Collect())
        assert isinstance(upload, fb.Upload)
        fleet.send(number, fb.Upload(0, upload.statistics))
    fleet.send(20, claimed(recipe, np.sqrt(50.0) * np.eye(d)[-4:], 200))
    assert all(fleet.server.base.reading.squared_widths(np.eye(d)[-4:]) < 0.05)
    assert all(fleet.knows().reading.squared_widths(np.eye(d)[-4:]) > 0.95)


def test_what_three_groups_have_seen_is_told_unless_somebody_is_doubted() -> None:
    recipe = RECIPES["FedLinUCB"]
    memory, server, one = recipe.parts.memory, recipe.server(), np.eye(D)
    sent = [sum_of(memory, claimed(recipe, 5.0 * one[:5], 125).statistics) for _ in range(21)]
    sent += [sum_of(memory, claimed(recipe, 5.0 * one, 150).statistics) for _ in range(3)]
    merged = np.sum([each.square for each in sent], axis=0)
    server.adopt(fb.Statistics(Gram(merged), np.zeros(D), 1), version=1)
    known = []
    for watched in (True, False):
        found = fair(memory, server, sent, sent=sent, trusted=[False] * 24, watched=watched).told
        assert found is not None
        known.append(float(found[5, 5]))
    assert known[0] == pytest.approx(1.0 + 75.0)
    assert known[1] < 1.1


@each_recipe
def test_the_first_sender_is_not_believed_alone(recipe: fb.Recipe) -> None:
    fleet, one = Fleet(recipe), np.eye(D)
    fleet.send(0, claimed(recipe, 10.0 * one, 600))
    arms = [*one[:3], np.full(D, D**-0.5)]
    assert all(width(fleet.knows(), arm) > 0.7 for arm in arms)
    assert width(fleet.knows(0), one[0]) < 0.1


@pytest.mark.parametrize("name", ["FedLinUCB", "FedLinUCB rounded", "FSCLB auto", "lean"])
def test_a_group_knows_all_that_it_alone_has_seen(name: str) -> None:
    """As well as with everything that was sent; the others know next to nothing of it."""
    recipe, own = RECIPES[name], np.eye(D)[2]
    fleet = Fleet(recipe)
    agent = recipe.agent(0)
    for n in range(12):
        fleet.send(n, seen(recipe, n, but=2))
    for _ in range(30):
        agent.observe(own, 0.8)
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    fleet.send(12, fb.Upload(0, upload.statistics))
    assert fleet.knows(12).theta[2] == pytest.approx(fleet.server.theta[2], abs=0.01)
    assert fleet.knows().theta[2] < 0.3


@each_recipe
@given(seed=st.integers(0, 10_000), large=st.floats(-6.0, 6.0))
@settings(max_examples=15, deadline=None)
def test_agents_take_every_state_that_they_are_told(
    recipe: fb.Recipe, seed: int, large: float
) -> None:
    """Whatever a liar claims; and stored, it reads as it was."""
    fleet, rng = Fleet(recipe), np.random.default_rng(seed)
    for n in range(int(rng.integers(1, 8))):
        fleet.send(n % 6, seen(recipe, seed + n, but=int(rng.integers(D)), count=10))
        rows = 10.0**large * np.linalg.qr(rng.standard_normal((recipe.dimension, 3)))[0].T
        fleet.send(9, claimed(recipe, rows, 1 + int((rows * rows).sum())))
        for group in (-1, 0, 9):
            assert np.isfinite(fleet.knows(group).theta).all()
        if len(fleet.told) > 8 * recipe.dimension:
            again = wire.encode(server_at(recipe, fleet.told).whole())
            assert again == fleet.told


def test_what_lean_claims_to_have_lost_everywhere_is_told_as_little() -> None:
    recipe, one = RECIPES["lean"], np.eye(D)
    fleet = Fleet(recipe)
    for n in range(20):
        fleet.send(n, seen(recipe, n, but=2))
    before = width(fleet.knows(), one[2])
    lost = LossyRows(np.zeros((0, D)), np.full(D, 400.0), 400.0)
    nothing = fb.Statistics(fitted(lost, 1e-3), np.zeros(D), 500)
    for _ in range(3):
        fleet.send(20, fb.Upload(0, replace(nothing)))
    assert width(fleet.knows(), one[2]) > 0.5 * before


def test_a_group_that_contradicts_the_others_is_told_what_they_are() -> None:
    """Its members are not led by a liar among them."""
    recipe, theta = RECIPES["FedLinUCB"], np.eye(D)[0]
    fleet, rng = Fleet(recipe), np.random.default_rng(3)
    for n in range(20):
        arms = rng.standard_normal((60, D))
        paid = arms @ theta + 0.1 * rng.standard_normal(60)
        fleet.send(n, fb.Upload(0, fb.Statistics(Gram(arms.T @ arms), paid @ arms, 60)))
    lie = fb.Statistics(Gram(3000.0 * np.outer(theta, theta)), -3000.0 * theta, 3000)
    fleet.send(7, fb.Upload(0, lie))
    assert fleet.server.theta[0] < 0.0
    assert np.linalg.norm(fleet.knows(7).theta - theta) < 0.1
    assert np.linalg.norm(fleet.knows().theta - theta) < 0.1


def test_what_lean_claims_to_have_lost_in_one_coordinate_does_not_move_theta() -> None:
    """The whole spreads what was lost by all bounds: what it has less than the sums is no news."""
    recipe, d = fb.FSCLB.lean(dimension=20, agents=20), 20
    fleet, rng, agents = Fleet(recipe), np.random.default_rng(5), recipe.fleet()
    theta = rng.standard_normal(d) / np.sqrt(d)
    for n, arm in enumerate(rng.standard_normal((2000, d))):
        x, number = arm / np.linalg.norm(arm), n % 20
        upload = agents[number].observe(x, float(x @ theta + 0.1 * rng.standard_normal()))
        if upload is not None:
            fleet.send(number, fb.Upload(0, upload.statistics))
            agents[number].receive(as_told(recipe, fleet.server, fleet.told).download())
    bound, moment = np.zeros(d), np.zeros(d)
    bound[3], moment[3] = 160.0, -np.sign(theta[3]) * 1.3 * np.sqrt(200.0 * 160.0)
    lost = fitted(LossyRows(np.zeros((0, d)), bound, 160.0), 1e-3)
    for _ in range(2):
        fleet.send(20, fb.Upload(0, fb.Statistics(lost, short_vector(moment), 200)))
    assert np.linalg.norm(fleet.knows().theta - theta) < 0.15


def test_what_is_in_no_sum_has_the_share_of_a_group() -> None:
    """A coordinator that was killed may not have stored the last uploads of a group."""
    recipe, hidden = RECIPES["FedLinUCB"], np.eye(D)[2]
    fleet = Fleet(recipe)
    for n in range(20):
        fleet.send(n, seen(recipe, n, but=2))
    merge(recipe, fleet.server, [claimed(recipe, 30.0 * hidden[None], 900)])
    fleet.send(0, seen(recipe, 99, but=2))
    assert fleet.server.base.reading.squared_widths(hidden[None])[0] < 0.01
    assert width(fleet.knows(), hidden) > 0.5


@pytest.mark.parametrize("mass", [1.0, 1e4, 1e7, 1e11])
def test_sums_that_were_stored_in_float32_are_cut_too(mass: float) -> None:
    recipe, rng = RECIPES["FedLinUCB"], np.random.default_rng(8)
    fleet, hidden = Fleet(recipe), rng.standard_normal(D)
    hidden /= np.linalg.norm(hidden)
    sent = [(n, seen(recipe, n, but=n % D).statistics) for n in range(20)]
    sent.append((20, claimed(recipe, np.sqrt(mass) * hidden[None], 1 + int(mass)).statistics))
    merge(recipe, fleet.server, [fb.Upload(0, each) for _, each in sent])
    fleet.groups.read(summed(recipe, sent))
    fleet.told = fleet.groups.told(fleet.server)
    honest = np.eye(D) + sum(sum_of(recipe.parts.memory, each).square for _, each in sent[:20])
    true = float(hidden @ np.linalg.solve(honest, hidden))
    assert width(fleet.knows(), hidden) > 0.6 * true
    assert np.linalg.norm(fleet.knows().theta) < 2.0


@pytest.mark.parametrize("name", ["FedLinUCB", "FedLinUCB rounded", "FSCLB auto", "lean"])
def test_while_there_is_no_time_to_weigh_what_came_since_is_not_told(
    name: str,
) -> None:
    now, recipe, x = [0.0], RECIPES[name], np.eye(D)[2]
    fleet = Fleet(recipe)
    fleet.groups = WeighedGroups(recipe, clock=lambda: now[0])
    for n in range(20):
        fleet.send(n, seen(recipe, n, but=2))
        now[0] += 100.0
    fleet.groups._time.saved = -5.0  # as after a weighing that took long
    before = width(fleet.knows(), x)
    fleet.send(3, claimed(recipe, 20.0 * x[None], 400))
    assert width(fleet.knows(), x) > 0.5 * before  # not yet
    now[0] += 100.0
    fleet.send(4, seen(recipe, 50, but=2))
    assert width(fleet.knows(), x) > 0.5 * before  # weighed
    assert width(fleet.knows(3), x) < 0.05
    fleet.groups._time.saved = -5.0
    assert width(fleet.knows(3), x) < 0.05  # looks take no time of telling groups what they sent
    fleet.groups._time_for_own.saved = -5.0
    assert width(fleet.knows(3), x) > 0.5 * before  # which is bounded too


@pytest.mark.parametrize("name", ["FedLinUCB", "FSCLB auto", "lean"])
def test_a_coordinator_tells_each_group_what_it_sent(name: str, store_url: str) -> None:
    """Agents of one batch, of several groups; and all others, with the state."""
    recipe, own = RECIPES[name], np.eye(D)[2]
    store = open_store(store_url, create=True)
    made, empty = new_model("news", recipe, groups=24)
    store.create(replace(made, created=0.5), empty)
    model = store.model("news")
    names, alone = [f"phone-{n}" for n in range(12)], "lamp"
    agent = recipe.agent(0)
    for _ in range(40):
        agent.observe(own, 0.8)
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    uploads = {each: seen(recipe, n, but=2) for n, each in enumerate(names)}
    uploads[alone] = fb.Upload(0, upload.statistics)
    committer, syncs = Committer(store, Served(model, recipe)), []
    for number, (each, sent) in enumerate(uploads.items(), start=1):
        sync = wire.Sync(wire.fingerprint(recipe), each.encode().ljust(16), number, sent)
        syncs.append(CheckedSync(each, sync, 100))
    known: dict[str, Base] = {}
    for batch in (syncs[:6], syncs[6:], syncs):  # the last one of copies
        for checked, answer in zip(batch, committer.commit(batch), strict=True):
            assert isinstance(answer, Answer)
            told = wire.decode_synced(answer.body).download
            recipe.agent(0).receive(told)
            memory = recipe.parts.memory
            known[checked.agent] = Base(memory.opened(told.statistics), memory)
    assert width(known[alone], own) < 0.05
    assert known[alone].theta[2] == pytest.approx(0.78, abs=0.03)
    assert all(width(known[each], own) > 0.5 for each in names)
    state = as_told(recipe, server_at(recipe, store.state("news")[1]), store.model("news").told)
    assert float(state.base.reading.squared_widths(own[None])[0]) > 0.5
    store.close()
