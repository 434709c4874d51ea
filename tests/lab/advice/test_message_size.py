"""Predicted bytes are those of real messages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.recipe import Recipe
from fedbandit.lab.advice.message_size import message_bytes

HOLD = 1e300
"""A trigger that does not fire before it is asked to."""


def full_upload(recipe: Recipe, rows: int = 0) -> fb.Upload:
    """What an agent sends once it has seen more than its sketch can hold, much along some axes."""
    agent, rng, d = recipe.agent(0), np.random.default_rng(0), recipe.dimension
    lengths = np.where(np.arange(d) < rows, 5.0, 1.0)
    for _ in range(3 * d):
        assert agent.observe(lengths * rng.standard_normal(d), 1.0) is None
    upload = agent.receive(fb.Collect())
    assert upload is not None
    rewards = replace(upload.statistics.rewards, count=100)
    return fb.Upload(0, replace(upload.statistics, count=100, rewards=rewards))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 30), st.data())
def test_a_full_sketch_has_the_predicted_bytes(d: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, d + 1))
    for width in ("float64", "int8"):
        recipe = fb.RECIPES["FSCLB"](
            dimension=d, sketch_size=size, agents=1, alpha=HOLD, cadence="buffered", wire=width
        )
        upload = full_upload(recipe, rows=size - 1)
        assert upload.scalars >= size * d  # so many rows, and the moment
        assert len(wire.encode(upload)) == message_bytes(recipe)


def test_a_whole_matrix_has_the_predicted_bytes() -> None:
    recipe = fb.FedLinUCB(dimension=7, agents=1, alpha=HOLD)
    assert len(wire.encode(full_upload(recipe))) == message_bytes(recipe)


def test_no_message_of_a_run_is_larger_but_for_counts() -> None:
    world = fb.worlds.Synthetic(dimension=12, arms=4, agents=3)
    rewards = 28  # bytes of their sums, which a narrow download leaves out
    for width, left_out in (("float64", 0), ("int8", rewards)):
        recipe = fb.RECIPES["FSCLB"](dimension=12, sketch_size=5, agents=3, wire=width)
        trace = fb.simulate(recipe, world, rounds=1500)
        pairs = np.diff(trace.bytes, prepend=0)[trace.uploaded]
        expected = 2 * message_bytes(recipe) - left_out
        assert expected <= pairs.max() <= expected + 24


def test_fitted_rows_have_about_the_predicted_bytes() -> None:
    world = fb.worlds.Synthetic(dimension=12, arms=4, agents=3)
    recipe = fb.FSCLB.lean(dimension=12, sketch_size=5, agents=3)
    trace = fb.simulate(recipe, world, rounds=1500)
    pairs = np.diff(trace.bytes, prepend=0)[trace.uploaded]
    assert pairs[-1] / 2 == pytest.approx(message_bytes(recipe), rel=0.15)
