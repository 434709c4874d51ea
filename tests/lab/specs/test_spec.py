"""A spec is judged whole, and every mistake is told by its place."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.cli.commands.run import EXAMPLE
from fedbandit.errors import DataError, FedbanditError, InvalidParameter, UnknownName
from fedbandit.lab import Part, Spec, parse_spec, read_spec
from fedbandit.parameters import build
from tests.lab.tiny import ROOT, SPEC, WORLD, write_spec

GONE = object()


def test_every_recipe_meets_every_world_in_every_trial() -> None:
    tasks = parse_spec(SPEC).tasks()
    seen = [(task.setting, task.trial, task.algorithm) for task in tasks]
    assert seen == [
        (setting, trial, algorithm)
        for setting in ("easy", "noisy one")
        for trial in range(3)
        for algorithm in ("sketch", "floor")
    ]
    assert {task.rounds for task in tasks} == {50}
    assert {task.radius for task in tasks if task.algorithm == "sketch"} == {"0.3"}
    assert {task.radius for task in tasks if task.algorithm == "floor"} == {"none"}


def test_trial_decides_the_tape_for_all_recipes() -> None:
    for task in parse_spec(SPEC).tasks():
        assert task.world.params["seed"] == 7 + task.trial
        assert task.world.params["noise"] == (0.1 if task.setting == "easy" else 1.0)


def test_recipes_take_from_world_and_trial_what_they_share() -> None:
    for task in parse_spec(SPEC).tasks():
        assert (task.recipe.dimension, task.recipe.agents) == (4, 2)
        if task.algorithm == "floor":
            assert task.recipe.params["seed"] == 7 + task.trial
        else:
            assert task.recipe.params["bounds"] == fb.Bounds(horizon=50).params


def test_what_a_recipe_states_stands() -> None:
    own = {"kind": "Random", "agents": 5, "seed": 3, "dimension": 4}
    theory = {"kind": "LinUCB", "radius": "paper", "bounds": {"delta": 0.1, "horizon": 9}}
    tasks = _parse({"recipes": {"own": own, "theory": theory}}).tasks()
    assert tasks[0].recipe.params == {"dimension": 4, "agents": 5, "seed": 3}
    assert tasks[1].recipe.params["bounds"] == fb.Bounds(delta=0.1, horizon=9).params
    assert tasks[1].radius == "paper"


def test_whole_numbers_do_where_numbers_are_asked_for() -> None:
    one = _parse({"recipes.sketch.alpha": 1}).tasks()
    other = _parse({"recipes.sketch.alpha": 1.0}).tasks()
    assert [task.key for task in one] == [task.key for task in other]


def test_none_is_a_word() -> None:
    assert _parse({"worlds.easy.norm": "none"}).tasks()[0].world.params["norm"] is None


def test_defaults_of_the_top() -> None:
    spec = _parse({"name": GONE, "seed": GONE})
    assert (spec.name, spec.seed) == ("experiment", 0)


def test_spec_as_a_value_takes_values() -> None:
    recipe = Part("LinUCB", {"bounds": fb.Bounds(horizon=3)})
    spec = Spec(name="x", rounds=5, trials=1, worlds={"w": _part(WORLD)}, recipes={"r": recipe})
    assert spec.tasks()[0].recipe.params["bounds"]["horizon"] == 3


@pytest.mark.parametrize(
    ("changes", "kind", "parts"),
    [
        ({"ruonds": 3}, UnknownName, ["key of the spec", "'ruonds'", "Did you mean 'rounds'?"]),
        ({"rounds": GONE}, InvalidParameter, ["rounds is missing"]),
        ({"worlds": GONE}, InvalidParameter, ["worlds is missing"]),
        ({"name": 3}, InvalidParameter, ["name: got 3"]),
        ({"rounds": 0}, InvalidParameter, ["rounds must be a whole number from 1 to", "; got 0."]),
        ({"rounds": "many"}, InvalidParameter, ["rounds must be", "; got 'many'."]),
        ({"rounds": 10.0}, InvalidParameter, ["rounds must be", "; got 10.0."]),
        ({"trials": True}, InvalidParameter, ["trials must be", "; got True."]),
        ({"seed": -1}, InvalidParameter, ["seed must be", "at least 0; got -1."]),
        ({"worlds": {}}, InvalidParameter, ["worlds is empty", "[worlds.LABEL]"]),
        ({"recipes": {}}, InvalidParameter, ["recipes is empty"]),
        ({"worlds": 3}, InvalidParameter, ["worlds: got 3", "a table"]),
        ({"worlds.easy": "synthetic"}, InvalidParameter, ["worlds.easy: got 'synthetic'"]),
        ({"worlds.easy.kind": GONE}, InvalidParameter, ["worlds.easy.kind is missing"]),
        ({"worlds.easy.kind": 3}, InvalidParameter, ["worlds.easy.kind: got 3"]),
        ({"worlds.easy.kind": "synthetc"}, UnknownName, ["worlds.easy.kind", "'synthetic'?"]),
        ({"worlds.easy.arsm": 3}, UnknownName, ["in worlds.easy:", "Did you mean 'arms'?"]),
        ({"worlds.easy.arms": GONE}, InvalidParameter, ["worlds.easy: arms is missing"]),
        (
            {"worlds.easy.arms": "3"},
            InvalidParameter,
            ["worlds.easy.arms: got '3'", "a whole number"],
        ),
        ({"worlds.easy.arms": 0}, InvalidParameter, ["worlds.easy.arms must be", "; got 0."]),
        ({"worlds.easy.seed": 3}, InvalidParameter, ["worlds.easy.seed", "seed + i"]),
        ({"worlds.easy.spectrum": "powerlaw"}, UnknownName, ["worlds.easy", "'power-law'?"]),
        ({"worlds.noisy one.nose": 1}, UnknownName, ['worlds."noisy one"', "'noise'?"]),
        ({"recipes.sketch.kind": "FSLCB"}, UnknownName, ["recipes.sketch.kind", "'FSCLB'?"]),
        ({"recipes.sketch.knid": "x"}, UnknownName, ["recipes.sketch", "Did you mean 'kind'?"]),
        ({"recipes.sketch.alhpa": 1}, UnknownName, ["recipes.sketch", "Did you mean 'alpha'?"]),
        ({"recipes.sketch.alpha": "big"}, InvalidParameter, ["recipes.sketch.alpha: got 'big'"]),
        (
            {"recipes.sketch.alpha": -1.0},
            InvalidParameter,
            ["recipes.sketch.alpha must be", "; got -1.0."],
        ),
        ({"recipes.sketch.alpha": [[1]]}, InvalidParameter, ["recipes.sketch.alpha: a list is"]),
        ({"recipes.sketch.alpha": [1, "x"]}, InvalidParameter, ["recipes.sketch.alpha: got 'x'"]),
        ({"rounds": 10**30}, InvalidParameter, ["rounds must be", "; got 1000"]),
        ({"worlds.noisy one": 3}, InvalidParameter, ['worlds."noisy one": got 3']),
        ({"worlds.easy.norm": "x"}, InvalidParameter, ['; expected a number or "none". ']),
        ({"worlds.easy.spectrum": 3}, InvalidParameter, ["; expected text in quotes. "]),
        ({"recipes.sketch.bounds": 3}, InvalidParameter, ["; expected a table. "]),
        ({"recipes.sketch.radius": []}, InvalidParameter, ["a list is a sweep"]),
        (
            {"recipes.sketch.radius": True},
            InvalidParameter,
            ['; expected a number or "auto" or "pa'],
        ),
        ({"recipes.sketch.sketch_size": GONE}, InvalidParameter, ["sketch_size is missing"]),
        ({"recipes.sketch.sketch_size": 9}, InvalidParameter, ["recipes.sketch.sketch_size"]),
        ({"recipes.sketch.radius": "papre"}, UnknownName, ["recipes.sketch.radius", "'paper'?"]),
        ({"recipes.sketch.dimension": 5}, InvalidParameter, ["recipes.sketch.dimension: got 5"]),
        ({"recipes.sketch.agents": 1}, InvalidParameter, ["recipes.sketch.agents: got 1"]),
        ({"recipes.sketch.bounds": 3}, InvalidParameter, ["recipes.sketch.bounds: got 3"]),
        ({"recipes.sketch.bounds": {"nosie": 1}}, UnknownName, ["sketch.bounds", "'noise'?"]),
        ({"recipes.sketch.bounds": {"delta": 2.0}}, InvalidParameter, ["sketch.bounds.delta"]),
        ({"recipes.sketch.bounds": {"delta": ""}}, InvalidParameter, ["sketch.bounds.delta"]),
        (
            {"worlds": {"real": {"kind": "classification", "data": "satimag"}}},
            UnknownName,
            ["worlds.real", "'satimage'?"],
        ),
        (
            {"worlds": {"real": {"kind": "classification", "data": "gone.csv"}}},
            DataError,
            ["worlds.real", "gone.csv"],
        ),
        (
            {"worlds": {"real": {"kind": "classification", "data": 3}}},
            InvalidParameter,
            ["worlds.real: data set: got 3"],
        ),
        (
            {"worlds": {"real": {"kind": "classification", "data": {"name": "satimage"}}}},
            InvalidParameter,
            ["worlds.real: data set: got {'name'", "or a path"],
        ),
        (
            {"worlds": {"real": {"kind": "classification", "data": "satimage", "target": 7}}},
            InvalidParameter,
            ["worlds.real.target must be a whole number from 0 to 5 (a class of", "; got 7."],
        ),
    ],
)
def test_mistake_is_told_by_its_place(
    changes: dict[str, Any], kind: type[FedbanditError], parts: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        _parse(changes).tasks()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rounds = \n", "line 1"),
        (b'name = "x"\nrounds = 3\nrounds = 4\n', "line 3"),
        (b"name = '\xff'\n", "utf-8"),
    ],
)
def test_file_that_is_not_toml_is_told_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=message) as caught:
        read_spec(path)
    assert str(path) in str(caught.value)


def test_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="No such file"):
        read_spec(tmp_path / "gone.toml")
    with pytest.raises(InvalidParameter, match="directory"):
        read_spec(tmp_path)


def test_file_gives_the_same_as_its_content(tmp_path: Path) -> None:
    assert read_spec(write_spec(tmp_path / "spec.toml")) == parse_spec(SPEC)


def test_data_are_found_beside_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "a,kind\n1,x\n2,y\n3,x\n"
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "toy.csv").write_text(content, encoding="utf-8")
    for source in ("toy.csv", "../below/toy.csv", str(tmp_path / "below" / "toy.csv")):
        write_spec(
            tmp_path / "below" / "spec.toml",
            worlds={"real": {"kind": "classification", "data": source, "agents": 2}},
            recipes={"floor": {"kind": "Random"}},
        )
        monkeypatch.chdir(tmp_path)
        spec = read_spec(Path("below") / "spec.toml")
        monkeypatch.chdir(tmp_path.parent)
        assert spec.tasks()[0].world.params["data"] == "toy.csv"


def test_data_that_are_no_file_keep_their_name(tmp_path: Path) -> None:
    for source in ("satimage", "openml:22", "OpenML:1.5", "~/toy.csv"):
        worlds = {"real": {"kind": "classification", "data": source}}
        spec = read_spec(write_spec(tmp_path / "spec.toml", worlds=worlds))
        assert spec.worlds["real"].params["data"] == source


def test_numbers_of_numpy_become_plain() -> None:
    given: dict[str, Any] = {"rounds": np.int64(5), "trials": np.int8(2), "seed": np.uint8(1)}
    spec = replace(parse_spec(SPEC), **given)
    assert {type(number) for number in (spec.rounds, spec.trials, spec.seed)} == {int}


def test_file_without_a_name_is_called_after_itself(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    help_text = EXAMPLE.partition("for example:")[2].partition("Interrupt")[0]
    path.write_text(help_text, encoding="utf-8")
    spec = read_spec(path)
    assert spec.name == "mine"
    assert len(spec.tasks()) == 10


def test_the_example_is_valid() -> None:
    assert len(read_spec(ROOT / "examples" / "compare.toml").tasks()) == 18


def test_types_that_cannot_be_judged_are_left_to_the_factory() -> None:
    def takes(*, anything: "complex | range") -> object:
        return anything

    assert build(takes, {"anything": "x"}, place="here") == "x"


def _parse(changes: dict[str, Any]) -> Spec:
    """The tiny spec with values at dotted places changed, or taken out."""
    content = deepcopy(dict(SPEC))
    for place, value in changes.items():
        *path, last = place.split(".")
        table = content
        for name in path:
            table = table[name]
        if value is GONE:
            del table[last]
        else:
            table[last] = value
    return parse_spec(content)


def _part(table: dict[str, Any]) -> Part:
    return Part(table["kind"], {name: value for name, value in table.items() if name != "kind"})
