"""Named features become the same arms, however they are given; what does not fit is named."""

import logging
import re
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fedbandit as fb
from fedbandit.errors import FedbanditError, InvalidArms, InvalidParameter
from fedbandit.features import Encoder, Features, features_from
from fedbandit.features.hashed import arm_of, features_of
from fedbandit.features.seen import LONGEST

D = 64
SHOP = Features({"price": "0..2000", "user.age": "centre 40 scale 20", "zip": "category"}, id=True)
ONLY_PRICE = Features({"price": "0..1"}, only_declared=True)
ROWS = [
    {"id": "tent", "price": 400, "colour": "red", "zip": 12},
    {"id": "boat", "price": 1800.0, "colour": "blue", "zip": 7},
]
CONTEXT = {"user": {"age": 30, "new": True}, "hour": "9"}

names = st.text("abcdef", min_size=1, max_size=3)
values = st.floats(-100, 100) | st.booleans() | st.sampled_from(["x", "y", "z"])
rows = st.dictionaries(names, values, max_size=5)


def encoded(features: Features | None, context: object, actions: object) -> Any:
    return Encoder(features, D).encode(context, actions).arms


def test_dicts_frames_of_pandas_and_of_polars_are_one() -> None:
    expected = encoded(SHOP, CONTEXT, ROWS)
    flat = {"user.age": 30, "user.new": True, "hour": "x"}
    context = {"user": {"age": 30, "new": True}, "hour": "x"}
    for frame in (pd.DataFrame, pl.DataFrame):
        assert_array_equal(encoded(SHOP, CONTEXT, frame(ROWS)), expected)
        assert_array_equal(encoded(SHOP, frame([flat]), frame(ROWS)), encoded(SHOP, context, ROWS))
    assert_array_equal(encoded(SHOP, pd.Series(flat), ROWS), encoded(SHOP, context, ROWS))


@given(context=rows, actions=st.lists(rows, min_size=1, max_size=3))
def test_without_declarations_the_rule_is_that_of_before(context: Any, actions: Any) -> None:
    made = encoded(None, context, actions)
    known = features_of(context, field="c")
    for arm, action in zip(made, actions, strict=True):
        assert_array_equal(arm, arm_of(known, features_of(action, field="a"), D))


@given(offered=st.lists(st.lists(rows | st.none(), min_size=1, max_size=3), max_size=6))
def test_actions_that_were_offered_before_are_the_same_arms(offered: Any) -> None:
    encoder = Encoder(SHOP, D)
    for actions in (*offered, *offered, [{"a": 1}], [{"a": True}], [{"a": 1.0}]):
        ids = [f"id-{k}" for k in range(len(actions))]
        kept = encoder.encode_named(CONTEXT, ids, actions, plain=True)
        anew = Encoder(SHOP, D).encode_named(CONTEXT, ids, actions)
        assert_array_equal(kept.arms, anew.arms)
        assert [each.found for each in kept.actions] == [each.found for each in anew.actions]


def test_features_that_cannot_be_kept_are_read_as_they_are() -> None:
    encoder, deep = Encoder(None, D), {"a": "x"}
    for _ in range(3000):
        deep = {"a": deep}  # type: ignore[dict-item]
    for features, said in (
        ({"a": "x" * 2000}, None),
        (deep, "deep"),
        ({"a": [1]}, "list of numbers"),
    ):
        for _ in range(2):
            with nullcontext() if said is None else pytest.raises(InvalidArms, match=said):
                encoder.encode_named({}, ["one"], [features], plain=True)


