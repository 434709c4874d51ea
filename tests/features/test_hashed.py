"""The documented rule, computed by hand; and what follows from it."""

import random
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import InvalidArms
from fedbandit.features.hashed import arm_of, features_of, unscaled_arms

WORD = 2**64

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
numbers = st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=5)
objects = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner, max_size=3),
    max_leaves=6,
)


def by_hand(context: list[tuple[str, float]], action: list[tuple[str, float]], d: int) -> Any:
    """Do what the module says, one term at a time, in whole numbers."""

    def hashed(name: str | None) -> int:
        if name is None:
            return 0
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        return z ^ (z >> 31)

    arm = [0.0] * d
    for c, cv in [(None, 1.0), *context]:
        for a, av in [(None, 1.0), *action]:
            z = mix((hashed(c) * 0x9E3779B97F4A7C15 + hashed(a)) % WORD)
            arm[(z >> 1) % d] += -cv * av if z % 2 else cv * av
    length = sum(x * x for x in arm) ** 0.5
    return [x / length for x in arm] if length else arm


def arm(context: object, action: object, d: int = 32) -> Any:
    return arm_of(features_of(context, field="c"), features_of(action, field="a"), d)


def test_the_rule_by_hand() -> None:
    context = {"user": {"age": 0.3, "lang": "de", "new": True, "city": None}, "hour": 7}
    action = [{"topic": "sport"}, {"length": 2.5, "old": False}]
    flat_context = [("user.age", 0.3), ("user.lang=de", 1.0), ("user.new", 1.0), ("hour", 7.0)]
    flat_action = [("topic=sport", 1.0), ("length", 2.5), ("old", 0.0)]
    for d in (1, 2, 7, 100):
        expected = by_hand(flat_context, flat_action, d)
        np.testing.assert_allclose(arm(context, action, d), expected, rtol=1e-12, atol=1e-15)


def test_a_constant_where_nothing_is_known() -> None:
    np.testing.assert_array_equal(arm({}, [], 5), by_hand([], [], 5))
    assert np.abs(arm({}, {}, 5)).sum() == 1.0


@given(objects, objects)
def test_length_is_one_unless_all_cancels(context: Any, action: Any) -> None:
    made = arm(context, action, 24)
    assert made.shape == (24,)
    length = np.linalg.norm(made)
    assert abs(length - 1.0) < 1e-9 or length == 0.0


@given(objects, objects, st.randoms(use_true_random=False))
def test_the_order_of_names_does_not_matter(
    context: dict[str, Any], action: dict[str, Any], chance: random.Random
) -> None:
    shuffled = list(context.items())
    chance.shuffle(shuffled)
    np.testing.assert_array_equal(arm(dict(shuffled), action), arm(context, action))


@given(objects, objects)
def test_null_and_a_list_around_change_nothing(
    context: dict[str, Any], action: dict[str, Any]
) -> None:
    plain = arm(context, action)
    np.testing.assert_array_equal(arm([context], [action]), plain)
    np.testing.assert_array_equal(arm([context, {"nothing at all": None}], action), plain)


def test_contexts_and_actions_are_told_apart_and_texts_too() -> None:
    a = {"x": "1"}
    made = [arm({}, a), arm(a, {}), arm(a, a), arm({}, {"x": "2"}), arm({}, {"x": 1})]
    for i, one in enumerate(made):
        assert all(not np.allclose(one, other) for other in made[:i])


def test_inner_products_are_kept_on_average_over_names() -> None:
    found, d = [], 64
    for i in range(4000):
        one = features_of({f"shared{i}": 1.0, f"one{i}": 2.0}, field="a")
        other = features_of({f"shared{i}": 1.0, f"other{i}": 2.0}, field="a")
        nothing = features_of({}, field="c")
        first, second = unscaled_arms(nothing, [one, other], d)
        found.append(first @ second)
    constant_and_shared = 1.0 + 1.0
    assert abs(np.mean(found) - constant_and_shared) < 5 * np.std(found) / 4000**0.5
    assert np.std(found) < 2.0


@pytest.mark.parametrize(
    "given",
    [
        {"x": [1, 2]},
        {"x": [{"y": 1}, 2]},
        "text",
        3.0,
        None,
        True,
        [1.0],
        ["x"],
        {"x": 1e10},
        {"x": float("nan")},
        {"x": 10**400},
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}},
    ],
)
def test_what_cannot_be_features(given: object) -> None:
    with pytest.raises(InvalidArms, match=r"^context: got .*; expected objects of numbers"):
        features_of(given, field="context")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1.0, 2], "got a list of numbers;"),
        ([1.0, {}], "got a list of values that are not objects;"),
        ({"x": {"y": ["a"]}}, "got a list of values that are not objects at 'x.y';"),
        ("text", "got a text;"),
        (True, "got true;"),
        (2, "got a number;"),
        (None, "got null;"),
    ],
)
def test_it_is_said_in_the_words_of_json(given: object, told: str) -> None:
    with pytest.raises(InvalidArms, match=told):
        features_of(given, field="context")
