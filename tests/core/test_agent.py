"""Agents and servers by hand: saved states, late rewards, late messages, bad input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors
from fedbandit.core.memory.summary import empty_gram, empty_sketch
from fedbandit.core.messages import Download
from fedbandit.core.statistics import Statistics
from fedbandit.testing import Fleet, assert_same_state
from fedbandit.testing.fleet import assert_goes_on
from tests.core.builds import BUILDS, D, M, every_recipe


@every_recipe
@settings(max_examples=10)
@given(before=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_restored_fleets_go_on_bit_for_bit(recipe: fb.Recipe, before: int, seed: int) -> None:
    assert_goes_on(recipe, before=before, seed=seed)


@pytest.mark.parametrize("shape", [(4, D), (2, 0, D), (2, 3, D + 1)])
def test_batches_of_another_shape(shape: tuple[int, ...]) -> None:
    agent = fb.LinUCB(dimension=D).agent(0)
    with pytest.raises(errors.InvalidArms, match=r"expected an array of shape \(B, K, 6\)"):
        agent.choose_many(np.zeros(shape))
    with pytest.raises(errors.InvalidArms, match="nan in arm 1"):
        agent.choose_many([[[0.0] * D, [np.nan] * D]])


def test_a_batch_given_to_choose_is_told_where_to_go() -> None:
    with pytest.raises(errors.InvalidArms, match="choose_many"):
        fb.LinUCB(dimension=D).agent(0).choose(np.zeros((2, 3, D)))


def test_arms_are_copied() -> None:
    recipe = fb.LinUCB(dimension=D)
    arms = np.random.default_rng(0).standard_normal((4, D))
    original, agent, other = arms.copy(), recipe.agent(0), recipe.agent(0)
    chosen = agent.choose(arms)
    arms[:] = 7.0
    agent.observe(chosen, 1.0)
    other.choose(original)
    other.observe(chosen, 1.0)
    assert_same_state(agent.state() | {"shown": 0}, other.state() | {"shown": 0})


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_kinds_of_numbers_and_layouts(dtype: str) -> None:
    arms = np.random.default_rng(0).integers(-9, 9, size=(4, D)).astype(dtype)
    plain, strided = fb.LinUCB(dimension=D).agent(0), fb.LinUCB(dimension=D).agent(0)
    assert plain.choose(arms.astype(float)) == strided.choose(np.asfortranarray(arms)[::1])
    assert strided.choose(arms.tolist()) == plain.choose(arms)


def test_downloads_may_be_late_repeated_and_out_of_order() -> None:
    """An agent goes on observing while its upload travels; old news changes nothing."""
    recipe = fb.FSCLB(dimension=D, sketch_size=3, agents=M, alpha=0.1)
    rng, agent, server = np.random.default_rng(1), recipe.agent(0), recipe.server()
    answers: list[Download] = []
    while len(answers) < 3:
        upload = agent.observe(rng.standard_normal(D), 1.0)
        if upload is not None:
            (answer,) = server.receive(upload)
            assert isinstance(answer.message, Download)
            answers.append(answer.message)
    pending = agent.state()["pending.count"]
    agent.receive(answers[2])
    late = agent.state()
    for old in answers:
        agent.receive(old)
        assert_same_state(agent.state(), late)
    assert agent.version == 3
    assert late["pending.count"] == pending
    np.testing.assert_allclose(
        agent.theta, recipe.parts.memory.read(server.summary).solve(server.moment)
    )


@pytest.mark.parametrize("name", ["FSCLB", "FSCLB, buffered", "FedLinUCB"])
def test_an_agent_that_is_cut_off_learns_as_if_it_had_a_server_to_itself(name: str) -> None:
    recipe, rng = BUILDS[name](), np.random.default_rng(2)
    alone, served, server = recipe.agent(0), recipe.agent(0), recipe.server()
    kept = 0
    for _ in range(300):
        arms, reward = rng.standard_normal((4, D)), float(rng.standard_normal())
        played = alone.choose(arms)
        assert played == served.choose(arms)
        mine, theirs = alone.observe(played, reward), served.observe(played, reward)
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            alone.keep(mine)
            served.receive(server.receive(theirs)[0].message)
            kept += 1
    assert kept > 3
    assert alone.version == 0
    np.testing.assert_array_equal(alone.theta, served.theta)
    alone.receive(server.download())  # holds what it kept, and takes its place
    assert alone.version == kept
    np.testing.assert_array_equal(alone.theta, served.theta)
    assert alone.choose(arms) == served.choose(arms)


def test_keeping_what_is_held_already_or_does_not_fit() -> None:
    agent = fb.AsyncLinUCB(dimension=D, agents=M, upload_growth=1.01).agent(0)
    upload = agent.observe(np.ones(D), 1.0)
    assert upload is not None
    for keeper in (agent, fb.FSCLB(dimension=D, sketch_size=3, agents=M).agent(0)):
        before = keeper.state()
        with pytest.raises((errors.OutOfOrder, errors.InvalidMessage)):
            keeper.keep(upload)
        assert_same_state(keeper.state(), before)


@pytest.mark.parametrize(
    "upload", [None, 5, fb.Upload(1, fb.Statistics(fb.Gram(np.eye(D)), np.zeros(D), 1))]
)
def test_keeping_what_is_no_upload_of_ones_own(upload: Any) -> None:
    agent = fb.FedLinUCB(dimension=D, agents=M).agent(0)
    before = agent.state()
    with pytest.raises(errors.InvalidMessage, match="of its own"):
        agent.keep(upload)
    assert_same_state(agent.state(), before)


def test_trust_does_not_spread() -> None:
    """What came from outside, and what is made of it, is checked wherever it goes."""
    gram, broken = empty_gram(D), fb.Gram(np.full((D, D), np.nan))
    assert gram.trusted
    assert gram.merge(empty_gram(D)).trusted
    assert not gram.merge(broken).trusted
    sketch = empty_sketch(D, 3)
    assert sketch.trusted
    assert not replace(sketch, rows=np.full((1, D), np.nan)).trusted
    rows = np.eye(2, D)
    merged = sketch.merge(fb.Sketch(rows, 0.0, 3))
    assert not merged.trusted
    rows[:] = np.nan
    assert np.isfinite(merged.rows).all()
    server = fb.FedLinUCB(dimension=D, agents=M).server()
    with pytest.raises(errors.InvalidMessage):
        server.receive(fb.Upload(0, fb.Statistics(gram.merge(broken), np.zeros(D), 1)))


def test_async_agents_hold_exactly_what_the_server_thinks_they_hold() -> None:
    fleet = Fleet(fb.AsyncLinUCB(dimension=D, agents=M, upload_growth=1.3, download_growth=1.5))
    fleet.play(np.random.default_rng(0), 200)
    for index, agent in enumerate(fleet.agents):
        held = fleet.server.held_by(index).summary
        assert isinstance(held, fb.Gram)
        np.testing.assert_allclose(agent.state()["base.matrix"], held.matrix, rtol=1e-12)


def test_a_disrupted_sync_of_dislinucb_ends_when_everyone_has_sent() -> None:
    recipe = fb.DisLinUCB(dimension=D, agents=3, wait=1e-6)
    agents, server = recipe.fleet(), recipe.server()
    first = agents[0].observe(np.ones(D), 1.0)
    assert first is not None
    asked = server.receive(first)
    assert [(a.agent, a.message) for a in asked] == [(1, fb.Collect()), (2, fb.Collect())]
    eager = agents[0].observe(np.ones(D), 1.0)
    assert eager is not None
    assert server.receive(eager) == []
    server = fb.Server.restore(recipe, server.state())
    answer = agents[1].receive(fb.Collect())
    assert answer is not None
    assert server.receive(answer) == []
    answer = agents[2].receive(fb.Collect())
    assert answer is not None
    assert [a.agent for a in server.receive(answer)] == [0, 1, 2]
    assert server.count == 2


def test_nobody_can_write_into_a_message() -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=3, agents=M, alpha=1e-3)
    server = recipe.server()
    upload = recipe.agent(0).observe(np.ones(D), 1.0)
    assert upload is not None
    (answer,) = server.receive(upload)
    assert isinstance(answer.message, Download)
    for array in (upload.moment, answer.message.moment, fb.Gram(np.eye(2)).matrix):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        server.summary.rows[:] = 7.0


def test_a_late_answer_to_a_sync_that_is_over_is_answered_by_nobody() -> None:
    recipe = fb.DisLinUCB(dimension=D, agents=2, wait=1e-6)
    agents, server = recipe.fleet(), recipe.server()
    first, eager = (agent.observe(np.ones(D), 1.0) for agent in agents)
    assert first is not None
    assert eager is not None
    server.receive(first)
    assert len(server.receive(eager)) == 2
    late = agents[1].receive(fb.Collect())
    assert late is not None
    assert server.receive(late) == []


def foreign_uploads() -> dict[str, Any]:
    sketch = fb.Sketch(np.eye(2, D), 0.5, 3)
    skewed = np.array([[1.0] + [0.0] * (D - 1), [1.0, 0.1] + [0.0] * (D - 2)])
    return {
        "no upload": "hello",
        "agent as text": fb.Upload("0", fb.Statistics(sketch, np.zeros(D), 1)),  # type: ignore[arg-type]
        "float count": fb.Upload(0, fb.Statistics(sketch, np.zeros(D), 1.5)),  # type: ignore[arg-type]
        "moment of whole numbers": fb.Upload(0, fb.Statistics(sketch, np.zeros(D, dtype=int), 1)),
        "skewed rows": fb.Upload(0, fb.Statistics(fb.Sketch(skewed, 0.5, 3), np.zeros(D), 1)),
        "huge rows": fb.Upload(
            0, fb.Statistics(fb.Sketch(np.eye(2, D) * 1e200, 0.5, 3), np.zeros(D), 1)
        ),
        "agent": fb.Upload(M, fb.Statistics(sketch, np.zeros(D), 1)),
        "kind": fb.Upload(0, fb.Statistics(fb.Gram(np.eye(D)), np.zeros(D), 1)),
        "size": fb.Upload(0, fb.Statistics(fb.Sketch(np.eye(2, D), 0.5, 4), np.zeros(D), 1)),
        "rows": fb.Upload(0, fb.Statistics(fb.Sketch(np.eye(3, D), 0.5, 3), np.zeros(D), 1)),
        "dimension": fb.Upload(
            0, fb.Statistics(fb.Sketch(np.eye(2, D + 1), 0.5, 3), np.zeros(D), 1)
        ),
        "shed": fb.Upload(0, fb.Statistics(fb.Sketch(np.eye(2, D), -0.5, 3), np.zeros(D), 1)),
        "nan shed": fb.Upload(
            0, fb.Statistics(fb.Sketch(np.eye(2, D), float("nan"), 3), np.zeros(D), 1)
        ),
        "nan rows": fb.Upload(
            0, fb.Statistics(fb.Sketch(np.full((2, D), np.nan), 0.5, 3), np.zeros(D), 1)
        ),
        "moment": fb.Upload(0, fb.Statistics(sketch, np.zeros(D + 1), 1)),
        "nan moment": fb.Upload(0, fb.Statistics(sketch, np.full(D, np.nan), 1)),
        "count": fb.Upload(0, fb.Statistics(sketch, np.zeros(D), -1)),
    }


@pytest.mark.parametrize("upload", foreign_uploads().values(), ids=foreign_uploads())
def test_uploads_that_do_not_fit_change_nothing(upload: Any) -> None:
    server = fb.FSCLB(dimension=D, sketch_size=3, agents=M).server()
    before = server.state()
    with pytest.raises(errors.InvalidMessage):
        server.receive(upload)
    assert_same_state(server.state(), before)


@pytest.mark.parametrize("scale", [-5.0, np.nan, 1e200, 1j])
def test_matrices_that_are_no_sums_of_squares(scale: Any) -> None:
    server = fb.FedLinUCB(dimension=D, agents=M).server()
    crooked = np.eye(D)
    crooked[0, 1] = 0.5
    for matrix in (np.eye(D) * scale, crooked, np.ones((D, D)) - np.eye(D)):
        with pytest.raises(errors.InvalidMessage):
            server.receive(fb.Upload(0, fb.Statistics(fb.Gram(matrix), np.zeros(D), 1)))
    assert server.version == 0


def test_downloads_that_do_not_fit_change_nothing() -> None:
    agent = fb.FedLinUCB(dimension=D, agents=M).agent(0)
    before = agent.state()
    for message in (
        Download(Statistics(fb.Gram(np.eye(D + 1)), np.zeros(D), 1), 1),
        Download(Statistics(fb.Gram(np.full((D, D), np.inf)), np.zeros(D), 1), 1),
        Download(Statistics(fb.Sketch(np.eye(2, D), 0.0, 3), np.zeros(D), 1), 1),
        Download(Statistics(fb.Gram(np.eye(D)), np.zeros(D - 1), 1), 1),
        "hello",
    ):
        with pytest.raises(errors.InvalidMessage):
            agent.receive(message)  # type: ignore[arg-type]
    assert_same_state(agent.state(), before)
