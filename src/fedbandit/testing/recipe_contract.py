"""What every recipe must do: what its agents and its server must, whatever parts it is made of."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedbandit.core.agent import Agent
from fedbandit.core.algorithms.baselines import LinUCB
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.messages import Collect, Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Statistics
from fedbandit.errors import (
    InvalidArms,
    InvalidMessage,
    InvalidParameter,
    InvalidReward,
    InvalidState,
    OutOfOrder,
)
from fedbandit.simulation import simulate
from fedbandit.testing.fleet import Fleet, assert_goes_on, assert_same_fleet, assert_same_state
from fedbandit.testing.small_worlds import SMALL_WORLDS, small_worlds

Build = Callable[..., Recipe]

BAD_ARMS: dict[str, Callable[[int], tuple[Any, str]]] = {
    "nan": lambda d: (_with_nan(d), f"nan in arm 1, feature {d // 3}"),
    "infinite": lambda d: (np.full((2, d), np.inf), "inf in arm 0, feature 0"),
    "wrong dimension": lambda d: (np.eye(4, d + 1), rf"shape \(4, {d + 1}\)"),
    "no arms": lambda d: (np.zeros((0, d)), rf"shape \(0, {d}\)"),
    "one arm, flat": lambda d: (np.ones(d), rf"shape \({d},\)"),
    "ragged": lambda d: ([[1.0] * d, [1.0] * (d + 1)], "inhomogeneous"),
    "text": lambda d: ([["1"] * d], "numbers of type <U1"),
    "complex": lambda d: (np.eye(4, d) * 1j, "numbers of type complex128"),
    "nothing": lambda _: (None, "numbers of type object"),
}


def foreign_statistics(given: Statistics) -> dict[str, Statistics]:
    """Return statistics that are like the given ones and fit no recipe of their dimension."""
    d, summary, moment, count = len(given.moment), given.summary, given.moment, given.count
    return {
        "summary of another dimension": Statistics(Gram(np.eye(d + 1)), moment, count),
        "sketch of another dimension": Statistics(Sketch(np.eye(2, d + 1), 0.0, 3), moment, count),
        "nan summary": Statistics(Gram(np.full((d, d), np.nan)), moment, count),
        "nan sketch": Statistics(Sketch(np.full((1, d), np.nan), 0.0, 2), moment, count),
        "moment of another dimension": Statistics(summary, np.zeros(d + 1), count),
        "nan moment": Statistics(summary, np.full(d, np.nan), count),
        "negative count": Statistics(summary, moment, -1),
        "count that is not whole": Statistics(summary, moment, 1.5),  # type: ignore[arg-type]
    }


class RecipeContract:
    """Tests of a recipe. Give a fixture ``recipe`` that returns it, of two agents at least.

    If its name is not in ``fedbandit.RECIPES``, also give a fixture ``build`` that returns its
    constructor.
    """

    @pytest.fixture
    def build(self, recipe: Recipe) -> Build:
        """Return the constructor that takes the recipe's parameters."""
        if recipe.name not in RECIPES:
            raise InvalidParameter(
                f"{recipe.name} is not in fedbandit.RECIPES. Give the test class a fixture named"
                " build that returns its constructor."
            )
        return RECIPES[recipe.name]

    def test_it_is_rebuilt_from_its_params(self, recipe: Recipe, build: Build) -> None:
        params = json.loads(json.dumps(recipe.params))
        assert params == recipe.params
        again = build(**params)
        assert again == recipe
        assert hash(again) == hash(recipe)
        assert repr(again) == repr(recipe)
        assert again.identity == recipe.identity

    def test_another_dimension_is_another_recipe(self, recipe: Recipe, build: Build) -> None:
        other = build(**(recipe.params | {"dimension": recipe.dimension + 1}))
        assert other.dimension == recipe.dimension + 1
        assert other != recipe
        assert other.identity != recipe.identity

    def test_it_and_its_agents_can_be_pickled(self, recipe: Recipe) -> None:
        again = pickle.loads(pickle.dumps(recipe))
        assert again == recipe
        assert repr(again) == repr(recipe)
        arms = _arms(recipe)
        agent = pickle.loads(pickle.dumps(recipe.agent(1)))
        assert agent.choose(arms) == recipe.agent(1).choose(arms)

    @pytest.mark.parametrize("name", SMALL_WORLDS)
    def test_it_plays_every_small_world_twice_in_the_same_way(
        self, recipe: Recipe, name: str
    ) -> None:
        world = small_worlds(dimension=recipe.dimension, agents=recipe.agents)[name]
        one, other = (simulate(recipe, world, rounds=150) for _ in range(2))
        for column in ("regret", "reward", "arm", "agent", "uploads", "scalars", "bytes"):
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column))
        assert np.isfinite(one.regret).all()
        rounds = list(world.rounds(150))
        assert all(0 <= k < len(this.arms) for k, this in zip(one.arm, rounds, strict=True))

    def test_messages_survive_the_wire(self, recipe: Recipe) -> None:
        plain, as_bytes = Fleet(recipe), Fleet(recipe, as_bytes=True)
        chosen = [each.play(np.random.default_rng(5), 100) for each in (plain, as_bytes)]
        assert chosen[0] == chosen[1]
        assert_same_fleet(plain, as_bytes)

    @pytest.mark.parametrize("before", [0, 1, 7, 60])
    def test_a_restored_fleet_goes_on_bit_for_bit(self, recipe: Recipe, before: int) -> None:
        assert_goes_on(recipe, before=before, seed=before)

    def test_restored_between_choose_and_observe(self, recipe: Recipe) -> None:
        fleet = Fleet(recipe)
        rng = np.random.default_rng(0)
        for _ in range(20):
            fleet.play(rng, 10)
            agent, arms = fleet.agents[1], rng.standard_normal((4, recipe.dimension))
            chosen = agent.choose(arms)
            again = Agent.restore(recipe, agent.state())
            agent.observe(chosen, 1.0)
            again.observe(chosen, 1.0)
            assert_same_state(agent.state(), again.state())

    def test_an_arm_by_its_features_is_the_arm_by_its_index(self, recipe: Recipe) -> None:
        arms = _arms(recipe)
        by_index, by_features = recipe.agent(0), recipe.agent(0)
        chosen = by_index.choose(arms)
        assert by_features.choose(arms) == chosen
        by_index.observe(chosen, 0.5)
        by_features.observe(list(arms[chosen]), 0.5)
        assert_same_state(by_index.state(), by_features.state())

    def test_many_decisions_are_each_as_one(self, recipe: Recipe) -> None:
        fleet = Fleet(recipe)
        fleet.play(np.random.default_rng(3), 40)
        agent, again = fleet.agents[1], Agent.restore(recipe, fleet.agents[1].state())
        batch = np.random.default_rng(4).standard_normal((7, 4, recipe.dimension))
        batch[2] = 1.0  # all arms tie
        assert agent.choose_many(batch).tolist() == [again.choose(arms) for arms in batch]
        assert agent.state()["decisions"] == again.state()["decisions"]
        assert agent.choose_many(batch[:0]).tolist() == []

    def test_the_probability_of_a_choice_is_told(self, recipe: Recipe) -> None:
        agent = recipe.agent(0)
        assert agent.probability is None
        agent.choose(_arms(recipe))
        assert agent.probability is not None
        assert 0.0 < agent.probability <= 1.0

    def test_downloads_may_be_late_repeated_and_out_of_order(self, recipe: Recipe) -> None:
        agent, server = recipe.agent(0), recipe.server()
        downloads = []
        for arm in _arms(recipe):
            server.receive(_upload(agent, arm))
            downloads.append(server.download())
        agent.observe(_arms(recipe)[0], 1.0)
        agent.receive(downloads[-1])
        assert agent.version == len(downloads)
        before = agent.state()
        for old in downloads:
            agent.receive(old)
            assert_same_state(agent.state(), before)

    def test_messages_cannot_be_written_into(self, recipe: Recipe) -> None:
        server = recipe.server()
        upload = _upload(recipe.agent(0), np.ones(recipe.dimension))
        server.receive(upload)
        for message in (upload, server.download()):
            with pytest.raises(ValueError, match="read-only"):
                message.moment[:] = 7.0

    @pytest.mark.parametrize("case", BAD_ARMS)
    def test_bad_arms_change_nothing(self, recipe: Recipe, case: str) -> None:
        arms, complaint = BAD_ARMS[case](recipe.dimension)
        agent = recipe.agent(0)
        agent.observe(agent.choose(np.eye(4, recipe.dimension)), 1.0)
        before = agent.state()
        with pytest.raises(InvalidArms, match=complaint) as caught:
            agent.choose(arms)
        assert f"K >= 1 rows and {recipe.dimension} columns" in str(caught.value)
        assert_same_state(agent.state(), before)

    @pytest.mark.parametrize("reward", [float("nan"), float("inf"), 10**400, "much", None, [1.0]])
    def test_bad_rewards_change_nothing(self, recipe: Recipe, reward: Any) -> None:
        agent = recipe.agent(0)
        chosen = agent.choose(np.eye(4, recipe.dimension))
        before = agent.state()
        with pytest.raises(InvalidReward, match="expected one finite number"):
            agent.observe(chosen, reward)
        assert_same_state(agent.state(), before)

    def test_arms_that_were_not_shown(self, recipe: Recipe) -> None:
        agent, d = recipe.agent(0), recipe.dimension
        with pytest.raises(OutOfOrder, match=r"choose\(arms\) first"):
            agent.observe(0, 1.0)
        agent.choose(np.eye(4, d))
        before = agent.state()
        for arm in (4, -1):
            with pytest.raises(InvalidArms, match="index from 0 to 3"):
                agent.observe(arm, 1.0)
        wrong: list[Any] = [np.ones(d - 1), np.ones(d + 1), np.ones((2, d)), [1, [2]], True, 1j]
        for features in [*wrong, np.full(d, np.nan), np.full(d, 1e160)]:
            with pytest.raises(InvalidArms):
                agent.observe(features, 1.0)
        assert_same_state(agent.state(), before)

    def test_an_observation_that_would_overflow_changes_nothing(self, recipe: Recipe) -> None:
        agent = recipe.agent(0)
        agent.choose(np.eye(4, recipe.dimension))
        before = agent.state()
        with pytest.raises(InvalidArms, match="squares are finite"):
            agent.observe(0, 1e200)
        assert_same_state(agent.state(), before)

    def test_states_that_do_not_fit(self, recipe: Recipe) -> None:
        agent, server, d = recipe.agent(recipe.agents - 1), recipe.server(), recipe.dimension
        other = LinUCB(dimension=d + 1, agents=recipe.agents)
        for state, restore in ((agent.state(), Agent.restore), (server.state(), Server.restore)):
            with pytest.raises(InvalidState, match=f"dimension={d + 1}"):
                restore(other, state)
            for key in (each for each in state if not each.endswith(("rewards", "determinant"))):
                with pytest.raises(InvalidState, match=key.split(".")[-1]):
                    restore(recipe, {k: v for k, v in state.items() if k != key})
            for key in [key for key in state if key.endswith("moment")]:
                with pytest.raises(InvalidState, match="moment"):
                    restore(recipe, state | {key: np.full(d, np.nan)})

    def test_uploads_that_do_not_fit_change_nothing(self, recipe: Recipe) -> None:
        upload = _upload(recipe.agent(0), np.ones(recipe.dimension))
        foreign: list[Any] = [
            *(Upload(0, each) for each in foreign_statistics(upload.statistics).values()),
            *(Upload(who, upload.statistics) for who in (recipe.agents, -1, "0")),  # type: ignore[arg-type]
            "hello",
        ]
        server = recipe.server()
        server.receive(upload)
        before = server.state()
        for message in foreign:
            with pytest.raises(InvalidMessage):
                server.receive(message)
            assert_same_state(server.state(), before)

    def test_downloads_that_do_not_fit_change_nothing(self, recipe: Recipe) -> None:
        agent, server = recipe.agent(0), recipe.server()
        server.receive(_upload(recipe.agent(1), np.ones(recipe.dimension)))
        given = server.download().statistics
        foreign: list[Any] = [Download(each, 1) for each in foreign_statistics(given).values()]
        before = agent.state()
        for message in [*foreign, "hello", None]:
            with pytest.raises(InvalidMessage):
                agent.receive(message)
            assert_same_state(agent.state(), before)


def _arms(recipe: Recipe) -> Any:
    return np.random.default_rng(0).standard_normal((4, recipe.dimension))


def _with_nan(dimension: int) -> Any:
    arms = np.eye(4, dimension)
    arms[1, dimension // 3] = np.nan
    return arms


def _upload(agent: Agent, arm: Any) -> Upload:
    """Return an upload of one observation, whatever the recipe's trigger."""
    upload = agent.observe(arm, 1.0) or agent.receive(Collect())
    assert upload is not None
    return upload
