"""A recipe's identity says what decides anything, and survives what does not."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.identity import form_1, is_of_version_1
from fedbandit.core.parts.parts import Parts
from fedbandit.core.recipe import recipe

PARTS = fb.FedLinUCB(dimension=2, agents=1).parts


@recipe(name="Made")
def _first(*, dimension: int, agents: int, ridge: float = 1.0) -> Parts:  # noqa: ARG001
    return PARTS


@recipe(name="Made", cost_only=("threads",))
def _later(
    *,
    dimension: int,  # noqa: ARG001
    agents: int,  # noqa: ARG001
    ridge: float = 1.0,  # noqa: ARG001
    forget: float = 1.0,  # noqa: ARG001
    threads: int = 1,  # noqa: ARG001
) -> Parts:
    return PARTS


@recipe(name="Made", meaning=3, earlier={1: {"ridge": 1.0}, 2: {"ridge": 5.0}})
def _changed_again(*, dimension: int, agents: int, ridge: float = 2.0) -> Parts:  # noqa: ARG001
    return PARTS


@recipe(name="Made", meaning=2)
def _changed(*, dimension: int, agents: int, ridge: float = 2.0) -> Parts:  # noqa: ARG001
    return PARTS


def test_a_new_parameter_at_its_default_changes_no_identity() -> None:
    cases: list[dict[str, Any]] = [{}, {"ridge": 3.0}]
    for given in cases:
        old = _first(dimension=2, agents=1, **given)
        assert _later(dimension=2, agents=1, **given).identity == old.identity
    assert _later(dimension=2, agents=1, forget=0.5).identity != old.identity


def test_what_changes_cost_alone_changes_no_identity() -> None:
    assert (
        _later(dimension=2, agents=1, threads=8).identity == _first(dimension=2, agents=1).identity
    )
    ways = [
        fb.FedLinUCB(dimension=2, agents=1, determinant=way)
        for way in ("when-needed", "rank-one", "every-round")
    ]
    assert len({each.identity for each in ways}) == 1
    assert len({*ways}) == 3  # they are not equal: one costs more than the other


def test_a_changed_default_is_another_meaning() -> None:
    one, two = _first(dimension=2, agents=1), _changed(dimension=2, agents=1)
    assert one.identity != two.identity
    assert (one.meaning, two.meaning) == (1, 2)


@pytest.mark.parametrize("ridge", [1.0, 2.0, 5.0, 7.0])
def test_earlier_defaults_keep_the_identities_of_their_time(ridge: float) -> None:
    today = _changed_again(dimension=2, agents=1, ridge=ridge)
    assert today.identities[1] == _first(dimension=2, agents=1, ridge=ridge).identity
    assert today.identity == today.identities[3]
    assert len({*today.identities.values()}) == 3
    for meaning, default in {1: 1.0, 2: 5.0, 3: 2.0}.items():
        told = json.loads(today.identities[meaning])["params"]
        assert ("ridge" in told) == (ridge != default)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fb.FSCLB(dimension=3, sketch_size=2, agents=1), {"agents": 2}),
        (fb.FSCLB(dimension=3, sketch_size=2, agents=1), {"bounds": {"noise": 0.5}}),
        (fb.FSCLB.lean(dimension=30, agents=1), {"budget": 900}),
        (fb.FSCLB(dimension=3, sketch_size=2, agents=1), {"estimate": "averaged"}),
        (fb.FedLinUCB(dimension=3, agents=1), {"wire": "float64"}),
        (fb.FedLinUCB(dimension=3, agents=1), {"wire": "int8"}),
    ],
)
def test_every_other_parameter_decides(one: fb.Recipe, other: dict[str, Any]) -> None:
    changed = RECIPES[one.name](**{**one.params, **other})
    assert changed.identity != one.identity
    assert wire.fingerprint(changed) != wire.fingerprint(one)


@pytest.mark.parametrize(
    ("given", "implied", "other"),
    [
        ({"sketch_size": 5, "cadence": "buffered"}, {"buffer": 20}, {"buffer": 21}),
        ({"sketch_size": 9, "cadence": "buffered"}, {"buffer": 90}, {"buffer": 91}),
        ({"sketch_size": 5}, {"server_size": 5}, {"server_size": 6}),
        ({"sketch_size": "auto", "budget": 900}, {"server_size": 6}, {"server_size": 5}),
    ],
)
def test_a_value_that_is_there_anyway_can_be_spelt_out(
    given: dict[str, Any], implied: dict[str, Any], other: dict[str, Any]
) -> None:
    left_out = fb.FSCLB(dimension=30, agents=1, **given)
    assert fb.FSCLB(dimension=30, agents=1, **given, **implied).identity == left_out.identity
    assert fb.FSCLB(dimension=30, agents=1, **given, **other).identity != left_out.identity


def test_it_is_plain_json_whatever_way_the_numbers_were_written() -> None:
    one = fb.FSCLB(dimension=3, sketch_size=2, agents=1, ridge=2)
    assert one.identity == fb.FSCLB(agents=1, ridge=2.0, sketch_size=2, dimension=3).identity
    said = json.loads(one.identity)
    assert said == {
        "recipe": "FSCLB",
        "meaning": 1,
        "params": {"agents": 1, "dimension": 3, "ridge": 2.0, "sketch_size": 2},
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            fb.FSCLB(dimension=3, sketch_size=2, agents=1, bounds=fb.Bounds(noise=2)),
            fb.FSCLB(dimension=3, sketch_size=2, agents=1, bounds=fb.Bounds(noise=2.0)),
        ),
        (
            fb.DisLinUCB(dimension=3, agents=1, wait=5),
            fb.DisLinUCB(dimension=3, agents=1, wait=5.0),
        ),
        (
            fb.FedLinUCB(dimension=3, agents=1, alpha=Fraction(1, 2)),  # type: ignore[arg-type]
            fb.FedLinUCB(dimension=3, agents=1, alpha=0.5),
        ),
    ],
)
def test_equal_recipes_have_one_hash_and_one_identity(one: fb.Recipe, other: fb.Recipe) -> None:
    assert one == other
    assert hash(one) == hash(other)
    assert one.identity == other.identity


@pytest.mark.parametrize("one", ["when-needed", "rank-one", "every-round"])
@pytest.mark.parametrize("other", ["when-needed", "rank-one", "every-round"])
def test_a_state_is_restored_by_the_determinant_that_saved_it(one: Any, other: Any) -> None:
    """The identity is the same, but what is kept of pending data is not."""
    saved = fb.FedLinUCB(dimension=2, agents=1, determinant=one).agent(0).state()
    recipe = fb.FedLinUCB(dimension=2, agents=1, determinant=other)
    if one == other:
        fb.Agent.restore(recipe, saved)
    else:
        with pytest.raises(fb.errors.InvalidState, match="determinant"):
            fb.Agent.restore(recipe, saved)


def test_a_state_of_version_1_is_none_of_a_later_meaning() -> None:
    recipe = fb.FedLinUCB(dimension=2, agents=1)
    saved = {**recipe.agent(0).state(), "recipe": form_1(recipe)}
    fb.Agent.restore(recipe, saved)
    later = replace(recipe, meaning=2, identities={2: "another"})
    with pytest.raises(fb.errors.InvalidState, match="recipe"):
        fb.Agent.restore(later, saved)


@pytest.mark.parametrize("sums", [[2, 1.0, 1.0], [0.5, 1.0, 1.0], [-1, 0.0, 0.0], [1, 1.0, -1.0]])
def test_saved_sums_of_rewards_must_be_possible(sums: list[float]) -> None:
    recipe = fb.FedLinUCB(dimension=2, agents=1, alpha=9.0)
    agent = recipe.agent(0)
    agent.observe([1.0, 0.0], 1.0)
    with pytest.raises(fb.errors.InvalidState, match="rewards"):
        fb.Agent.restore(recipe, {**agent.state(), "rewards": sums})


def test_a_repr_shows_what_differs_from_the_defaults_and_builds_it_again() -> None:
    one = fb.FSCLB(dimension=3, sketch_size=2, agents=1, alpha=0.5)
    assert repr(one) == "FSCLB(dimension=3, sketch_size=2, agents=1, alpha=0.5)"
    assert eval(repr(one), {"FSCLB": fb.FSCLB}) == one


def test_agents_and_servers_say_what_they_are_in_a_line() -> None:
    one = fb.FSCLB(dimension=3, sketch_size=2, agents=2)
    assert repr(one.agent(1)) == "<Agent 1 of FSCLB: version 0, 0 pending>"
    assert repr(one.server()) == "<Server of FSCLB: 0 uploads, 0 observations>"


def test_version_1_is_told_every_parameter_of_its_time_and_no_other() -> None:
    one = fb.FedLinUCB(dimension=2, agents=1, radius=0.3)
    assert form_1(one) == (
        "FedLinUCB(dimension=2, agents=1, alpha=1.0, ridge=1.0, radius=0.3, "
        "determinant='when-needed', bounds={'noise': 0.1, 'parameter_norm': 1.0, 'arm_norm': 1.0, "
        "'horizon': 20000, 'delta': 0.01})"
    )
    assert is_of_version_1(one)
    assert not is_of_version_1(replace(one, meaning=2, identities={2: one.identity}))
    assert is_of_version_1(replace(one, meaning=2, identities={1: one.identity, 2: one.identity}))
    assert not is_of_version_1(replace(one, _params={**one.params, "determinant": "by magic"}))
    for width in ("float64", "float32", "float16", "int8"):
        narrow = fb.RECIPES["FedLinUCB"](**{**one.params, "wire": width})
        assert not is_of_version_1(narrow)
    newer = replace(one, _params={**one.params, "forget": 0.5})
    assert not is_of_version_1(newer)
    assert form_1(newer) == form_1(one)
