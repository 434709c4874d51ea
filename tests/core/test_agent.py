"""Agents and servers by hand: saved states, late rewards, late messages, bad input."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
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

D, M = 6, 3
BUILDS: dict[str, Callable[[], fb.Recipe]] = {
    "FSCLB": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M),
    "FSCLB, buffered": lambda: fb.FSCLB(
        dimension=D, sketch_size=3, agents=M, cadence="buffered", buffer=8, alpha=9.0
    ),
    "FSCLB, paper": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "FSCLB, tight": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M, radius="tight"),
    "FedLinUCB": lambda: fb.FedLinUCB(dimension=D, agents=M),
    "FedLinUCB, published": lambda: fb.FedLinUCB(
        dimension=D, agents=M, determinant="every-round", radius="paper"
    ),
    "FedLinUCB, rank-one": lambda: fb.FedLinUCB(dimension=D, agents=M, determinant="rank-one"),
    "AsyncLinUCB": lambda: fb.AsyncLinUCB(dimension=D, agents=M, radius="paper"),
    "DisLinUCB": lambda: fb.DisLinUCB(dimension=D, agents=M, wait=3.0),
    "LinUCB": lambda: fb.LinUCB(dimension=D, agents=M, radius="paper"),
    "Centralised": lambda: fb.Centralised(dimension=D, agents=M),
    "SOFUL": lambda: fb.SOFUL(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "CBSCFD": lambda: fb.CBSCFD(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "Random": lambda: fb.Random(dimension=D, agents=M, seed=4),
}
every_recipe = pytest.mark.parametrize("recipe", [b() for b in BUILDS.values()], ids=BUILDS)


class Fleet:
    """Agents and a server joined by hand, with the arms that they play."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self.recipe, self.agents, self.server = recipe, recipe.fleet(), recipe.server()

    def play(self, rng: np.random.Generator, rounds: int) -> list[int]:
        played = []
        for _ in range(rounds):
            arms, who = rng.standard_normal((4, D)), int(rng.integers(M))
            played.append(self.agents[who].choose(arms))
            upload = self.agents[who].observe(played[-1], float(rng.standard_normal()))
            waiting = [] if upload is None else [upload]
            while waiting:
                for answer in self.server.receive(waiting.pop()):
                    follow_up = self.agents[answer.agent].receive(answer.message)
                    waiting += [] if follow_up is None else [follow_up]
        return played

    def saved(self) -> "Fleet":
        """Return a copy of the fleet that has gone through files."""
        again = Fleet(self.recipe)
        again.server = fb.Server.restore(self.recipe, through_a_file(self.server.state()))
        again.agents = [
            fb.Agent.restore(self.recipe, through_a_file(agent.state())) for agent in self.agents
        ]
        return again


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = BytesIO()
    np.savez(file, allow_pickle=False, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


def assert_same_state(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)


@every_recipe
@settings(max_examples=10)
@given(before=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_restored_fleets_go_on_bit_for_bit(recipe: fb.Recipe, before: int, seed: int) -> None:
    if recipe.parts.shared:
        recipe = fb.LinUCB(dimension=D, agents=M)  # one learner is one state, not M of them
    fleet = Fleet(recipe)
    fleet.play(np.random.default_rng(seed), before)
    again = fleet.saved()
    for one, other in zip(fleet.agents, again.agents, strict=True):
        assert_same_state(one.state(), other.state())
    fates = [f.play(np.random.default_rng(seed + 1), 40) for f in (fleet, again)]
    assert fates[0] == fates[1]
    for one, other in zip(fleet.agents, again.agents, strict=True):
        assert_same_state(one.state(), other.state())
    assert_same_state(fleet.server.state(), again.server.state())


@every_recipe
def test_restored_between_choose_and_observe(recipe: fb.Recipe) -> None:
    fleet = Fleet(recipe)
    rng = np.random.default_rng(0)
    for _ in range(20):
        fleet.play(rng, 10)
        agent, arms = fleet.agents[1], rng.standard_normal((4, D))
        chosen = agent.choose(arms)
        again = fb.Agent.restore(recipe, agent.state())
        agent.observe(chosen, 1.0)
        again.observe(chosen, 1.0)
        assert_same_state(agent.state(), again.state())


@every_recipe
def test_an_arm_by_its_features_is_the_arm_by_its_index(recipe: fb.Recipe) -> None:
    arms = np.random.default_rng(0).standard_normal((4, D))
    by_index, by_features = recipe.agent(0), recipe.agent(0)
    chosen = by_index.choose(arms)
    assert by_features.choose(arms) == chosen
    by_index.observe(chosen, 0.5)
    by_features.observe(list(arms[chosen]), 0.5)
    assert_same_state(by_index.state(), by_features.state())


@every_recipe
def test_many_decisions_are_each_as_one(recipe: fb.Recipe) -> None:
    fleet = Fleet(recipe)
    fleet.play(np.random.default_rng(3), 40)
    agent, again = fleet.agents[1], fb.Agent.restore(recipe, fleet.agents[1].state())
    batch = np.random.default_rng(4).standard_normal((7, 4, D))
    batch[2] = 1.0  # all arms tie
    assert agent.choose_many(batch).tolist() == [again.choose(arms) for arms in batch]
    assert agent.state()["decisions"] == again.state()["decisions"]
    assert agent.choose_many(np.zeros((0, 4, D))).tolist() == []


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


GOOD = np.eye(4, D)
BAD_ARMS: dict[str, tuple[Any, str]] = {
    "nan": (np.where(np.arange(4 * D).reshape(4, D) == 8, np.nan, GOOD), "nan in arm 1, feature 2"),
    "infinite": (np.full((2, D), np.inf), "inf in arm 0, feature 0"),
    "wrong dimension": (np.eye(4, D + 1), r"shape \(4, 7\)"),
    "no arms": (np.zeros((0, D)), r"shape \(0, 6\)"),
    "one arm, flat": (np.ones(D), r"shape \(6,\)"),
    "ragged": ([[1.0] * D, [1.0]], "inhomogeneous"),
    "text": ([["1"] * D], "numbers of type <U1"),
    "complex": (np.eye(4, D) * 1j, "numbers of type complex128"),
    "nothing": (None, "numbers of type object"),
}


@every_recipe
@pytest.mark.parametrize(("arms", "complaint"), BAD_ARMS.values(), ids=BAD_ARMS)
def test_bad_arms_change_nothing(recipe: fb.Recipe, arms: Any, complaint: str) -> None:
    agent = recipe.agent(0)
    agent.observe(agent.choose(GOOD), 1.0)
    before = agent.state()
    with pytest.raises(errors.InvalidArms, match=complaint) as caught:
        agent.choose(arms)
    assert f"K >= 1 rows and {D} columns" in str(caught.value)
    assert_same_state(agent.state(), before)


@every_recipe
@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 10**400, "much", None, [1.0]])
def test_bad_rewards_change_nothing(recipe: fb.Recipe, reward: Any) -> None:
    agent = recipe.agent(0)
    chosen = agent.choose(GOOD)
    before = agent.state()
    with pytest.raises(errors.InvalidReward, match="expected one finite number"):
        agent.observe(chosen, reward)
    assert_same_state(agent.state(), before)