@given(context=rows, actions=st.lists(rows, min_size=1, max_size=3), pairs=st.sampled_from([
    "all", "none", [("a", "b"), ("c", "c")],
]))  # fmt: skip
def test_the_terms_of_an_arm_add_up_to_it(context: Any, actions: Any, pairs: Any) -> None:
    made = Encoder(Features(interactions=pairs), D).encode(context, actions)
    for k, arm in enumerate(made.arms):
        total = np.zeros(D)
        for term in made.terms(k):
            total[term.place] += term.value
        assert_allclose(total, arm, atol=1e-12)
        crossed = {tuple(t.name.split(" * ")) for t in made.terms(k) if " * " in t.name}
        if pairs == "none":
            assert not crossed
        elif pairs != "all":
            assert {(c.split("=")[0], a.split("=")[0]) for c, a in crossed} <= set(
                map(tuple, pairs)
            )


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), share=st.floats(0, 1))
def test_a_range_becomes_minus_one_to_one(low: float, width: float, share: float) -> None:
    high = low + width
    value = min(max(low + share * width, low), high)
    spec = Features({"price": (low, high)})
    made = Encoder(spec, D).encode({}, [{"price": value}])
    used = made.actions[0].values[1]
    assert used == pytest.approx(2 * (value - low) / width - 1, abs=1e-6 * (1 + abs(low) / width))
    again = features_from(spec.params)
    assert again == spec


def test_what_does_not_fit_is_counted_by_name() -> None:
    spec = Features({"price": "0..10", "colour": ["red", "blue"], "size": "number"})
    encoder = Encoder(spec, D)
    encoder.encode({}, [{"price": 12, "colour": "red"}, {"colour": "pink", "size": 2}])
    encoder.encode({}, pd.DataFrame({"price": [1.0, np.nan], "colour": ["red", None]}))
    report = encoder.report()
    assert report.outside == {"price": 1}
    assert report.not_among == {"colour=pink": 1}
    assert report.missing == {"price": 2, "size": 2, "colour": 1}
    end = Encoder(spec, D).encode({}, [{"price": 10, "colour": "red"}])
    assert_array_equal(encoder.encode({}, [{"price": 12, "colour": "red"}]).arms, end.arms)


def test_what_people_write_does_not_fill_the_memory() -> None:
    """Words that nobody declared, and long texts, are counted, and not kept for ever."""
    encoder = Encoder(Features({"colour": ["red"], "note": "category"}), D)
    for turn in range(1_200):
        note = f"{turn:0300}" if turn % 2 else "short"
        encoder.encode({f"{turn:0300}": 2.0}, [{"colour": f"pink {turn}", "note": note}])
    report = encoder.report()
    assert sum(report.not_among.values()) == 1_200
    assert len(report.not_among) == 1_001
    assert report.not_among["colour"] == 200
    assert max(map(len, encoder.terms())) <= 2 * LONGEST + 3
    assert "note=short" in encoder.terms()
    encoder.encode({}, [{"colour": "x" * 10**6}])
    assert encoder.report().not_among["colour"] == 201


def test_collisions_are_those_of_counting_by_hand() -> None:
    encoder = Encoder(None, 32)
    actions = [{"kind": word, "size": 1.0} for word in "abcdefgh"]
    encoder.encode({"hour": "9"}, actions)
    terms = encoder.terms()
    places = [place for place, _ in terms.values()]
    report = encoder.report()
    assert report.terms == len(terms) == 2 * 10
    assert report.collisions == sum(places.count(place) > 1 for place in places) > 0
    encoder.encode({"hour": "9"}, actions)
    assert encoder.report() == report


def test_a_feature_that_drowns_others_is_warned_of_once_with_what_cures_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rng = np.random.default_rng(0)
    shop = [
        [{"price": float(p), "new": bool(p % 2), "score": float(s)}]
        for p, s in zip(rng.integers(400, 1800, 60), rng.random(60), strict=True)
    ]
    encoder = Encoder(None, D)
    with caplog.at_level(logging.WARNING):
        for actions in shop:
            encoder.encode({"hour": "9"}, actions)
    assert len(caplog.messages) == 1
    told = re.search(
        r"Feature 'price' has values from 4.*features=(\{'price': '.*'\})", caplog.text
    )
    assert told is not None
    assert encoder.report().drowning.keys() == {"price"}
    caplog.clear()
    cured = Encoder(features_from(eval(told[1])), D)
    with caplog.at_level(logging.WARNING):
        for actions in shop:
            cured.encode({"hour": "9"}, actions)
    assert not caplog.messages
    assert cured.report().drowning == {}
    assert not cured.report().outside


