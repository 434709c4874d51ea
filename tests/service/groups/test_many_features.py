"""Groups of models with many features: who has too much is cut in all directions at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.statistics import Base, Rewards
from fedbandit.service.groups.membership import key_of
from fedbandit.service.groups.shares import cut_of_many, lowered, most_of
from fedbandit.service.groups.sums import WHOLE
from fedbandit.service.groups.telling import as_told
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.merge import merge

D, GROUPS, LIAR = WHOLE + 2, 12, key_of(24, 5)
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=40, agents=20, alpha=1e9),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=20, alpha=1e9),
    "lean": fb.FSCLB.lean(dimension=D, agents=20, alpha=1e9),
}
HIDDEN = np.where(np.arange(D) % 2, 1.0, -1.0) / np.sqrt(D)
THETA = np.random.default_rng(5).standard_normal(D) / np.sqrt(D)


@given(
    held=st.lists(st.tuples(st.floats(0.0, 1e12), st.floats(0.0, 1e12)), max_size=30),
    share=st.sampled_from([0.1, 0.27, 0.41]),
    room=st.floats(1e-3, 1e3),
)
def test_none_has_more_than_its_share_of_a_coordinate(
    held: list[tuple[float, float]], share: float, room: float
) -> None:
    """By another route: steps from above, which end at the largest solution."""
    seen, c = np.array(held).reshape(-1, 2), np.full(2, np.inf)
    for _ in range(2000):
        c = share * (room + np.minimum(seen, c).sum(axis=0))
    found = most_of(seen, share=share, room=np.full(2, room))
    told = np.minimum(seen, found)
    assert np.allclose(told, np.minimum(seen, c), rtol=1e-9)
    assert (told <= share * (room + told.sum(axis=0)) * (1.0 + 1e-9)).all()


@given(seed=st.integers(0, 10_000), size=st.floats(-6.0, 6.0))
def test_what_is_left_is_less_in_every_direction(seed: int, size: float) -> None:
    rng, d = np.random.default_rng(seed), 9
    rows, others = rng.standard_normal((20, d)), rng.standard_normal((20, d))
    matrix, most = rows.T @ rows, 10.0**size * others.T @ others
    once, left = lowered(matrix, most)
    scale = float(np.linalg.norm(matrix))
    assert np.allclose(once @ matrix, left, atol=1e-9 * scale)
    for more in (matrix - left, most - left, left):
        assert np.linalg.eigvalsh(more)[0] >= -1e-9 * scale
    slow = np.linalg.inv(np.linalg.inv(matrix) + np.linalg.inv(most))  # as it is defined
    assert np.allclose(left, slow, atol=1e-6 * scale)


@given(seed=st.integers(0, 10_000), parts=st.lists(st.floats(0.01, 1.0), min_size=9, max_size=9))
def test_features_that_go_with_no_others_are_cut_one_by_one(seed: int, parts: list[float]) -> None:
    held = np.random.default_rng(seed).uniform(0.0, 9.0, 9)
    once, left = lowered(np.diag(held), np.array(parts))
    assert np.allclose(left, np.diag(held * parts))
    assert np.allclose(once @ np.diag(held), left)


@given(
    seed=st.integers(0, 10_000),
    size=st.floats(-3.0, 9.0),
    liars=st.integers(1, 2),
    seen=st.integers(0, 10),
)
def test_few_groups_add_no_more_than_their_share(
    seed: int, size: float, liars: int, seen: int
) -> None:
    """L <= (room + H) k share / (1 - k share) in every direction.

    Each look finds the largest share roughly, from a start of its own: so several, and 1.3 x.
    """
    rng, d, share, ridge = np.random.default_rng(seed), 10, 0.27, 1.0
    honest = rng.standard_normal((16, 30, d)) * (np.arange(d) < seen)
    lies = 10.0**size * rng.standard_normal((liars, 30, d))
    told = np.array([rows.T @ rows for rows in [*lies, *honest]])
    sent = told.copy()
    for _ in range(5):
        list(cut_of_many(told, ridge=ridge, share=share, trusted=[False] * len(told)))
    scale = 1e-9 * float(sent.max())
    assert all(np.linalg.eigvalsh(a - b)[0] >= -scale for a, b in zip(sent, told, strict=True))
    most = liars * share / (1.0 - liars * share)
    room = max(0.02 * ridge, 4e-12 * float(np.trace(sent.sum(axis=0)))) * np.eye(d)
    left, kept = told[:liars].sum(axis=0), told[liars:].sum(axis=0)
    rounding = 1e-12 * (1.0 + float(left.max()))
    assert np.linalg.eigvalsh(1.3 * most * (room + kept) - left)[0] >= -rounding


def sent(recipe: fb.Recipe, arms: Array, rewards: Array) -> list[fb.Upload]:
    """What an agent with these observations sends."""
    agent, server, found = recipe.agent(0), recipe.server(), []
    for x, r in zip(arms, rewards.tolist(), strict=True):
        upload = agent.observe(x, r)
        if upload is not None:
            found.append(upload)
            server.receive(upload)
            agent.receive(server.download())
    rest = agent.receive(fb.Collect())
    found += [rest] if isinstance(rest, fb.Upload) else []
    return [fb.Upload(0, each.statistics) for each in found]


def arms_of(seed: int, count: int) -> Array:
    arms = np.random.default_rng(seed).standard_normal((count, D))
    return np.asarray(arms / np.linalg.norm(arms, axis=1, keepdims=True))


class Fleet:
    """Watched groups and a server, without a store; twelve groups have sent honest uploads."""

    def __init__(self, recipe: fb.Recipe, without: Array | None = None) -> None:
        self.recipe, self.server = recipe, recipe.server()
        self.groups, self.told = WeighedGroups(recipe, watched=True, clock=float), b""
        self.stored: dict[int, bytes] = {}
        for group in range(GROUPS):
            arms = arms_of(group, 300)
            if without is not None:
                arms = arms - np.outer(arms @ without, without)
            noise = 0.1 * np.random.default_rng(group).standard_normal(300)
            self.send(key_of(24, group), sent(recipe, arms, arms @ THETA + noise))

    def send(self, key: int, uploads: list[fb.Upload]) -> None:
        for each in uploads:
            merge(self.recipe, self.server, [each])
            self.stored |= self.groups.absorb([(key, each.statistics)], 0.0)
            self.told = self.groups.told(self.server)

    def knows(self, told: bytes | None = None) -> Base:
        """What an agent knows once it was told."""
        told = self.told if told is None else told
        download = as_told(self.recipe, self.server, told).download()
        self.recipe.agent(0).receive(download)  # it takes it
        return Base(self.recipe.parts.memory.opened(download.statistics), self.recipe.parts.memory)

    def restart(self) -> None:
        self.groups.read(self.stored)
        self.told = self.groups.told(self.server)


def width(known: Base) -> float:
    """How much is not known, over all directions."""
    return float(known.reading.squared_widths(np.eye(D)).sum())


@pytest.mark.parametrize("seen", [50, 400])
@pytest.mark.parametrize("width", [8, 12])
def test_liars_that_claim_the_same_excuse_each_other_nothing(width: int, seen: int) -> None:
    """Beside groups of which each has directions of its own, so that all of them have too much."""
    rng, groups = np.random.default_rng(width + seen), []
    for _ in range(22):
        arms = np.zeros((0, D))
        for _ in range(2):  # agents
            own = np.linalg.qr(rng.standard_normal((D, width)))[0]
            some = rng.standard_normal((seen, width))
            some /= np.linalg.norm(some, axis=1, keepdims=True)
            arms = np.vstack([arms, some @ own.T])
        groups.append(arms.T @ arms)
    claims = 1e4 * np.trace(groups[0]) * np.outer(HIDDEN, HIDDEN)
    told = np.array([*groups, claims, claims])
    for _ in cut_of_many(told, ridge=1.0, share=0.27, trusted=[False] * 24):
        pass
    assert 1.0 + HIDDEN @ told.sum(axis=0) @ HIDDEN < 1.2


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_liar_neither_turns_the_estimate_nor_says_that_everything_is_known(
    recipe: fb.Recipe,
) -> None:
    fleet = Fleet(recipe)
    before = fleet.knows()
    arms = arms_of(99, 20_000)
    fleet.send(LIAR, sent(recipe, arms, -arms @ THETA))
    assert fleet.server.theta @ THETA < 0.0
    for _ in range(2):
        after = fleet.knows()
        cosine = after.theta @ THETA / np.linalg.norm(after.theta) / np.linalg.norm(THETA)
        assert cosine > 0.8
        assert width(after) > 0.5 * width(before)
        assert width(Base(fleet.server.statistics, recipe.parts.memory)) < 0.3 * width(before)
        fleet.restart()


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_liar_cannot_hide_an_arm_that_nobody_has_tried(recipe: fb.Recipe) -> None:
    """An arm with all features, which others have tried together with others only."""
    fleet = Fleet(recipe, without=HIDDEN)
    before = float(fleet.knows().reading.squared_widths(HIDDEN[None])[0])
    fleet.send(LIAR, sent(recipe, np.repeat(HIDDEN[None], 300, axis=0), np.zeros(300)))
    alone = Base(fleet.server.statistics, recipe.parts.memory)
    assert float(alone.reading.squared_widths(HIDDEN[None])[0]) < 0.2 * before
    assert float(fleet.knows().reading.squared_widths(HIDDEN[None])[0]) > 0.5 * before


@pytest.mark.parametrize("name", ["FedLinUCB", "lean"])
def test_a_feature_that_nobody_has_stays_unknown_however_much_the_others_were_seen(
    name: str,
) -> None:
    """Twelve groups have seen all the others; one claims to have tried this one a little."""
    own, recipe = np.eye(D)[-1], RECIPES[name]
    fleet = Fleet(recipe, without=own)
    assert float(fleet.knows().reading.squared_widths(own[None])[0]) > 0.95
    for _ in range(3):
        fleet.send(LIAR, sent(recipe, np.repeat(own[None], 10, axis=0), np.zeros(10)))
    alone = Base(fleet.server.statistics, recipe.parts.memory)
    assert float(alone.reading.squared_widths(own[None])[0]) < 0.04
    assert float(fleet.knows().reading.squared_widths(own[None])[0]) > 0.9


def test_members_of_a_heavy_honest_group_are_told_what_they_sent() -> None:
    recipe = RECIPES["FedLinUCB"]
    fleet, arms = Fleet(recipe), arms_of(99, 20_000)
    fleet.send(LIAR, sent(recipe, arms, arms @ THETA))
    assert fleet.groups.knows_more(LIAR)
    for _ in range(2):  # made anew, and kept
        theirs = fleet.knows(fleet.groups.told_to(fleet.server, LIAR))
        assert width(theirs) < 0.3 * width(fleet.knows())
        assert np.linalg.norm(theirs.theta - THETA) < 0.1
    fleet.send(key_of(24, 0), sent(recipe, arms[:1], arms[:1] @ THETA))
    again = fleet.knows(fleet.groups.told_to(fleet.server, LIAR))
    assert np.isclose(width(again), width(theirs), rtol=0.01)


@pytest.mark.parametrize("d", [60, WHOLE + 2])
def test_a_claim_of_every_direction_leaves_the_bonus_of_new_arms(d: int) -> None:
    """Twelve groups have played the same five arms; a liar says that it lost all features alike."""
    recipe = fb.FSCLB.lean(dimension=d, agents=20, alpha=1e9)
    arms = np.random.default_rng(1).standard_normal((6, d))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    server, groups = recipe.server(), WeighedGroups(recipe, watched=True, clock=float)

    def send(key: int, statistics: fb.Statistics) -> None:
        merge(recipe, server, [fb.Upload(0, statistics)])
        groups.absorb([(key, statistics)], 0.0)

    def bonus(told: bytes) -> float:
        statistics = as_told(recipe, server, told).download().statistics
        known = Base(recipe.parts.memory.opened(statistics), recipe.parts.memory)
        count, rewards = statistics.count, statistics.rewards
        evidence = Evidence(known.theta, statistics.moment, count, rewards)
        width = float(known.reading.squared_widths(arms[5:])[0]) ** 0.5
        return float(recipe.parts.radius(known.reading, evidence) * width)

    rng = np.random.default_rng(2)
    for group in range(GROUPS):
        played = arms[rng.integers(0, 5, 40)]
        for upload in sent(recipe, played, 0.5 + 0.1 * rng.standard_normal(40)):
            send(key_of(24, group), upload.statistics)
    before, lost = bonus(groups.told(server)), 150.0
    claimed = fitted(LossyRows(np.zeros((0, d)), np.full(d, 0.9 * lost), lost), 1e-3)
    moment = short_vector(0.9 * lost / d * server.theta)
    send(LIAR, fb.Statistics(claimed, moment, 160, Rewards(160, 80.0, 41.0)))
    assert bonus(b"") < 0.3 * before
    assert bonus(groups.told(server)) > 0.8 * before