@every_recipe
def test_arms_that_were_not_shown(recipe: fb.Recipe) -> None:
    agent = recipe.agent(0)
    with pytest.raises(errors.OutOfOrder, match=r"choose\(arms\) first"):
        agent.observe(0, 1.0)
    agent.choose(GOOD)
    before = agent.state()
    for arm in (4, -1):
        with pytest.raises(errors.InvalidArms, match="index from 0 to 3"):
            agent.observe(arm, 1.0)
    wrong: list[Any] = [np.ones(D - 1), np.full(D, np.nan), np.ones((2, D)), [1, [2]], True, 1j]
    for features in [*wrong, np.full(D, 1e160)]:
        with pytest.raises(errors.InvalidArms):
            agent.observe(features, 1.0)
    assert_same_state(agent.state(), before)


@every_recipe
def test_states_that_do_not_fit(recipe: fb.Recipe) -> None:
    agent, server = recipe.agent(2), recipe.server()
    other = fb.FSCLB(dimension=D, sketch_size=5, agents=M)
    for state, restore in (
        (agent.state(), fb.Agent.restore),
        (server.state(), fb.Server.restore),
    ):
        with pytest.raises(errors.InvalidState, match="sketch_size=5"):
            restore(other, state)
        for key in (each for each in state if not each.endswith("rewards")):
            with pytest.raises(errors.InvalidState, match=key.split(".")[-1]):
                restore(recipe, {k: v for k, v in state.items() if k != key})
        for key in [key for key in state if key.endswith("moment")]:
            with pytest.raises(errors.InvalidState, match="moment"):
                restore(recipe, state | {key: np.full(D, np.nan)})


@every_recipe
def test_an_observation_that_would_overflow_changes_nothing(recipe: fb.Recipe) -> None:
    agent = recipe.agent(0)
    agent.choose(GOOD)
    before = agent.state()
    with pytest.raises(errors.InvalidArms, match="squares are finite"):
        agent.observe(0, 1e200)
    assert_same_state(agent.state(), before)


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
