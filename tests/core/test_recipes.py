"""Recipes say what they are, refuse what cannot be, and travel."""

import inspect
import json
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import errors

GOOD: dict[str, Any] = {"dimension": 5, "agents": 2}


@pytest.mark.parametrize("index", [-1, 3, 1.5, "0", True])
def test_an_agent_that_does_not_exist(index: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="agent must be a whole number from 0 to 2"):
        fb.LinUCB(dimension=5, agents=3).agent(index)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("FSCLB", {"sketch_size": 1}, "sketch_size must be a whole number from 2 to 6 .*; got 1. "),
    ("FSCLB", {"sketch_size": 7}, "sketch_size must be a whole number from 2 to 6 .*; got 7. "),
    (
        "FSCLB",
        {"sketch_size": 2.5},
        "sketch_size must be .*; got 2.5. The paper uses about 0.4 d, here 2",
    ),
    ("FSCLB", {"sketch_size": 3, "alpha": 0.0}, "alpha must be a finite number above 0; got 0.0"),
    ("FSCLB", {"sketch_size": 3, "ridge": 0}, "ridge must be a finite number above 0; got 0"),
    ("FSCLB", {"sketch_size": 3, "radius": "papre"}, "Did you mean 'paper'"),
    ("FSCLB", {"sketch_size": 3, "radius": "PAPER"}, "Did you mean 'paper'"),
    ("FSCLB", {"sketch_size": 3, "ridge": 10**400}, "must be a finite number above 0"),
    ("FSCLB", {"sketch_size": 3, "cadence": "bufered"}, "Did you mean 'buffered'"),
    (
        "FSCLB",
        {"sketch_size": 3, "buffer": 9},
        "buffer must be left out with cadence='paper'; got 9",
    ),
    (
        "FSCLB",
        {"sketch_size": 4, "cadence": "buffered", "buffer": 3},
        "buffer must be a whole number of at least 4 .*; got 3",
    ),
    (
        "FSCLB",
        {"sketch_size": 3, "estimate": "x"},
        "estimate: got 'x'; expected one of averaged, corrected, paper",
    ),
    ("FSCLB", {"sketch_size": 3, "wire": "float8"}, "wire: got 'float8'; expected one of bfloat16"),
    ("FSCLB", {"sketch_size": 3, "wire": None}, "wire: got 'None'; expected one of bfloat16"),
    ("FSCLB", {"sketch_size": "big"}, "sketch_size must be a whole number or 'auto'; got 'big'"),
    ("FSCLB", {"sketch_size": 3, "budget": 500}, "budget must be left out .* fixed .*; got 500"),
    (
        "FSCLB",
        {"sketch_size": "auto", "budget": 175},
        "budget must be at least 176 bytes.*; got 175",
    ),
    ("FSCLB", {"sketch_size": "auto", "budget": 0}, "budget must be a whole number .*; got 0"),
    (
        "FSCLB",
        {"sketch_size": "auto", "budget": True},
        "budget must be a whole number .*; got True",
    ),
    (
        "FSCLB",
        {"sketch_size": "auto", "budget": "1k"},
        "budget must be a whole number .*; got '1k'",
    ),
    (
        "FSCLB",
        {"sketch_size": 3, "estimate": "averaged", "radius": "paper"},
        "radius: 'paper' .*; got estimate='averaged'. Use radius='auto', 'tight' or a number",
    ),
    (
        "FSCLB.lean",
        {"radius": "paper"},
        "radius: 'paper' .* Use radius='auto', 'tight' or a number",
    ),
    ("FSCLB.lean", {"budget": 100}, "budget must be at least 148 bytes.*; got 100"),
    ("FSCLB.lean", {"sketch_size": 3, "budget": 500}, "budget must be left out .*; got 500"),
    ("FSCLB.lean", {"dimension": 0}, "dimension must be a whole number .*; got 0"),
    ("FSCLB.lean", {"dimension": "5"}, "dimension must be a whole number .*; got '5'"),
    ("SOFUL", {"sketch_size": 1}, "sketch_size must be .*; got 1"),
    ("CBSCFD", {"sketch_size": 9}, "sketch_size must be .*; got 9"),
    ("FedLinUCB", {"alpha": -1.0}, "alpha must be .*; got -1.0"),
    ("FedLinUCB", {"ridge": float("nan")}, "ridge must be .*; got nan"),
    ("FedLinUCB", {"radius": -0.1}, "radius must be a finite number of at least 0; got -0.1"),
    ("FedLinUCB", {"determinant": "rank one"}, "Did you mean 'rank-one'"),
    (
        "AsyncLinUCB",
        {"upload_growth": 0.5},
        "upload_growth must be a factor of at least 1; got 0.5",
    ),
    ("DisLinUCB", {"wait": 0.0}, "wait must be .*; got 0.0"),
    ("DisLinUCB", {"wait": "regrets"}, "Did you mean 'regret'"),
    ("LinUCB", {"dimension": 0}, "dimension must be a whole number of at least 1; got 0"),
    ("LinUCB", {"dimension": 2.0}, "dimension must be .*; got 2.0"),
    ("LinUCB", {"agents": 0}, "agents must be .*; got 0"),
    ("LinUCB", {"ridge": "1"}, "ridge must be .*; got '1'"),
    ("Random", {"seed": -1}, "seed must be .*; got -1"),
]


