"""The contract of every recipe, on all that are shipped and in every form of them."""

import math

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.testing import RecipeContract
from tests.core.builds import BUILDS, D


class TestEveryRecipe(RecipeContract):
    @pytest.fixture(params=BUILDS)
    def recipe(self, request: pytest.FixtureRequest) -> fb.Recipe:
        return BUILDS[request.param]()

    def test_bounds_may_be_given_as_such(self, recipe: fb.Recipe) -> None:
        params = recipe.params
        if "bounds" in params:
            params["bounds"] = fb.Bounds(**params["bounds"])
        assert repr(fb.RECIPES[recipe.name](**params)) == repr(recipe)

    def test_an_upload_that_is_packed_stays_as_it_is(self, recipe: fb.Recipe) -> None:
        agent, rng = recipe.agent(0), np.random.default_rng(1)
        for arm in rng.standard_normal((9, D)):
            agent.observe(arm, float(rng.standard_normal()))
        packed = agent.packed(agent.collect())
        assert wire.encode(agent.packed(packed)) == wire.encode(packed)

    def test_its_repr_says_what_it_is(self, recipe: fb.Recipe) -> None:
        assert recipe.label in (recipe.name, "FSCLB.lean")
        assert repr(recipe).startswith(f"{recipe.label}(dimension={D}, ")
        names = {
            "inf": math.inf,
            **{name: fb.RECIPES[name] for name in fb.RECIPES if "." not in name},
        }
        assert eval(repr(recipe), names) == recipe
