"""Bad parameters are refused when a world is made, and the message helps."""

from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import WORLDS, Classification, Synthetic

GOOD: dict[str, Any] = {"dimension": 5, "arms": 3, "agents": 2}
NOT_COUNTS = [0, -1, 10**30, 2.0, "3", None, True, float("nan"), np.array([2])]


@pytest.mark.parametrize("name", ["dimension", "arms", "agents"])
@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
def test_counts_of_a_synthetic_world(name: str, value: object) -> None:
    with pytest.raises(InvalidParameter, match=rf"^{name} must be a whole number .*; got .*\.$"):
        Synthetic(**{**GOOD, name: value})


@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
def test_agents_of_a_classification_world(value: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^agents must be .*; got "):
        Classification(data="satimage", agents=value)


@pytest.mark.parametrize("world", [Synthetic, Classification])
@pytest.mark.parametrize("seed", [-1, 1.5, "0", None, False])
def test_seeds(world: Any, seed: object) -> None:
    parameters = GOOD if world is Synthetic else {"data": "satimage"}
    with pytest.raises(InvalidParameter, match=r"^seed must be .*; got "):
        world(**parameters, seed=seed)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": -0.1}, r"^noise must be a finite number of at least 0; got -0\.1"),
        ({"noise": float("nan")}, r"^noise must be .*; got nan"),
        ({"noise": float("inf")}, r"^noise must be .*; got inf"),
        ({"noise": "loud"}, r"^noise must be .*; got 'loud'"),
        ({"noise": None}, r"^noise must be .*; got None"),
        ({"norm": 0}, r"^norm must be a finite number above 0; got 0"),
        ({"norm": -1.0}, r"^norm must be .*; got -1\.0"),
        ({"norm": float("inf")}, r"^norm must be .*; got inf"),
        ({"norm": True}, r"^norm must be .*; got True"),
        ({"spectrum": "low-rank", "rank": 0}, r"^rank must be .* from 1 to 5; got 0"),
        ({"spectrum": "low-rank", "rank": 6}, r"^rank must be .*; got 6"),
        ({"spectrum": "low-rank", "rank": 2.0}, r"^rank must be .*; got 2\.0"),
        ({"spectrum": "power-law", "decay": -1}, r"^decay must be .*; got -1"),
        ({"spectrum": "power-law", "decay": float("nan")}, r"^decay must be .*; got nan"),
        ({"rank": 2}, r"^rank: got 2 with spectrum 'isotropic'; expected rank only with"),
        ({"spectrum": "low-rank", "decay": 1.0}, r"^decay: got 1\.0 with spectrum 'low-rank'"),
    ],
    ids=repr,
)
def test_numbers_of_a_synthetic_world(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Synthetic(**GOOD, **parameters)


@pytest.mark.parametrize("spectrum", ["lowrank", "", None, 3])
def test_an_unknown_spectrum(spectrum: Any) -> None:
    with pytest.raises(UnknownName, match="isotropic, low-rank, power-law"):
        Synthetic(**GOOD, spectrum=spectrum)


def test_a_misspelt_spectrum_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'power-law'"):
        Synthetic(**GOOD, spectrum="powerlaw")


@pytest.mark.parametrize("n", [-1, 1.0, "10", None])
@pytest.mark.parametrize("world", [Synthetic(**GOOD), Classification(data="satimage")], ids=repr)
def test_rounds_are_refused_at_the_call_not_at_the_first_round(world: Any, n: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^rounds\(n\) must be .*; got "):
        world.rounds(n)


@pytest.mark.parametrize("data", [5, None, b"satimage", np.eye(2)])
def test_data_that_is_no_name(data: Any) -> None:
    with pytest.raises(InvalidParameter, match="data set: got"):
        Classification(data=data)


def test_numbers_of_numpy_become_plain() -> None:
    given: dict[str, Any] = {
        "dimension": np.int32(5),
        "arms": np.uint8(3),
        "agents": np.int64(2),
        "noise": np.float32(0.5),
        "seed": np.int64(1),
    }
    world = Synthetic(**given)
    assert world == Synthetic(dimension=5, arms=3, agents=2, noise=0.5, seed=1)
    assert type(world.seed) is int
    assert type(world.noise) is float


@pytest.mark.parametrize("world", WORLDS.values())
def test_parameters_have_names(world: Any) -> None:
    parameters = signature(world).parameters.values()
    assert {parameter.kind for parameter in parameters} == {Parameter.KEYWORD_ONLY}