@pytest.mark.parametrize(
    ("features", "context", "actions", "said"),
    [
        (SHOP, {}, [{"id": "a", "price": "12.50"}], r"actions, 'a', 'price': got the text '12.50'"),
        (None, {}, pd.DataFrame({"p": ["1.5", "2"]}), r"column 'p': got numbers written as texts"),
        (None, {}, pl.DataFrame({"p": ["1.5", "2"]}), r"astype\(float\)\), or declare it"),
        (None, {}, pd.DataFrame({"p": [1.5, "two"]}), r"column 'p': got the text 'two' among"),
        (None, {"x": float("nan")}, [{}], "the number nan at 'x'"),
        (None, pd.DataFrame({"p": [1, 2]}), [{}], "frame of 2 rows"),
        (None, {}, [{"id": "a"}, {"id": "a"}], "the same id twice"),
        (None, {}, [{"id": ""}, {"id": "a"}], "an empty id"),
        (None, {}, pd.DataFrame([[1, 2]], columns=["p", "p"]), "column 'p': got two of that name"),
        (SHOP, {}, [{"price": 1}], "an action without id"),
        (None, {}, [], "no action"),
        (None, {}, [3], "a int as action 0"),
        (None, {}, "abc", "a str"),
        (None, {}, [{"id": 1.5}], "as the id of action 0"),
        (None, {}, [{"x": pd.Timestamp("2020-01-01")}], "a Timestamp at 'x'"),
        (
            Features({"price": "0..1"}, only_declared=True),
            {},
            [{"pirce": 1}],
            "Did you mean 'price'",
        ),
    ],
)
def test_bad_features_are_refused_by_name(
    features: Features | None, context: object, actions: object, said: str
) -> None:
    encoder = Encoder(features, D)
    with pytest.raises(InvalidArms, match=said):
        encoder.encode(context, actions)
    assert encoder.report().terms == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"price": "2..1"}, "the range 2..1"),
        ({"price": "cheap"}, "'LOW..HIGH'"),
        ({"price": "centre 1 scale 0"}, "scale 0"),
        ({"price": 3}, "'price'"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "declard": {}}, "Did you mean 'declared'"),
        (3, "fb.Features"),
        ({"version": 1, "interactions": "some"}, "'all', 'none' or pairs"),
        ({"version": 1, "id": 1}, "True or False"),
    ],
)
def test_declarations_that_cannot_be_read_are_refused(given: Any, said: str) -> None:
    with pytest.raises((FedbanditError, InvalidParameter), match=said):
        fb.LinUCB(dimension=3, features=given)


def test_an_encoding_is_part_of_the_recipe_and_its_identity() -> None:
    plain = fb.FSCLB.lean(dimension=8, agents=2)
    assert "features" not in plain.identity
    recipe = fb.FSCLB.lean(dimension=8, agents=2, features={"user": {"age": "0..100"}})
    again = fb.RECIPES["FSCLB"](**recipe.params)
    assert again == recipe
    assert again.identity == recipe.identity != plain.identity
    assert recipe.params["features"] == {"version": 1, "declared": {"user.age": "0..100"}}
    assert recipe.parts.features == Features({"user.age": (0, 100)})
    assert features_from({"version": "category"}) == Features({"version": "category"})


@settings(max_examples=30)
@given(declared=st.dictionaries(names, st.sampled_from([
    "0..2000", "-1.5..2e3", "centre 40 scale 15", "number", "category", ["a", "b"],
])))  # fmt: skip
def test_params_are_read_back(declared: Any) -> None:
    spec = Features(declared, id=True, interactions=[("a", "b")], only_declared=True)
    assert features_from(spec.params) == spec
