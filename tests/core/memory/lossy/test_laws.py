"""Lossy summaries: V is never too small, unplayed coordinates stay exact, rounding is bounded."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit.core.kernels.rounding import ETA
from fedbandit.core.memory.lossy.fitted import (
    DOWNLOAD,
    UPLOAD,
    Fitted,
    fitted,
    least_trace,
    upload_charge,
)
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows, nothing_lost
from fedbandit.errors import InvalidMessage
from tests.core.memory.lossy.trees import arms, grown, unplayed_bound, violation

Array = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=300)
@given(seed=seeds, d=st.integers(1, 9), depth=st.integers(1, 6))
def test_the_upper_bound_holds_after_any_history(seed: int, d: int, depth: int) -> None:
    tree = grown(np.random.default_rng(seed), d, depth)
    assert violation(tree) <= 1e-12, tree.steps
    assert unplayed_bound(tree) == 0.0, tree.steps


@given(seed=seeds, d=st.integers(1, 9), size=st.integers(2, 10), whole=st.booleans())
def test_a_cut_loses_a_positive_semidefinite_part_in_proportion(
    seed: int, d: int, size: int, whole: bool
) -> None:
    """0 <= E <= diag(c), trace E = lost, and sum c <= d lost."""
    rng = np.random.default_rng(seed)
    x, ridge = arms(rng, d), float(10.0 ** rng.uniform(-2, 1))
    some, all_rows = (nothing_lost(x).leading(each, ridge, whole=whole) for each in (size, d + 1))
    kept = some.kept(size - 1)
    error, scale = x.T @ x - kept.rows.T @ kept.rows, float(np.sum(x**2)) + 1e-300
    assert len(kept.rows) < size
    assert np.linalg.eigvalsh(error)[0] >= -1e-13 * scale
    assert np.linalg.eigvalsh(np.diag(kept.bound) - error)[0] >= -1e-13 * scale
    assert kept.lost == pytest.approx(np.trace(error), abs=1e-12 * scale)
    assert kept.bound.sum() <= d * kept.lost + 1e-12 * scale
    again = all_rows.kept(size - 1)  # in two steps: the same
    np.testing.assert_allclose(again.bound, kept.bound, atol=1e-11 * scale)
    products = kept.rows.T @ kept.rows
    np.testing.assert_allclose(again.rows.T @ again.rows, products, atol=1e-11 * scale)


@given(seed=seeds, d=st.integers(2, 9), size=st.integers(2, 9))
def test_whole_rows_lose_less_for_the_same_bound(seed: int, d: int, size: int) -> None:
    """What is lost then is orthogonal to what is kept, in the metric of the cut."""
    rng = np.random.default_rng(seed)
    x, ridge = rng.standard_normal((3 * d, d)), float(10.0 ** rng.uniform(-2, 1))
    x *= 10.0 ** rng.uniform(0, 3 * rng.integers(0, 2), d)  # features of one size, or of many
    leading, whole = (nothing_lost(x).leading(size, ridge, whole=each) for each in (False, True))
    shrunk, kept = leading.kept(size - 1), whole.kept(size - 1)
    np.testing.assert_allclose(kept.bound, shrunk.bound, rtol=1e-9)
    scale = float(np.sum(x**2))
    if kept.lost >= shrunk.lost * (1 - 1e-9):
        np.testing.assert_allclose(kept.rows, shrunk.rows, atol=1e-9 * np.sqrt(scale))
        return
    inverse = np.diag(1.0 / (ridge + (x * x).sum(axis=0)))
    crossed = kept.rows @ inverse @ (x.T @ x - kept.rows.T @ kept.rows)
    assert np.abs(crossed).max(initial=0.0) <= 1e-9 * np.sqrt(scale)


@given(
    seed=seeds,
    d=st.integers(1, 12),
    k=st.integers(1, 12),
    charge=st.sampled_from([1e-6, 1e-2, 1.0]),
    spread=st.floats(0.0, 4.0),
)
def test_rounding_adds_no_more_than_its_charge(
    seed: int, d: int, k: int, charge: float, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-spread, spread, (k, 1))
    sent = fitted(nothing_lost(rows), charge)
    assert sent.bound.max() <= charge * 2.0 ** (1 / 8) * (1 + 1e-5)
    assert sent.weight == 1.0 + ETA
    gap = sent.weight * sent.rows.T @ sent.rows + np.diag(sent.bound) - rows.T @ rows
    assert np.linalg.eigvalsh(gap)[0] >= -1e-13 * float(np.sum(rows**2))
    largest = np.abs(sent.codes.astype(np.int64)).max(axis=1)
    assert (largest < 2.0 ** (sent.bits - 1)).all()
    assert ((largest >= 2.0 ** (sent.bits - 2)) | (sent.bits == 1)).all()
    assert least_trace(sent) <= float(np.sum(rows**2)) * (1 + 1e-12)


def test_bits_follow_the_size_of_a_row() -> None:
    row = np.random.default_rng(0).standard_normal((1, 50))
    bits = [int(fitted(nothing_lost(row * 2.0**p), 0.01).bits[0]) for p in range(8)]
    assert np.diff(bits).tolist() == [1] * 7


def test_rows_too_large_for_their_bits_pay_in_the_bound() -> None:
    rows = 1e12 * np.random.default_rng(0).standard_normal((2, 5))
    sent = fitted(nothing_lost(rows), 1e-6)
    assert sent.bits.max() <= 32
    assert sent.bound.max() > 1.0
    gap = sent.weight * sent.rows.T @ sent.rows + np.diag(sent.bound) - rows.T @ rows
    assert np.linalg.eigvalsh(gap)[0] >= -1e-13 * float(np.sum(rows**2))


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e12)), min_size=1, max_size=20))
def test_a_sent_bound_is_never_below_the_bound(bound: list[float]) -> None:
    meant = np.array(bound)
    said = fitted(LossyRows(np.zeros((0, len(bound))), meant, 0.0), 1.0).bound
    assert (said >= meant).all()
    assert (said[meant == 0.0] == 0.0).all()
    near = np.maximum(meant, meant.max() * 2.0**-31)
    assert (said <= near * 2.0 ** (1 / 8) * (1 + 1e-5)).all()


@given(seed=seeds, uploads=st.integers(1, 400), growth=st.floats(1.001, 3.0))
def test_uploads_of_an_agent_add_up_to_at_most_five_charges(
    seed: int, uploads: int, growth: float
) -> None:
    """Whatever their sizes: the agent has seen all of its own."""
    rng = np.random.default_rng(seed)
    total, seen = 0.0, 0.0
    for _ in range(uploads):
        trace = float(rng.uniform(0.0, growth - 1.0) * (seen + rng.exponential()))
        seen += trace
        total += upload_charge(trace, seen, 1.0)
    assert total <= 5.0 * UPLOAD


def low_rank(rounds: int, seed: int = 0) -> tuple[fb.Recipe, fb.Server, list[fb.Agent], Array]:
    d, rank, m = 20, 3, 4
    recipe = fb.FSCLB.lean(dimension=d, agents=m)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    fleet, server = recipe.fleet(), recipe.server()
    rng = np.random.default_rng(seed + 1)
    for t in range(rounds):
        some = rng.standard_normal((5, rank)) @ basis[:, :rank].T
        some /= np.linalg.norm(some, axis=1)[:, None]
        agent = fleet[t % m]
        k = agent.choose(some)
        reward = float(some[k] @ basis[:, 0] + 0.1 * rng.standard_normal())
        if (upload := agent.observe(k, reward)) is not None:
            for directed in server.receive(upload):
                fleet[directed.agent].receive(directed.message)
    return recipe, server, fleet, basis[:, rank:].T


@pytest.mark.parametrize("rounds", [300, 3000, 12000])
def test_directions_that_were_not_played_keep_their_width(rounds: int) -> None:
    """The same share of the ridge, however long the run."""
    recipe, server, fleet, unplayed = low_rank(rounds)
    assert server.summary.bound.max() <= 5 * UPLOAD * recipe.agents * 2.0 ** (1 / 8)
    most = server.summary.bound.max() + (1 + ETA) * DOWNLOAD + 0.02 * (1 + ETA) + 0.01
    for agent in fleet:
        widths = agent.policy.reading.squared_widths(unplayed)
        assert (widths >= 1.0 / (1.0 + 2.0 ** (1 / 8) * most)).all()
        assert (widths >= 0.81).all()


@pytest.mark.parametrize("estimate", ["paper", "corrected"])
@pytest.mark.parametrize("cadence", ["paper", "buffered"])
def test_where_everything_is_kept_it_is_fedlinucb(estimate: str, cadence: str) -> None:
    d, m = 8, 3
    world = fb.worlds.Synthetic(dimension=d, arms=5, agents=m, seed=3)
    whole = fb.simulate(fb.FedLinUCB(dimension=d, agents=m), world, rounds=400)
    recipe = fb.RECIPES["FSCLB"](
        dimension=d,
        sketch_size=d + 1,
        agents=m,
        estimate=estimate,
        cadence=cadence,
        compensation="coordinates",
    )
    trace = fb.simulate(recipe, world, rounds=400)
    np.testing.assert_array_equal(trace.arm, whole.arm)
    np.testing.assert_array_equal(trace.uploaded, whole.uploaded)


@pytest.mark.parametrize("cadence", ["paper", "buffered"])
@pytest.mark.parametrize(
    ("wire", "estimate"), [("float64", "paper"), ("float64", "corrected"), ("fitted", "corrected")]
)
def test_v_is_never_below_ridge_and_everything_observed(
    wire: str, cadence: str, estimate: str
) -> None:
    """Of every agent after every message, whatever was cut and rounded on the way."""
    d, m = 10, 3
    world = fb.worlds.Synthetic(dimension=d, arms=6, agents=m, seed=1, spectrum="power-law")
    recipe = fb.RECIPES["FSCLB"](
        dimension=d,
        sketch_size=4,
        agents=m,
        ridge=0.3,
        estimate=estimate,
        cadence=cadence,
        wire=wire,
        compensation="coordinates",
    )
    fleet, server = recipe.fleet(), recipe.server()
    merged, own = np.zeros((d, d)), [np.zeros((d, d)) for _ in range(m)]
    for who, some, _, rewards in world.rounds(400):
        k = fleet[who].choose(some)
        own[who] += np.outer(some[k], some[k])
        if (upload := fleet[who].observe(k, float(rewards[k]))) is not None:
            merged, own[who] = merged + own[who], np.zeros((d, d))
            (answer,) = server.receive(upload)
            fleet[who].receive(answer.message)
            inverse = np.array([fleet[who].policy.reading.solve(e) for e in np.eye(d)])
            gap = np.linalg.inv(inverse) - 0.3 * np.eye(d) - merged
            assert np.linalg.eigvalsh(gap)[0] >= -1e-9 * np.trace(merged)
    assert server.summary.bound.max() > 0.0
    assert isinstance(upload_of(recipe), Fitted if wire == "fitted" else LossyRows)


def upload_of(recipe: fb.Recipe) -> object:
    agent = recipe.agent(0)
    agent.observe(np.ones(recipe.dimension), 1.0)
    return agent.collect().summary


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 3)])
def test_a_matrix_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    agent = fb.FSCLB.lean(dimension=4, agents=2).agent(0)
    summary = LossyGram(np.zeros(shape), np.zeros(4), 0.0)
    with pytest.raises(InvalidMessage):
        agent.receive(fb.Download(fb.Statistics(summary, np.zeros(4), 3), 1))


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
@pytest.mark.parametrize("kind", ["rank 1", "a time in seconds"])
@pytest.mark.parametrize("size", [1.0, 1e8, 1e20])
def test_arms_beside_which_rounding_hides_the_ridge_can_be_played(
    ridge: float, kind: str, size: float
) -> None:
    """Offline too, where the rows of uploads lie beside those of the download."""
    d, rng = 3, np.random.default_rng(0)
    recipe = fb.FSCLB.lean(dimension=d, agents=2, ridge=ridge)
    fleet, server = recipe.fleet(), recipe.server()
    for t in range(40):
        arms = rng.standard_normal((4, d))
        if kind == "rank 1":
            arms[:] = arms[:, :1]
        else:
            arms[:, 0] = 1.7e9
        agent = fleet[t % 2]
        upload = agent.observe(agent.choose(size * arms), float(rng.standard_normal()))
        if upload is not None:
            agent.keep(upload)
            for directed in server.receive(upload):
                fleet[directed.agent].receive(directed.message)
    assert server.count > 0


def test_arms_of_1e60_are_no_mistake_of_their_agent() -> None:
    """The bound on what is lost is as large as squares of arms are."""
    recipe = fb.FSCLB.lean(dimension=3, agents=2)
    agent, server = recipe.agent(0), recipe.server()
    for arm in 1e60 * np.random.default_rng(0).standard_normal((9, 3)):
        if (upload := agent.observe(arm, 1.0)) is not None:
            server.receive(upload)
    assert server.count > 1


@pytest.mark.parametrize("wire", ["float64", "fitted"])
def test_a_server_smaller_than_a_buffer_does_not_keep_agents_from_waiting(
    wire: Literal["float64", "fitted"],
) -> None:
    d = 20
    recipe = fb.FSCLB(
        dimension=d,
        sketch_size=4,
        agents=2,
        alpha=1e9,
        server_size=5,
        cadence="buffered",
        estimate="corrected",
        compensation="coordinates",
        wire=wire,
    )
    agent, uploads = recipe.agent(0), []
    for _ in range(2):
        for arm in np.eye(d):
            agent.observe(arm, 1.0)
        uploads.append(agent.collect(pack=False))
        agent.keep(uploads[-1])
    packed = agent.packed(agent.combined(*uploads))
    assert packed.count == 2 * d
    recipe.server().receive(packed)
