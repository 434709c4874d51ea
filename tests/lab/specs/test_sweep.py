"""Lists in a spec are sweeps; a record has every parameter as a column."""

import csv
import json
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.lab import parse_spec, read_spec, run
from fedbandit.lab.specs.sweep import points
from tests.lab.tiny import SPEC, write_spec

VALUES = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True)


def swept(**changes: Any) -> dict[str, Any]:
    world = {"kind": "synthetic", "dimension": 4, "arms": 3, "agents": 2}
    recipe = {"kind": "FSCLB", "sketch_size": 3, "radius": 0.3}
    given: dict[str, Any] = {"rounds": 20, "trials": 2, **changes}
    return given | {
        "worlds": {"easy": world | given.pop("world", {})},
        "recipes": {
            "sketch": recipe | given.pop("recipe", {}),
            "whole": {"kind": "FedLinUCB", "radius": 0.3},
        },
    }


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.integers())
def test_the_points_are_every_combination_once(lists: dict[str, list[int]], fixed: int) -> None:
    found = points("it", {**lists, "fixed": fixed}, place="recipes.it")
    expected = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    assert [{**point.params} for point in found] == [{**each, "fixed": fixed} for each in expected]
    assert len({point.label for point in found}) == len(found)


def test_a_list_in_a_table_is_swept_too() -> None:
    found = points("it", {"bounds": {"noise": [0.1, 0.5], "delta": 0.1}}, place="recipes.it")
    assert [point.params["bounds"]["noise"] for point in found] == [0.1, 0.5]
    assert [point.label for point in found] == ["it, bounds.noise=0.1", "it, bounds.noise=0.5"]


def test_worlds_and_recipes_are_swept_together() -> None:
    content = swept(world={"agents": [1, 2]}, recipe={"sketch_size": [2, 3, 4]})
    tasks = parse_spec(content).tasks()
    assert len(tasks) == 2 * 2 * (3 + 1)
    assert {(task.setting, task.algorithm) for task in tasks} == {
        (f"easy, agents={agents}", algorithm)
        for agents in (1, 2)
        for algorithm in ("whole", *(f"sketch, sketch_size={size}" for size in (2, 3, 4)))
    }
    assert {task.recipe.agents for task in tasks} == {1, 2}
    assert len({task.key for task in tasks}) == len(tasks)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sweep")
    spec = parse_spec(swept(world={"agents": [1, 2]}, recipe={"sketch_size": [2, 3]}))
    frame = run(spec, out=directory, jobs=1).frame(last=True)
    frame.to_pickle(directory / "frame")
    return directory


def test_every_parameter_is_a_column_everywhere(out: Path) -> None:
    frame = pd.read_pickle(out / "frame")
    records = pd.read_parquet(out / "runs")
    with (out / "summary.csv").open() as source:
        summary = list(csv.DictReader(source))
    for name in ("dimension", "agents", "sketch_size", "alpha", "radius", "wire", "noise", "seed"):
        for found in (frame.columns, records.columns, summary[0]):
            assert name in found, name
    one = frame[(frame["algorithm"] == "sketch, sketch_size=2") & (frame["trial"] == 1)].iloc[1]
    assert (one["world"], one["recipe"], one["setting"]) == ("easy", "sketch", "easy, agents=2")
    assert (one["agents"], one["sketch_size"], one["radius_value"]) == (2, 2, 0.3)
    assert (one["dimension"], one["alpha"], one["wire"], one["seed"]) == (4, 1.0, "float64", 1)
    assert {int(row["sketch_size"]) for row in summary if row["sketch_size"]} == {2, 3}
    assert polars.read_parquet(out / "runs/*.parquet").height == len(records)


def test_reward_is_the_total_everywhere(out: Path) -> None:
    last = pd.read_pickle(out / "frame").groupby(["setting", "algorithm"])["reward"].mean()
    with (out / "summary.csv").open() as source:
        for row in csv.DictReader(source):
            mean = last[row["setting"], row["algorithm"]]
            assert float(row["reward_mean"]) == pytest.approx(mean, abs=1e-9)


def test_a_tuned_radius_is_picked_on_other_seeds(tmp_path: Path) -> None:
    content = swept(recipe={"radius": "tuned", "sketch_size": [2, 3]})
    content["tuning"] = {"grid": [0.1, 50.0], "trials": 2}
    results = run(parse_spec(content), out=tmp_path, jobs=1)
    tuned = {task.radius for task in results.tasks if task.algorithm.startswith("sketch")}
    assert tuned == {"tuned (0.1)"}
    assert {task.recipe.params["radius"] for task in results.tasks} == {0.1, 0.3}
    tuning = pd.read_parquet(tmp_path / "tuning" / "runs")
    assert set(tuning["seed"]) == {1_000_000, 1_000_001}
    assert set(tuning["radius_value"]) == {0.1, 50.0}
    assert run(parse_spec(content), out=tmp_path, jobs=1).computed == 0


@pytest.mark.parametrize(
    ("tuning", "part"),
    [({"grid": []}, "grid"), ({"trials": 0}, "tuning.trials"), ({"gird": [1]}, "'grid'?")],
)
def test_tuning_that_cannot_be_is_refused(tuning: dict[str, Any], part: str) -> None:
    with pytest.raises((InvalidParameter, UnknownName), match=part):
        parse_spec({**SPEC, "tuning": tuning})


def test_data_files_of_a_sweep_start_at_the_spec(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "1,no\n2,yes\n3,no\n" * 2)
    world = {"kind": "classification", "data": ["a.csv", "b.csv"], "target_column": "y"}
    path = write_spec(tmp_path / "spec.toml", worlds={"files": world})
    path.write_text(path.read_text().replace("'", '"'))
    settings_found = [task.setting for task in read_spec(path).tasks()]
    assert {*settings_found} == {"files, data=a.csv", "files, data=b.csv"}


def test_text_in_a_column_of_numbers_is_in_parameters(tmp_path: Path) -> None:
    content = swept(rounds=5, trials=1)
    content["recipes"] = {"lean": {"kind": "FSCLB.lean"}}
    table = run(parse_spec(content), out=tmp_path, jobs=1).table
    assert table["sketch_size"].null_count == table.num_rows
    assert json.loads(table["parameters"][0].as_py())["sketch_size"] == "auto"
