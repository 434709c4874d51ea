"""Beyond the paper, against a dense twin: decisions, uploads, and where every error has gone."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import errors
from fedbandit.core.memory.narrow import Narrow, narrowed, rounded
from fedbandit.core.memory.summary import Sketch, empty_sketch, sketch_of
from fedbandit.core.statistics import Base, Statistics
from fedbandit.worlds import Round, World
from tests.core import literal_beyond as twin
from tests.core.histories import assert_psd_order, histories
from tests.core.literal_worlds import M, shifting, synthetic

Array = NDArray[np.float64]
WORLDS: dict[str, World] = {
    "isotropic": synthetic(seed=1),
    "power law": synthetic(seed=4, spectrum="power-law", decay=1.5),
    "long arms": synthetic(seed=5, norm=4.0),
    "shifting": shifting,
}
D = 12
CADENCES = ["paper", "buffered", "roomy"]


def pair(
    *,
    size: int,
    server: int | None = None,
    auto: bool = False,
    cadence: str,
    estimate: Any,
    wire: Any,
    alpha: float = 1.0,
) -> tuple[fb.Recipe, twin.Plan]:
    """Return a recipe and the same for the twin; ``size`` is the largest where it is "auto"."""
    buffer = {"paper": None, "buffered": max(9, size), "roomy": 3 * D}[cadence]
    recipe = fb.FSCLB(
        dimension=D,
        sketch_size="auto" if auto else size,
        agents=M,
        alpha=alpha,
        radius=0.3,
        estimate=estimate,
        wire=wire,
        cadence="paper" if buffer is None else "buffered",
        buffer=buffer,
        budget=budget_for(size, wire) if auto else None,
        server_size=server,
    )
    plan = twin.Plan(
        d=D,
        most=size,
        server=server or (min(2 * size, D + 1) if auto else size),
        auto=auto,
        buffer=buffer,
        estimate=estimate,
        width=wire,
        alpha=alpha,
    )
    return recipe, plan


def budget_for(size: int, wire: str) -> int:
    number = {"float64": 8, "float16": 2, "int8": 1}[wire]
    vector, scale = (8, 0) if wire == "float64" else (4, 4)
    return 96 + vector * D + (size - 1) * (number * D + scale)


def assert_same_server(server: fb.Server, held: twin.Parcel, *, rtol: float) -> None:
    """Assert that the server holds what the twin's does: b = sum r x - sum E theta', above all."""
    summary, dense, moment = server.summary, held.summary, held.moment
    assert isinstance(summary, Sketch)
    scale = 1.0 + float(np.sum(dense.rows**2)) + dense.lost
    assert summary.size == dense.size
    assert summary.lost == pytest.approx(dense.lost, abs=rtol * scale)
    assert summary.shed == pytest.approx(dense.shed, abs=rtol * scale)
    got = summary.rows.T @ summary.rows
    np.testing.assert_allclose(got, dense.rows.T @ dense.rows, atol=rtol * scale)
    expected = moment.plain - moment.carried + moment.slip
    np.testing.assert_allclose(server.moment, expected, atol=rtol * scale)


def rounding_of(wire: str) -> float:
    """A number that falls on the other side of a tie moves a float32 by its last bit."""
    return 1e-10 if wire == "float64" else 1e-6


@pytest.mark.parametrize("wire", ["float64", "int8"])
@pytest.mark.parametrize("cadence", ["paper", "buffered"])
@pytest.mark.parametrize("estimate", ["averaged", "corrected"])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_decisions_and_uploads_are_the_twins(
    world: World, estimate: str, cadence: str, wire: str
) -> None:
    recipe, plan = pair(size=5, cadence=cadence, estimate=estimate, wire=wire)
    fleet, server = recipe.fleet(), recipe.server()
    twins, dense = [twin.TwinAgent(plan) for _ in range(M)], twin.TwinServer(plan)
    uploads = 0
    for t, (who, arms, _, rewards) in enumerate(world.rounds(300)):
        k = fleet[who].choose(arms)
        assert k == twins[who].choose(arms), f"round {t}"
        upload = fleet[who].observe(k, float(rewards[k]))
        parcel = twins[who].observe(arms[k], float(rewards[k]))
        assert (upload is None) == (parcel is None), f"round {t}"
        if upload is not None and parcel is not None:
            uploads += 1
            (answer,) = server.receive(upload)
            fleet[who].receive(answer.message)
            dense.merge([parcel])
            twins[who].receive(dense.download())
    assert_same_server(server, dense.held, rtol=rounding_of(wire))
    assert 0 < uploads < 300
    assert server.summary.shed > 0.0


class Post:
    """Two federations in step, the shipped one and the twin, and a post that takes its time."""

    def __init__(self, recipe: fb.Recipe, plan: twin.Plan) -> None:
        self.fleet, self.server = recipe.fleet(), recipe.server()
        self.twins, self.dense = [twin.TwinAgent(plan) for _ in range(M)], twin.TwinServer(plan)
        self.uploads: dict[int, list[tuple[fb.Upload, twin.Parcel]]] = {m: [] for m in range(M)}
        self.downloads: dict[int, list[tuple[fb.Download, twin.Parcel]]] = {m: [] for m in range(M)}

    def play(self, this: Round, *, keep: bool) -> None:
        who, arms, _, rewards = this
        k = self.fleet[who].choose(arms)
        assert k == self.twins[who].choose(arms)
        upload = self.fleet[who].observe(k, float(rewards[k]))
        parcel = self.twins[who].observe(arms[k], float(rewards[k]))
        assert (upload is None) == (parcel is None)
        if upload is not None and parcel is not None:
            self.uploads[who].append((upload, parcel))
            if keep:
                self.fleet[who].keep(upload)
                self.twins[who].keep(parcel)

    def join(self, who: int) -> None:
        if len(self.uploads[who]) >= 2:
            (one, first), (other, second) = self.uploads[who][:2]
            both = self.fleet[who].packed(self.fleet[who].combined(one, other))
            self.uploads[who][:2] = [(both, self.twins[who].joined(first, second))]

    def deliver_upload(self, who: int) -> None:
        if self.uploads[who]:
            upload, parcel = self.uploads[who].pop(0)
            (answer,) = self.server.receive(upload)
            self.dense.merge([parcel])
            assert isinstance(answer.message, fb.Download)
            self.downloads[who].append((answer.message, self.dense.download()))

    def deliver_together(self, who: int) -> None:
        """Let one merge take in whatever waits, and answer one agent."""
        waiting = [pair for uploads in self.uploads.values() for pair in uploads]
        if waiting:
            merged = self.server.merged([upload for upload, _ in waiting])
            self.server.adopt(merged, version=self.server.version + len(waiting))
            self.dense.merge([parcel for _, parcel in waiting])
            self.uploads = {m: [] for m in range(M)}
            self.downloads[who].append((self.server.download(), self.dense.download()))

    def deliver_download(self, who: int) -> None:
        if self.downloads[who]:
            message, parcel = self.downloads[who].pop(0)
            assert message.summary.size == parcel.summary.size  # type: ignore[attr-defined]
            self.fleet[who].receive(message)
            self.twins[who].receive(parcel)


@pytest.mark.parametrize("wire", ["float64", "float16", "int8"])
@pytest.mark.parametrize("cadence", CADENCES)
@settings(max_examples=4)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([(2, None), (4, None), (4, 9), (7, D + 1), (D + 1, None)]),
    auto=st.booleans(),
    estimate=st.sampled_from(["averaged", "corrected", "corrected"]),
    alpha=st.sampled_from([0.1, 1.0]),
)
def test_no_error_is_forgotten_however_slow_the_post(
    cadence: str,
    wire: str,
    seed: int,
    size: tuple[int, int | None],
    auto: bool,
    estimate: str,
    alpha: float,
) -> None:
    rng = np.random.default_rng(seed)
    most, server = size
    recipe, plan = pair(
        size=most,
        server=server,
        auto=auto,
        cadence=cadence,
        estimate=estimate,
        wire=wire,
        alpha=alpha,
    )
    post = Post(recipe, plan)
    for this in synthetic(seed=seed % 1000, spectrum="power-law", decay=0.5).rounds(120):
        post.play(this, keep=bool(rng.random() < 0.3))
        who = int(rng.integers(M))
        for act in (post.join, post.deliver_upload, post.deliver_download):
            if rng.random() < 0.5:
                act(who)
        if rng.random() < 0.05:
            post.deliver_together(who)
    assert_same_server(post.server, post.dense.held, rtol=rounding_of(wire))


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_where_nothing_is_shed_every_estimate_is_fedlinucb(world: World) -> None:
    whole = fb.simulate(fb.FedLinUCB(dimension=D, agents=M, radius=0.3), world, rounds=400)
    for estimate in ("paper", "averaged", "corrected"):
        for cadence in ({}, {"cadence": "buffered"}):
            recipe = fb.RECIPES["FSCLB"](
                dimension=D, sketch_size=D + 1, agents=M, radius=0.3, estimate=estimate, **cadence
            )
            trace = fb.simulate(recipe, world, rounds=400)
            np.testing.assert_array_equal(trace.arm, whole.arm)
            np.testing.assert_array_equal(trace.uploaded, whole.uploaded)


@st.composite
def accounts(draw: st.DrawFn, *, width: str | None) -> tuple[Sketch, Array]:
    """Return a sketch after any sequence of merges, roundings and changes of size, and its arms."""
    d = draw(st.integers(1, 8))
    sketch, arms = empty_sketch(d, draw(st.integers(2, 10)), lost=0.0), np.zeros((0, d))
    for _ in range(draw(st.integers(1, 6))):
        more = draw(histories(dimension=d, most=12))
        size, rank = draw(st.integers(2, 10)), min(more.shape)
        made = sketch_of(more, shed=0.0, size=size)
        mass = max(0.0, float(np.sum(more**2) - made.squares.sum())) if rank else 0.0
        theirs: Sketch | Narrow = Sketch(made.rows, made.shed, size, mass)
        if width is not None and isinstance(theirs, Sketch):
            theirs = narrowed(theirs, width)
        sketch, arms = sketch.merge(theirs), np.vstack([arms, more])
        if draw(st.booleans()):
            sketch = sketch.resized(draw(st.integers(2, 10)))
    return sketch, arms


@settings(max_examples=50)
@given(accounts(width=None))
def test_lost_is_the_trace_that_is_missing(account: tuple[Sketch, Array]) -> None:
    sketch, arms = account
    mass, d = float(np.sum(arms**2)), arms.shape[1]
    assert sketch.lost == pytest.approx(mass - np.sum(sketch.rows**2), abs=1e-13 * (1e-9 + mass))
    assert sketch.lost <= d * sketch.shed + 1e-13 * mass
    said, meant = sketch.rows.T @ sketch.rows, arms.T @ arms
    assert_psd_order(said, meant, scale=mass)
    assert_psd_order(meant, said + sketch.shed * np.eye(d), scale=mass)
    assert len(sketch.rows) < sketch.size


@pytest.mark.parametrize("width", ["float16", "int8"])
@settings(max_examples=40)
@given(data=st.data())
def test_lost_is_no_less_with_rounded_rows(width: str, data: st.DataObject) -> None:
    sketch, arms = data.draw(accounts(width=width))
    mass, d = float(np.sum(arms**2)), arms.shape[1]
    assert sketch.lost is not None
    assert sketch.lost >= mass - np.sum(sketch.rows**2) - 1e-13 * mass
    assert sketch.lost <= d * sketch.shed + 1e-13 * mass
    lifted = sketch.rows.T @ sketch.rows + sketch.shed * np.eye(d)
    assert_psd_order(arms.T @ arms, lifted, scale=mass)


def test_asking_twice_for_what_is_pending_carries_it_once() -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=4, agents=1, estimate="corrected", alpha=1e9)
    memory, rng = recipe.parts.memory, np.random.default_rng(0)
    told = Statistics(memory.empty().summary, rng.standard_normal(D), 0)
    pending = memory.pending(Base(told, memory))
    for x in rng.standard_normal((9, D)):
        pending.absorb(x, float(x @ x), 1.0)
    first, moment = pending.summary(), pending.moment.copy()
    second = pending.summary()
    assert isinstance(first, Sketch)
    assert isinstance(second, Sketch)
    np.testing.assert_array_equal(pending.moment, moment)
    np.testing.assert_array_equal(second.rows, first.rows)
    assert (second.shed, second.lost) == (first.shed, first.lost)


def test_what_was_sent_stays_as_it_was_sent() -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=3, agents=1, estimate="corrected", alpha=0.5)
    agent, server, seen = recipe.agent(0), recipe.server(), []
    for this in synthetic(seed=3, agents=1).rounds(300):
        upload = agent.observe(agent.choose(this.arms), float(this.rewards[0]))
        if upload is not None:
            (answer,) = server.receive(upload)
            assert isinstance(answer.message, fb.Download)
            for message in (upload, answer.message):
                seen.append((message, message.moment.copy()))
            agent.receive(answer.message)
    assert len(seen) > 20
    for message, moment in seen:
        np.testing.assert_array_equal(message.moment, moment)
        with pytest.raises(ValueError, match="read-only"):
            message.moment[0] = 1.0


def quiet(world: World, rounds: int) -> Iterator[Round]:
    for who, arms, means, _ in world.rounds(rounds):
        yield Round(who, arms, means, means)


UNIFORM = [
    (estimate, wire, "uniform")
    for estimate in ("paper", "averaged", "corrected")
    for wire in ("float64", "float32", "float16", "bfloat16", "int8")
]
COORDINATES = [("paper", "float64"), ("corrected", "float64"), ("corrected", "fitted")]


@pytest.mark.parametrize(
    ("estimate", "wire", "compensation"),
    [*UNIFORM, *((*each, "coordinates") for each in COORDINATES)],
)
def test_without_noise_the_tight_radius_covers_every_error(
    estimate: Any, wire: Any, compensation: Any
) -> None:
    """Of all that ``radius`` allows for, only the last term, the bias, is needed here."""
    world = fb.worlds.Synthetic(dimension=D, arms=6, agents=M, seed=8, spectrum="power-law")
    tiny = fb.Bounds(noise=1e-9, horizon=1000)
    recipe = fb.FSCLB(
        dimension=D,
        sketch_size=4,
        agents=M,
        ridge=0.01,
        radius="tight",
        estimate=estimate,
        wire=wire,
        bounds=tiny,
        compensation=compensation,
    )
    fleet, server = recipe.fleet(), recipe.server()
    for who, arms, _, rewards in quiet(world, 500):
        agent = fleet[who]
        reading, beta = agent.policy.reading, agent.policy.radius
        off = np.abs(arms @ (agent.theta - world.theta))
        spare = (np.sqrt(1 + M) + M * np.sqrt(2)) * (1e-9 * np.sqrt(D * 40.0) + np.sqrt(0.01))
        bias = beta - reading.inflation * spare
        assert (off <= bias * np.sqrt(reading.squared_widths(arms)) + 1e-6).all()
        k = agent.choose(arms)
        if (upload := agent.observe(k, float(rewards[k]))) is not None:
            (answer,) = server.receive(upload)
            agent.receive(answer.message)
    assert server.version > 10


@pytest.mark.parametrize("estimate", ["averaged", "corrected"])
def test_the_papers_radius_is_for_the_papers_estimate(estimate: Any) -> None:
    with pytest.raises(
        errors.InvalidParameter, match=r"radius: 'paper' .* Use radius='auto', 'tight'"
    ):
        fb.FSCLB(dimension=D, sketch_size=4, agents=M, radius="paper", estimate=estimate)


@pytest.mark.parametrize("build", [fb.FSCLB, fb.FedLinUCB, fb.LinUCB, fb.SOFUL, fb.CBSCFD])
def test_recipes_that_carry_nothing_keep_no_account(build: Callable[..., fb.Recipe]) -> None:
    given_: dict[str, Any] = {"dimension": D, "agents": 1}
    if build in (fb.FSCLB, fb.SOFUL, fb.CBSCFD):
        given_["sketch_size"] = 4
    memory = build(**given_).parts.memory
    empty = memory.empty()
    assert Base(Statistics(empty.summary, np.ones(D), 0), memory).reference is None
    assert getattr(empty.summary, "lost", None) is None


SENT = Sketch(np.eye(D)[:3], 0.5, 4, 0.25)
CODED = rounded(SENT.rows, "int8")
STRANGERS: dict[str, tuple[dict[str, Any], object]] = {
    "narrow for float64": ({}, narrowed(SENT, "int8")),
    "another width": ({"wire": "int8"}, narrowed(SENT, "float16")),
    "no account": ({}, Sketch(SENT.rows, 0.5, 4)),
    "an account that nobody asked for": ({"estimate": "paper"}, SENT),
    "a larger size": ({}, Sketch(SENT.rows, 0.5, 5, 0.25)),
    "a smaller size": ({}, Sketch(SENT.rows[:1], 0.5, 3, 0.25)),
    "more rows than its size": ({}, Sketch(np.eye(D)[:4], 0.5, 4, 0.25)),
    "another dimension": ({}, Sketch(np.eye(3)[:2], 0.5, 4, 0.25)),
    "rows at angles": ({}, Sketch(np.ones((2, D)), 0.5, 4, 0.25)),
    "shed below 0": ({}, Sketch(SENT.rows, -0.5, 4, 0.25)),
    "shed that is no number": ({"wire": "int8"}, Narrow("int8", *CODED, np.nan, 4, 0.0)),
    "lost below 0": ({"wire": "int8"}, Narrow("int8", *CODED, 0.5, 4, -1.0)),
    "endless lost": ({"wire": "int8"}, Narrow("int8", *CODED, 0.5, 4, np.inf)),
    "a scale too few": ({"wire": "int8"}, Narrow("int8", CODED[0], CODED[1][1:], 0.5, 4, 0.0)),
    "rows too long": ({"wire": "int8"}, Narrow("int8", CODED[0], CODED[1] * 1e80, 0.5, 4, 0.0)),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_what_another_recipe_sends_is_refused_and_changes_nothing(case: str) -> None:
    changed, summary = STRANGERS[case]
    given_: dict[str, Any] = {"dimension": D, "sketch_size": 4, "agents": 1, "estimate": "averaged"}
    recipe = fb.FSCLB(**(given_ | changed))
    agent, server = recipe.agent(0), recipe.server()
    zero = np.zeros(D)
    said = "not orthogonal" if case == "rows at angles" else "expected a sketch of size 4.* lost"
    with pytest.raises(errors.InvalidMessage, match=said):
        server.receive(fb.Upload(0, fb.Statistics(summary, zero, 1)))
    with pytest.raises(errors.InvalidMessage, match=said):
        agent.receive(fb.Download(fb.Statistics(summary, zero, 1), 1))
    assert (server.version, agent.version, server.summary.shed) == (0, 0, 0.0)


def test_a_correction_that_is_cut_is_counted_and_warned_of() -> None:
    """An intercept of 10 makes theta' longer than four times the S that was told."""
    world = fb.worlds.Synthetic(dimension=D, arms=5, agents=M, seed=1, mean=10.0)
    recipe = fb.FSCLB(
        dimension=D, sketch_size=4, agents=M, cadence="buffered", estimate="corrected"
    )
    with pytest.warns(UserWarning, match=r"uploads was too long and was cut. Raise parameter_norm"):
        trace = fb.simulate(recipe, world, rounds=300)
    assert 0 < trace.cut <= trace.uploads[-1]
    told = fb.FSCLB(
        dimension=D,
        sketch_size=4,
        agents=M,
        cadence="buffered",
        estimate="corrected",
        bounds=fb.Bounds(parameter_norm=10.0),
    )
    for recipe in (told, fb.FSCLB.lean(dimension=D, agents=M)):
        assert fb.simulate(recipe, world, rounds=300).cut == 0
