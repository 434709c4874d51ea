"""Names, limits and recipes that every agent, coordinator and command takes, or refuses."""

from typing import Any

import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.errors import InvalidParameter
from fedbandit.terms import check_limits, check_name, check_served, is_name


@pytest.mark.parametrize("name", ["a", "7", "phone-7", "A.b_c-d", "x" * 64])
def test_names(name: str) -> None:
    assert is_name(name)
    assert check_name("agent", name) == name


@pytest.mark.parametrize("name", ["", ".", "-a", "_a", "a/b", "a b", "ä", "a\n", "x" * 65, None, 7])
def test_other_names_are_refused_in_one_sentence(name: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"agent: got .*; expected 1 to 64 letters, digits"):
        check_name("agent", name)


@pytest.mark.parametrize("change", [{}, {"arm_norm": 1e30}, {"count": 1}, {"count": 10**15}])
def test_limits(change: dict[str, Any]) -> None:
    limits = wire.Limits(**{"arm_norm": 1.0, "reward": 1.0, "count": 5, **change})
    assert check_limits(limits) is limits


@pytest.mark.parametrize("name", ["arm_norm", "reward"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1.1e30, float("inf"), float("nan")])
def test_sizes_out_of_range_are_refused(name: str, value: float) -> None:
    limits = {"arm_norm": 1.0, "reward": 1.0, name: value}
    with pytest.raises(InvalidParameter, match=f"largest {name.replace('_', ' ')}: got "):
        check_limits(wire.Limits(count=5, **limits))


@pytest.mark.parametrize("count", [0, -1, 10**15 + 1])
def test_counts_out_of_range_are_refused(count: int) -> None:
    with pytest.raises(InvalidParameter, match="largest count: got "):
        check_limits(wire.Limits(arm_norm=1.0, reward=1.0, count=count))


@pytest.mark.parametrize("name", fb.RECIPES)
def test_recipes_that_are_served(name: str) -> None:
    params = {
        "FSCLB": {"sketch_size": 2},
        "SOFUL": {"sketch_size": 2},
        "CBSCFD": {"sketch_size": 2},
    }
    recipe = fb.RECIPES[name](dimension=3, agents=2, **params.get(name, {}))
    if name in ("FSCLB", "FSCLB.lean", "FedLinUCB"):
        assert check_served(recipe) is recipe
    else:
        with pytest.raises(InvalidParameter, match="FSCLB or FedLinUCB"):
            check_served(recipe)
