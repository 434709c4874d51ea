"""FedLinUCB's messages in fewer bytes, against a dense twin and against what really happened."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import errors, wire
from fedbandit.core.memory.triangle import Triangle
from fedbandit.worlds import World
from tests.core import literal_gram as twin
from tests.core.histories import assert_psd_order
from tests.core.literal_worlds import M, shifting, synthetic

Array = NDArray[np.float64]
WORLDS: dict[str, World] = {
    "isotropic": synthetic(seed=1),
    "low rank": synthetic(seed=3, spectrum="low-rank", rank=3),
    "power law": synthetic(seed=4, spectrum="power-law", decay=1.5),
    "long arms": synthetic(seed=5, norm=4.0),
    "shifting": shifting,
}
D = 12
NARROW = ["float32", "float16", "int8"]
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
every_width = pytest.mark.parametrize("width", ["float64", *NARROW])


def built(width: Any, **params: Any) -> fb.Recipe:
    return fb.FedLinUCB(**{"dimension": D, "agents": M, "radius": 0.3, "wire": width, **params})


@every_width
@every_world
@pytest.mark.parametrize("determinant", ["when-needed", "rank-one"])
def test_decisions_and_uploads_are_the_twins(world: World, width: str, determinant: str) -> None:
    recipe, plan = built(width, determinant=determinant), twin.Plan(d=D, width=width)
    fleet, server = recipe.fleet(), recipe.server()
    twins, dense = [twin.TwinAgent(plan) for _ in range(M)], twin.TwinServer(plan)
    for t, (who, arms, _, rewards) in enumerate(world.rounds(300)):
        k = fleet[who].choose(arms)
        assert k == twins[who].choose(arms), f"round {t}"
        upload = fleet[who].observe(k, float(rewards[k]))
        parcel = twins[who].observe(arms[k], float(rewards[k]))
        assert (upload is None) == (parcel is None), f"round {t}"
        if upload is not None and parcel is not None:
            (answer,) = server.receive(upload)
            fleet[who].receive(answer.message)
            dense.merge(parcel)
            twins[who].receive(dense.download())
    assert_same_server(server, dense.held)
    assert (server.summary.shed > 0.0) == (width != "float64")


def assert_same_server(server: fb.Server, held: twin.Parcel) -> None:
    """Assert that the server holds what the twin's does; a tie moves a float32 by its last bit."""
    scale = 1.0 + float(np.trace(held.matrix))
    np.testing.assert_allclose(server.summary.matrix, held.matrix, atol=1e-8 * scale)
    assert server.summary.shed == pytest.approx(held.shed, abs=1e-7 * scale)
    np.testing.assert_allclose(server.moment, held.moment.value, atol=1e-6 * scale)


@every_world
def test_the_triangle_in_float64_is_the_whole_matrix(world: World) -> None:
    full, half = (fb.simulate(built(wire), world, rounds=300) for wire in ("full", "float64"))
    for column in ("arm", "uploads", "reward"):
        np.testing.assert_array_equal(getattr(full, column), getattr(half, column))
    assert half.bytes[-1] < 0.65 * full.bytes[-1]


def test_the_default_is_the_full_matrix_under_the_old_identity() -> None:
    one = fb.FedLinUCB(dimension=2, agents=1)
    assert one == fb.FedLinUCB(dimension=2, agents=1, wire="full")
    assert one.identity == (
        '{"meaning":1,"params":{"agents":1,"dimension":2},"recipe":"FedLinUCB"}'
    )
    agent = one.agent(0)
    upload = agent.observe([3.0, 4.0], 0.5)
    assert upload is not None
    assert wire.encode(upload, format=1) == bytes.fromhex(
        "96 a675706c6f6164 01 00 92 a46772616d 92 920202 c420"
        "0000000000002240 0000000000002840 0000000000002840 0000000000003040"
        "92 9102 c410 000000000000f83f 0000000000000040 01"
    )
    assert sorted(key for key in agent.state() if key.startswith("base.")) == ["base.matrix"]


@pytest.mark.parametrize("word", ["bfloat16", "int4", "upper"])
def test_other_widths_are_refused(word: Any) -> None:
    with pytest.raises(errors.UnknownName, match="wire"):
        fb.FedLinUCB(dimension=2, agents=1, wire=word)


