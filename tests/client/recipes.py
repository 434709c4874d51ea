"""Recipes of every kind that an agent on a device can have."""

import pytest

import fedbandit as fb


def recipes(dimension: int) -> dict[str, fb.Recipe]:
    """Return a few for three agents, by what tells them apart."""
    return {
        "FSCLB": fb.FSCLB(dimension=dimension, sketch_size=4, agents=3),
        "FSCLB, buffered": fb.FSCLB(
            dimension=dimension, sketch_size=4, agents=3, cadence="buffered"
        ),
        "FedLinUCB": fb.FedLinUCB(dimension=dimension, agents=3),
        "FedLinUCB, int8": fb.FedLinUCB(dimension=dimension, agents=3, wire="int8"),
        "FSCLB, narrow": fb.FSCLB(
            dimension=dimension, sketch_size="auto", agents=3, estimate="averaged", wire="int8"
        ),
    }


def each_of(recipes: dict[str, fb.Recipe]) -> pytest.MarkDecorator:
    """Return what lets a test run with each of them as its ``recipe``."""
    return pytest.mark.parametrize("recipe", recipes.values(), ids=recipes)
