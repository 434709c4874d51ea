"""The comparison beyond the paper: every line is built as it says, every number as it was run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedbandit.cli.entry import main
from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import estimate
from fedbandit.lab.analysis.text import plus_minus
from fedbandit.lab.beyond.beyond import beyond, beyond_hard
from fedbandit.lab.beyond.hard import HARD, LINES, HardWorld, hard_tasks
from fedbandit.lab.beyond.hard_report import hard_text
from fedbandit.lab.beyond.report import heavy_tail_table
from fedbandit.lab.beyond.variants import VARIANTS
from fedbandit.lab.study.settings import SETTINGS, Algorithm
from fedbandit.lab.study.study import FULL, QUICK
from fedbandit.simulation import simulate

NAMES = [variant.name for variant in VARIANTS]


@pytest.mark.parametrize("variant", VARIANTS, ids=NAMES)
def test_every_line_fits_every_setting_and_is_what_it_says(variant: Algorithm) -> None:
    step, _, width = variant.name.partition(", ")
    for setting in SETTINGS:
        recipe = variant.build(setting, radius=0.2, rounds=100, seed=1)
        assert recipe.dimension == setting.dimension
        if step in ("averaged", "corrected"):
            assert recipe.params["estimate"] == step
            assert recipe.params["wire"] == (width or "float64")
            assert recipe.params["sketch_size"] == setting.sketch_size
        if step == "FedLinUCB":
            wires = {"": "full", "triangle": "float64"}
            assert recipe.params["wire"] == wires.get(width, width)
            assert variant.tuned_as == "FedLinUCB"
        if step == "FSCLB":
            assert (recipe.params["estimate"], recipe.params["cadence"]) == ("paper", "paper")


def test_tables_say_what_was_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = beyond(out=tmp_path, trials=2, rounds=80, quick=True, jobs=1)
    rows: dict[str, list[str]] = {}
    for line in done.table.read_text().splitlines():
        _, *cells, _ = line.split("|") if "|" in line else ("", line, "")
        rows.setdefault(cells[0].strip(), [cell.strip() for cell in cells[1:]])
    assert set(NAMES) <= set(rows)
    setting = SETTINGS[0]
    fed = next(each for each in VARIANTS if each.name == "FedLinUCB")
    sent = [
        simulate(
            fed.build(setting, radius=0.5, rounds=80, seed=seed), setting.world(seed), rounds=80
        ).bytes[-1]
        for seed in range(2)
    ]
    assert rows[setting.name][0] == f"{np.mean(sent) / 1e6:.2f} MB"
    assert [cell.partition(",")[0] for cell in rows["FedLinUCB"]] == ["100.0 %"] * 4
    assert [cell.partition(",")[0] for cell in rows["Random"]] == ["0.0 %"] * 4
    assert all(cell.endswith(", 1.00") for cell in rows["FSCLB"])
    assert all(path.stat().st_size for path in done.figures)
    assert "bytes saved" in capsys.readouterr().out
    assert beyond(out=tmp_path, trials=2, rounds=80, quick=True, jobs=1).computed == 0


def test_growth_tells_a_line_from_a_root() -> None:
    at = np.arange(100, 40_001, 100)

    def line(name: str, regret: NDArray[np.floating]) -> Curves:
        values = {"regret": np.tile(regret, (3, 1)), "bytes": np.ones((3, len(at)))}
        return Curves("heavy tail", name, "0.2", 40_000, (0, 1, 2), at, values)

    table = heavy_tail_table([line("straight", 0.3 * at), line("root", np.sqrt(at))]).markdown
    assert "| straight | 3,000 | 6,000 | 9,000 | 12,000 | 1.00 ± 0.00 |" in table
    assert "| root | 100 | 141 | 173 | 200 | 0.65 ± 0.00 |" in table


def cells_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.parametrize("hard", HARD, ids=[hard.name for hard in HARD])
def test_hard_worlds_change_where_they_say(hard: HardWorld) -> None:
    change = hard.change(20)
    world = hard.world(3, 20)
    assert (change is None) == ("at" not in world.params)
    assert world.params["seed"] == 3
    assert world.agents == 10
    if change is not None:
        assert world.params["at"] == change < hard.length(20)
        other = type(world)(**{**world.params, "at": 10**6})
        means, usual = (
            [shown.means for shown in each.rounds(hard.length(20))] for each in (world, other)
        )
        differing = [t for t, (a, b) in enumerate(zip(means, usual, strict=True)) if any(a != b)]
        assert differing == list(range(change, hard.length(20)))


def test_late_features_come_at_round_20_000_of_25_000() -> None:
    late = [hard for hard in HARD if hard.name.startswith("new ")]
    assert {hard.params["rank"] for hard in late} == {5, 15, 40}
    assert {(hard.change(20_000), hard.length(20_000)) for hard in late} == {(20_000, 25_000)}


def test_hard_runs_are_paired_and_have_default_parameters() -> None:
    tasks = hard_tasks(QUICK)
    assert len(tasks) == len(HARD) * len(LINES) * QUICK.trials
    tapes = {(task.setting, task.trial): task.world for task in tasks}
    assert all(task.world is tapes[task.setting, task.trial] for task in tasks)
    radii = {task.algorithm: task.radius for task in tasks if task.algorithm != "Random"}
    assert radii.pop("FSCLB.lean") == "auto"
    assert set(radii.values()) == {"0.5"}
    alphas = {task.algorithm: task.recipe.params.get("alpha", 1.0) for task in tasks}
    ours = {name: alpha for name, alpha in alphas.items() if name.startswith("FSCLB.lean")}
    assert set(ours.values()) == {0.8}
    assert {alphas[name] for name in alphas.keys() - ours.keys()} == {1.0}


def test_the_hard_table_says_what_was_run(tmp_path: Path) -> None:
    done = beyond_hard(out=tmp_path, trials=2, rounds=16, quick=True, jobs=1)
    rows = cells_of(done.table.read_text())
    first = {row[0]: row[1:] for row in rows[: 2 + len(HARD)]}
    second = {row[0]: row[1:] for row in rows[2 + len(HARD) :]}
    assert set(first) > {hard.name for hard in HARD}
    assert set(second) > {hard.name for hard in HARD if hard.changes is not None}
    tasks = hard_tasks(replace(QUICK, trials=2, rounds=16))
    assert done.computed == len(tasks)
    for hard in (HARD[0], HARD[3], HARD[-1]):
        change = hard.change(16) or 0
        for place, name in enumerate(LINES):
            regrets = np.array(
                [
                    simulate(task.recipe, task.world, rounds=task.rounds).regret
                    for task in tasks
                    if (task.setting, task.algorithm) == (hard.name, name)
                ]
            )
            assert first[hard.name][place] == plus_minus(estimate(regrets[:, -1]))
            if change:
                before = regrets[:, change - 1]
                assert second[hard.name][place] == f"{before.mean():,.1f}"
                after = plus_minus(estimate(regrets[:, -1] - before))
                assert second[hard.name][len(LINES) + place] == after
    assert beyond_hard(out=tmp_path, trials=2, rounds=16, quick=True, jobs=1).computed == 0


def test_the_hard_table_compares_with_the_larger_regret_and_within_trials() -> None:
    ends = {
        "FedLinUCB": [10.0, 30.0],
        "FSCLB": [16.0, 36.0],
        "FSCLB.lean": [13.0, 33.0],
        "FSCLB.lean, 0.5": [14.0, 34.0],
        "Random": [110.0, 130.0],
    }

    def line(setting: str, name: str) -> Curves:
        at = np.arange(1, 41)
        values = {
            measure: np.outer(ends[name], at / 40) for measure in ("regret", "bytes", "reward")
        }
        return Curves(setting, name, "0.5", 40, (0, 1), at, values)

    text = hard_text([line(hard.name, name) for hard in HARD for name in LINES], FULL)
    row = next(cells for cells in cells_of(text) if cells[0] == "isotropic")
    assert row[6:8] == ["3.00 ± 0", "-3.00 ± 0"]
    assert row[8].startswith("0.88 ± ")
    assert row[8].endswith(": holds on average (unsettled)")
    assert row[9] == "3.00 % ± 0.00"


def test_hard_worlds_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--hard", "--quick", "--trials", "1", "--rounds", "4", "--jobs", "1"]
    assert main(["beyond", *words, "--out", str(tmp_path)]) == 0
    written = [str(tmp_path / name) for name in ("hard.md", "hard.html")]
    assert capsys.readouterr().out.split() == written
    assert (tmp_path / "hard" / "runs").is_dir()
    assert not (tmp_path / "beyond.md").exists()


@pytest.mark.parametrize("words", [["--trials", "0"], ["--rounds", "many"], ["--nope"], []])
def test_wrong_words_are_answered_in_one_message(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["beyond", *words])
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err