@dataclass
class History:
    """A federation whose messages are late, kept, joined and repeated, and all arms as they were.

    Beside every message is the exact X^T X that it stands for.
    """

    recipe: fb.Recipe
    rng: np.random.Generator
    waiting: dict[int, list[tuple[fb.Upload, Array]]] = field(default_factory=dict)
    downloads: list[tuple[fb.Download, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agents, self.server = self.recipe.fleet(), self.recipe.server()
        self.zero = np.zeros((self.recipe.dimension,) * 2)
        self.merged = self.zero
        self.pending = [self.zero] * len(self.agents)
        self.held = [self.zero] * len(self.agents)
        self.waiting = {who: [] for who in range(len(self.agents))}

    def observe(self, who: int, x: Array) -> None:
        self.pending[who] = self.pending[who] + np.outer(x, x)
        self.take(who, self.agents[who].observe(x, float(self.rng.uniform(-1, 1))))

    def flush(self, who: int) -> None:
        self.take(who, self.agents[who].receive(fb.Collect()))

    def take(self, who: int, upload: fb.Upload | None) -> None:
        if upload is not None:
            self.waiting[who].append((upload, self.pending[who]))
            self.pending[who] = self.zero

    def join(self, who: int) -> None:
        if len(self.waiting[who]) > 1:
            *rest, (first, one), (second, other) = self.waiting[who]
            agent = self.agents[who]
            both = agent.combined(first, second)
            if self.rng.random() < 0.5:
                both = agent.packed(both)
            self.waiting[who] = [*rest, (both, one + other)]

    def keep(self, who: int) -> None:
        if self.waiting[who]:
            upload, exact = self.waiting[who][-1]
            self.agents[who].keep(upload)
            self.held[who] = self.held[who] + exact

    def deliver(self, who: int) -> None:
        if self.waiting[who]:
            upload, exact = self.waiting[who].pop(0)
            self.server.receive(self.agents[who].packed(upload))
            self.merged = self.merged + exact
            self.downloads.append((self.server.download(), self.merged))

    def download(self, who: int) -> None:
        if self.downloads:
            download, exact = self.downloads[int(self.rng.integers(len(self.downloads)))]
            if download.version > self.agents[who].version:
                self.agents[who].receive(download)
                self.held[who] = exact

    def check(self) -> None:
        """Assert X^T X <= B <= X^T X + shed I of every message, the server and every base."""
        for waiting in self.waiting.values():
            for upload, exact in waiting:
                self.assert_between(upload.summary, exact)
        for download, exact in self.downloads[-2:]:
            self.assert_between(download.summary, exact)
        self.assert_between(self.server.summary, self.merged)
        ridge = float(self.recipe.params["ridge"]) * np.eye(self.recipe.dimension)
        for agent, exact in zip(self.agents, self.held, strict=True):
            V: Any = np.linalg.inv(agent.policy.reading.solve(np.eye(len(exact))))
            shed = agent.policy.reading.shed * np.eye(len(exact))
            scale = float(np.trace(V)) * float(np.trace(V)) / ridge[0, 0]  # of an inverse
            assert_psd_order(exact + ridge, V, scale=scale)
            assert_psd_order(V, exact + ridge + shed, scale=scale)

    def assert_between(self, summary: Any, exact: Array) -> None:
        scale, matrix = float(np.trace(exact)), summary.matrix
        assert_psd_order(exact, matrix, scale=scale)
        assert_psd_order(matrix, exact + summary.shed * np.eye(len(exact)), scale=scale)


@pytest.mark.parametrize("width", NARROW)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 7), steps=st.integers(1, 60))
def test_v_is_never_below_what_was_observed(width: str, seed: int, d: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    recipe = built(width, dimension=d, agents=2, alpha=float(rng.choice([0.5, 3.0])))
    history = History(recipe, rng)
    axes = rng.standard_normal((int(rng.integers(1, d + 1)), d)) * 10.0 ** rng.uniform(-2, 1, d)
    for _ in range(steps):
        who, what = int(rng.integers(2)), rng.random()
        if what < 0.6:
            history.observe(who, rng.standard_normal(len(axes)) @ axes)
        else:
            acts = (history.flush, history.join, history.keep, history.deliver, history.download)
            acts[int(rng.integers(len(acts)))](who)
        history.check()


@pytest.mark.parametrize("width", NARROW)
@every_world
def test_the_bias_without_noise_is_within_the_radius(width: str, world: World) -> None:
    """sqrt(ridge + 4 shed) S is proven, up to float32 moments; the radius allows for more."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(D)
    theta /= np.linalg.norm(theta)
    recipe = built(width, radius="paper")
    fleet, server = recipe.fleet(), recipe.server()
    for who, arms, _, _ in world.rounds(300):
        agent = fleet[who]
        k = agent.choose(arms)
        upload = agent.observe(k, float(arms[k] @ theta))
        if upload is not None:
            (answer,) = server.receive(upload)
            agent.receive(answer.message)
        policy = agent.policy
        widths = np.sqrt(policy.reading.squared_widths(arms))
        off = np.abs(arms @ (policy.theta - theta))
        bound = np.sqrt(1.0 + 4.0 * policy.reading.shed)
        assert (off <= bound * widths + 1e-5 * np.linalg.norm(arms, axis=1)).all()
        assert bound <= policy.radius
    assert server.summary.shed > 0.0


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("scale", [1e-3, 10.0, 1e6])
def test_rewards_of_any_scale_play_the_same_arms(width: str, scale: float) -> None:
    """The radius is scaled alike. No bound on theta is told, and no theta is too long."""
    world = WORLDS["isotropic"]
    one = played(built(width), world, 1.0)
    assert played(built(width, radius=0.3 * scale), world, scale) == one


def played(recipe: fb.Recipe, world: World, scale: float) -> list[int]:
    fleet, server, arms = recipe.fleet(), recipe.server(), []
    for this in world.rounds(200):
        agent = fleet[this.agent]
        arms.append(agent.choose(this.arms))
        upload = agent.observe(arms[-1], scale * float(this.rewards[arms[-1]]))
        if upload is not None:
            (answer,) = server.receive(upload)
            agent.receive(answer.message)
    return arms


@pytest.mark.parametrize("width", NARROW)
def test_an_estimate_that_predicts_nonsense_moves_no_moment_far(width: str) -> None:
    recipe = built(width, alpha=1e9)
    agent = recipe.agent(0)
    theta = 1e9 * np.ones(D)
    known = fb.Statistics(fb.Gram(np.eye(D)), 2 * theta, 10, fb.Rewards(10, 0.0, 10.0))
    agent.receive(fb.Download(known, 1))
    arms = np.random.default_rng(0).standard_normal((5, D))
    for x in arms:
        assert agent.observe(x, 1.0) is None
    upload = agent.receive(fb.Collect())
    assert upload is not None
    moved = float(np.linalg.norm(upload.moment - arms.sum(axis=0)))
    assert 0.0 < moved <= recipe.parts.memory.moment_error(upload.summary, 5, 1.0) + 1e-6


@every_width
def test_a_coordinate_that_was_never_played_keeps_its_width(width: str) -> None:
    recipe = built(width, agents=1)
    agent, server, rng = recipe.agent(0), recipe.server(), np.random.default_rng(0)
    for _ in range(400):
        x = np.append(rng.standard_normal(D - 1), 0.0)
        upload = agent.observe(x, float(x.sum()))
        if upload is not None:
            (answer,) = server.receive(upload)
            agent.receive(answer.message)
    new = np.eye(D)[-1:]
    assert agent.version > 5
    assert agent.policy.reading.squared_widths(new)[0] == pytest.approx(1.0, rel=1e-12)


@every_width
def test_messages_are_triangles_and_the_rest_is_whole(width: str) -> None:
    recipe = built(width, alpha=1e9)
    agent, server = recipe.agent(0), recipe.server()
    uploads = []
    for x in np.random.default_rng(0).standard_normal((2, D)):
        agent.observe(x, 1.0)
        upload = agent.receive(fb.Collect())
        assert isinstance(upload, fb.Upload)
        uploads.append(upload)
    both = agent.combined(*uploads)
    packed = agent.packed(both)
    assert isinstance(both.summary, fb.Gram)
    assert isinstance(packed.summary, Triangle)
    assert agent.packed(packed) is packed or agent.packed(packed).summary is packed.summary
    stored = wire.decode(wire.encode(both))  # as a journal keeps what waits
    assert isinstance(stored, fb.Upload)
    assert wire.encode(agent.packed(stored)) == wire.encode(packed)
    server.receive(packed)
    assert isinstance(server.summary, fb.Gram)
    assert isinstance(server.download().summary, Triangle)
    assert server.download().statistics.rewards == fb.Rewards(2, 2.0, 2.0)