@pytest.mark.parametrize(("name", "wrong", "complaint"), BAD)
def test_what_cannot_be(name: str, wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(errors.LocalError, match=complaint):
        fb.RECIPES[name](**(GOOD | wrong))


def test_params_are_plain_whatever_kind_of_number_came() -> None:
    recipe = fb.FSCLB(
        dimension=np.int64(5),  # type: ignore[arg-type]
        sketch_size=3,
        agents=2,
        radius=np.float32(0.5),  # type: ignore[arg-type]
        bounds=fb.Bounds(horizon=np.int32(9)),  # type: ignore[arg-type]
    )
    assert json.loads(json.dumps(recipe.params)) == recipe.params


LEAN: list[fb.Recipe] = [
    fb.FSCLB.lean(dimension=5, agents=2),
    fb.FSCLB.lean(dimension=40, agents=2, sketch_size=7, radius="tight"),
    fb.FSCLB.lean(dimension=40, agents=2, budget=np.int64(900)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("recipe", LEAN)
def test_a_lean_recipe_is_one_of_fsclb(recipe: fb.Recipe) -> None:
    assert recipe.name == "FSCLB"
    assert fb.RECIPES[recipe.name](**recipe.params) == recipe
    params = json.loads(json.dumps(recipe.params))
    assert params == recipe.params
    assert fb.RECIPES[recipe.name](**params) == recipe
    assert (params["cadence"], params["estimate"]) == ("buffered", "corrected")
    assert (params["wire"], params["compensation"]) == ("fitted", "coordinates")
    again = pickle.loads(pickle.dumps(recipe))
    assert again == recipe
    assert hash(again) == hash(recipe)
    assert (recipe.name, recipe.label, again.label) == ("FSCLB", "FSCLB.lean", "FSCLB.lean")
    assert len({*LEAN, again}) == len(LEAN)


def test_constructors_look_like_what_they_are() -> None:
    signature = inspect.signature(fb.FSCLB)
    assert list(signature.parameters)[:3] == ["dimension", "sketch_size", "agents"]
    assert signature.return_annotation is fb.Recipe
    lean = inspect.signature(fb.FSCLB.lean)
    assert set(lean.parameters) < set(signature.parameters)
    assert repr(fb.FSCLB) == "<recipe FSCLB>"
    helped = pydoc.plain(pydoc.render_doc(fb.FSCLB))
    assert "__call__(self, *, dimension: int, sketch_size:" in helped
    assert "lean(self, *, dimension: int" in helped
    assert "lean(*, dimension: int" in pydoc.plain(pydoc.render_doc(fb.FSCLB.lean))
    assert "lean" in dir(fb.FSCLB)
    for build in (fb.FSCLB, fb.FSCLB.lean, fb.FedLinUCB):
        assert pickle.loads(pickle.dumps(build)) == build
        assert build.__doc__


@pytest.mark.parametrize(
    ("build", "wrong", "meant"),
    [
        (fb.FSCLB, "sketchsize", "sketch_size"),
        (fb.FSCLB.lean, "Budget", "budget"),
        (fb.FedLinUCB, "alhpa", "alpha"),
        (fb.Random, "sede", "seed"),
    ],
)
def test_a_misspelt_parameter_gets_the_nearest(build: Any, wrong: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"no parameter '{wrong}'. Did you mean '{meant}'?"):
        build(dimension=5, agents=1, **{wrong: 3})


def test_parameters_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        fb.FSCLB(50, 20, 10)  # type: ignore[call-arg]


def test_random_is_uniform_and_depends_on_seed_agent_and_round_alone() -> None:
    recipe = fb.Random(dimension=1, agents=2, seed=3)
    arms = np.zeros((5, 1))
    picks = np.array([[agent.choose(arms) for _ in range(5000)] for agent in recipe.fleet()])
    counts = np.array([np.bincount(row, minlength=5) for row in picks])
    assert np.abs(counts - 1000).max() < 150
    assert (picks[0] != picks[1]).mean() > 0.7
    again = recipe.agent(1)
    assert [again.choose(arms) for _ in range(5000)] == picks[1].tolist()
