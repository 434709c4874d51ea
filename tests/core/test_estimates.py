"""What rewards were estimated to be travels with uploads, if every one came with an estimate."""

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.agent import Agent
from fedbandit.core.messages import Upload
from fedbandit.core.statistics import NO_ESTIMATES, Estimates
from fedbandit.errors import InvalidState

RECIPES = [
    fb.FSCLB(dimension=5, sketch_size=3, agents=2, alpha=1e9),
    fb.FSCLB(dimension=5, sketch_size=3, agents=2, alpha=1e9, wire="int8"),
    fb.FSCLB.lean(dimension=5, agents=2, alpha=1e9),
    fb.FedLinUCB(dimension=5, agents=2, alpha=1e9),
    fb.FedLinUCB(dimension=5, agents=2, alpha=1e9, wire="float16"),
]
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=repr)


def _played(recipe: fb.Recipe, agent: Agent, *, estimates: bool = True) -> tuple[float, float]:
    rng = np.random.default_rng(7)
    total = errors = 0.0
    for _ in range(6):
        x, reward, estimate = rng.normal(size=recipe.dimension), rng.normal(), rng.normal()
        agent.observe(x, reward, estimate=estimate if estimates else None)
        total, errors = total + estimate, errors + (reward - estimate) ** 2
    return total, errors


@every_recipe
def test_an_upload_tells_the_sums(recipe: fb.Recipe) -> None:
    agent = recipe.agent(0)
    total, errors = _played(recipe, agent)
    upload = agent.collect()
    told = wire.decode(wire.encode(upload))
    assert isinstance(told, Upload)
    for each in (upload, told):
        found = each.statistics.estimates
        assert found.count == 6
        assert (found.total, found.errors) == pytest.approx((total, errors))
    assert agent.collect().statistics.estimates == NO_ESTIMATES


@every_recipe
def test_a_saved_agent_goes_on_with_its_sums(recipe: fb.Recipe) -> None:
    agent = recipe.agent(0)
    _played(recipe, agent)
    again = Agent.restore(recipe, agent.state())
    assert wire.encode(again.collect()) == wire.encode(agent.collect())
    broken = {**recipe.agent(0).state(), "estimates": np.array([1.0, 0.0, 0.0])}
    with pytest.raises(InvalidState, match="estimates"):
        Agent.restore(recipe, broken)


@every_recipe
def test_without_estimates_nothing_changes_on_the_wire(recipe: fb.Recipe) -> None:
    with_them, without = recipe.agent(0), recipe.agent(0)
    _played(recipe, with_them)
    _played(recipe, without, estimates=False)
    told, silent = wire.encode(with_them.collect()), wire.encode(without.collect())
    assert b"estimates" in told
    assert b"estimates" not in silent
    assert len(told) - len(silent) <= 40


def test_some_without_an_estimate_and_none_is_told() -> None:
    agent = RECIPES[0].agent(0)
    agent.observe(np.ones(5), 1.0, estimate=0.5)
    agent.observe(np.ones(5), 1.0)
    assert b"estimates" not in wire.encode(agent.collect())


@every_recipe
def test_combined_uploads_tell_both(recipe: fb.Recipe) -> None:
    agent = recipe.agent(0)
    parts = []
    for _ in range(2):
        _played(recipe, agent)
        parts.append(agent.collect(pack=False))
    if recipe.parts.memory.combines_rounded:
        return
    both = agent.combined(*parts).statistics.estimates
    assert both == parts[0].statistics.estimates.plus(parts[1].statistics.estimates)


def test_downloads_do_not_carry_them_and_format_1_neither() -> None:
    recipe = RECIPES[0]
    agent, server = recipe.agent(0), recipe.server()
    _played(recipe, agent)
    upload = agent.collect()
    for directed in server.receive(upload):
        assert b"estimates" not in wire.encode(directed.message)
    assert server.statistics.estimates == NO_ESTIMATES
    assert b"estimates" not in wire.encode(server.whole())
    assert b"estimates" not in wire.encode(upload, format=1)


def test_an_estimate_that_overflows_is_not_told() -> None:
    agent = RECIPES[0].agent(0)
    agent.observe(np.ones(5), 1.0, estimate=1e200)
    assert agent.collect().statistics.estimates == NO_ESTIMATES


@pytest.mark.parametrize("told", [Estimates(1, float("nan"), 0.0), Estimates(1, 0.0, -1.0)])
def test_impossible_sums_are_refused(told: Estimates) -> None:
    from dataclasses import replace

    recipe = RECIPES[0]
    agent = recipe.agent(0)
    agent.observe(np.ones(5), 1.0)
    wrong = replace(agent.collect().statistics, estimates=told)
    with pytest.raises(fb.errors.InvalidMessage, match="estimates"):
        recipe.server().receive(Upload(0, wrong))
