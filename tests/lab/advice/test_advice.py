"""Advice on a small world: numbers by another route, files, and what is refused."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.errors import InvalidParameter
from fedbandit.lab import advise
from fedbandit.lab.advice.advice import RADII
from fedbandit.lab.advice.files import write_advice
from fedbandit.lab.analysis.advice import LEAN, LITERAL, Advice, SketchSize
from fedbandit.lab.analysis.recommendation import Certainty, Measured
from fedbandit.lab.analysis.statistics import Estimate
from fedbandit.lab.figures.advice import compose_advice
from fedbandit.lab.study.spectrum import played_spectrum
from tests.lab.tiny import world

WORLD = world(dimension=6, arms=4, seed=3, spectrum="power-law")
ROUNDS = 300


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(WORLD, sizes=[7, 3, 3], trials=2, rounds=ROUNDS, radius=0.2, jobs=1)


def finals(recipe: fb.Recipe, measure: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    tapes = [replace(WORLD, seed=seed) for seed in (3, 4)]
    return np.array(
        [getattr(fb.simulate(recipe, tape, rounds=ROUNDS), measure)[-1] for tape in tapes], float
    )


def test_sizes_are_tried_once_in_order(advice: Advice) -> None:
    assert [each.sketch_size for each in advice.prospects] == [3, 7]
    assert [(each.recipe, each.sketch_size) for each in advice.measured] == [
        ("FSCLB.lean", 3),
        ("FSCLB.lean", 7),
        ("FSCLB.lean", "auto"),
        ("FSCLB", 3),
        ("FSCLB", 7),
        ("FedLinUCB", None),
        ("Random", None),
    ]


def test_epsilon_is_the_smallest_share_of_a_tail(advice: Advice) -> None:
    recipe = fb.FedLinUCB(dimension=6, agents=2, radius=0.2)
    spectrum = played_spectrum(recipe, WORLD, rounds=ROUNDS)
    assert advice.eigenvalues == tuple(spectrum)
    for each in advice.prospects:
        size = each.sketch_size
        assert each.epsilon == pytest.approx(
            min(spectrum[k:].sum() / (size - k) for k in range(size)), abs=1e-9
        )
        assert each.tail == pytest.approx(spectrum[size - 1 :].sum() / ROUNDS, abs=1e-9)


def test_regret_bytes_and_loss_are_those_of_plain_simulations(advice: Advice) -> None:
    shared: dict[str, Any] = {"dimension": 6, "agents": 2}
    recipes: dict[tuple[str, SketchSize], fb.Recipe] = {
        (LEAN, 3): fb.FSCLB.lean(**shared, sketch_size=3, radius=0.2),
        (LITERAL, 3): fb.FSCLB(**shared, sketch_size=3, radius=0.2),
        (LEAN, "auto"): fb.FSCLB.lean(**shared, radius=0.2),
        ("FedLinUCB", None): fb.FedLinUCB(**shared, radius=0.2),
    }
    best = finals(fb.FedLinUCB(**shared, radius=0.2), "regret")
    floor = advice.of("Random").regret.mean
    assert advice.lead.mean == pytest.approx(floor - best.mean())
    for (name, size), recipe in recipes.items():
        found, regret = advice.of(name, size), finals(recipe, "regret")
        assert found.regret.mean == pytest.approx(regret.mean())
        assert found.bytes.mean == pytest.approx(finals(recipe, "bytes").mean())
        share = (regret.mean() - best.mean()) / (floor - best.mean())
        assert found.loss.mean == pytest.approx(share, abs=1e-12)


def test_a_sketch_that_sheds_nothing_loses_nothing(advice: Advice) -> None:
    assert advice.of(LITERAL, 7).loss == Estimate(0.0, 0.0)
    assert advice.of("Random").loss.mean == pytest.approx(1.0)


def test_advice_depends_on_nothing_but_its_arguments(advice: Advice, tmp_path: Path) -> None:
    again = advise(WORLD, sizes=(3, 7), trials=2, rounds=ROUNDS, radius=0.2, jobs=1, out=tmp_path)
    assert again == advice
    assert (tmp_path / "runs").exists()


def test_default_sizes_and_radius() -> None:
    small = advise(world(dimension=3), trials=1, rounds=40, jobs=1)
    assert [each.sketch_size for each in small.prospects] == [2, 4]
    assert small.tuned
    assert small.radius in RADII
    wide = advise(world(dimension=20), trials=1, rounds=5, radius=0.1, jobs=1)
    assert [each.sketch_size for each in wide.prospects] == [2, 4, 8, 12, 21]
    assert (wide.tuned, wide.radius) == (False, 0.1)


def test_too_short_a_run_recommends_nothing() -> None:
    said = advise(world(), sizes=[2], trials=2, rounds=1, radius=0.1, jobs=1).recommendation
    assert (said.sketch_size, said.certainty) == (None, Certainty.TOO_SHORT)


class Shapeless:
    dimension, agents, seed, params = 3, 1, 0, {"plain": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [1, 3]}, "each of sizes must be a whole number from 2 to 5 .*; got 1"),
        ({"sizes": [6]}, "each of sizes must be .*; got 6"),
        ({"sizes": [2.5]}, "each of sizes must be .*; got 2.5"),
        ({"sizes": []}, "sizes is empty"),
        ({"trials": 0}, "trials must be .*; got 0"),
        ({"rounds": 0}, "rounds must be .*; got 0"),
        ({"radius": -1.0}, "radius must be .*; got -1.0"),
        ({"radius": math.nan}, "radius must be .*; got nan"),
        ({"tolerance": 1.0}, "tolerance must be .*; got 1.0"),
        ({"world": world(dimension=1)}, "dimension 1; expected at least 2"),
        ({"world": Shapeless()}, "Shapeless without a seed"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"world": world(), "out": tmp_path / "out", **changes}
    with pytest.raises(InvalidParameter, match=message):
        advise(given.pop("world"), **given)
    assert not (tmp_path / "out").exists()


def test_unknown_lines_are_named(advice: Advice) -> None:
    with pytest.raises(InvalidParameter, match=r"FSCLB l=4; expected one of FSCLB.lean l=3, "):
        advice.of("FSCLB", 4)


def test_files(advice: Advice, tmp_path: Path) -> None:
    written = write_advice(advice, tmp_path / "new")
    assert [path.name for path in written] == [
        *("advice.csv", "advice.json", "advice.html"),
        *("advice.png", "advice.svg", "advice.pdf"),
    ]
    assert all(path.stat().st_size > 0 for path in written)
    rows = list(csv.DictReader(written[0].read_text(encoding="utf-8").splitlines()))
    assert float(rows[0]["epsilon_l"]) == advice.prospects[0].epsilon
    assert int(rows[0]["message_bytes_lean"]) == advice.prospects[0].bytes_lean
    assert [row["sketch_size"] for row in rows] == ["3", "7", "auto", "3", "7", "", ""]
    assert rows[2]["tail"] == ""
    assert float(rows[3]["regret_mean"]) == advice.of(LITERAL, 3).regret.mean
    said = json.loads(written[1].read_text(encoding="utf-8"))
    assert said["recommendation"]["sentence"] == advice.recommendation.sentence
    assert said["eigenvalues"] == list(advice.eigenvalues)


def bare(measured: Measured) -> Measured:
    """What one trial without messages would have measured."""
    nothing = Estimate(0.0, math.nan)
    return replace(measured, regret=nothing, bytes=nothing, loss=Estimate(math.nan, math.nan))


def test_figure_shows_every_size_and_rings_the_chosen(advice: Advice) -> None:
    chosen = replace(advice.recommendation, sketch_size=3)
    left, right = compose_advice(replace(advice, recommendation=chosen)).axes
    assert "tail at l = 3" in left.texts[0].get_text()
    assert [text.get_text() for text in right.texts] == ["3", "7", "3", "7"]
    for each in advice.measured[:-1]:
        low, high = right.get_ylim()
        assert low <= each.regret.mean <= high


def test_sizes_that_sent_as_much_share_a_text(advice: Advice) -> None:
    sent = Estimate(1000.0, 0.0)
    alike = tuple(
        replace(each, bytes=sent) if each.recipe == LITERAL else each for each in advice.measured
    )
    _, right = compose_advice(replace(advice, measured=alike)).axes
    assert [text.get_text() for text in right.texts] == ["3", "7", "3-7"]


def test_figure_of_next_to_nothing(advice: Advice, tmp_path: Path) -> None:
    empty = replace(
        advice,
        setting="a name that goes on and on and on, longer than any panel",
        eigenvalues=(0.0,) * 6,
        measured=tuple(map(bare, advice.measured)),
        lead=Estimate(0.0, math.nan),
    )
    assert all(path.exists() for path in write_advice(empty, tmp_path))
