import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedbandit.errors import InvalidParameter, OutputError
from fedbandit.lab import reproduce
from fedbandit.lab.analysis.tuning import FIRST_SEED, Choice
from fedbandit.lab.paper.algorithms import RANDOM
from fedbandit.lab.paper.claims import claims
from fedbandit.lab.paper.reproduce import Reproduction, paper_study
from fedbandit.lab.study.settings import SETTINGS
from fedbandit.lab.study.study import FULL, QUICK, Size, size_of

TRIALS, ROUNDS = 2, 40
LINES = 8  # FSCLB and FedLinUCB with both radii; Random; published, buffered and lean with one
REPORTED = len(SETTINGS) * TRIALS * LINES
TUNING = len(SETTINGS) * 3 * len(QUICK.grid) * QUICK.tuning_trials


def call(out: Path) -> tuple[Reproduction, str]:
    console = Console(file=StringIO(), width=100)
    done = reproduce(out=out, trials=TRIALS, rounds=ROUNDS, quick=True, jobs=1, console=console)
    assert isinstance(console.file, StringIO)
    return done, console.file.getvalue()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reproduction, str]:
    out = tmp_path_factory.mktemp("reproduction")
    return out, *call(out)


def test_a_whole_reproduction(tiny: tuple[Path, Reproduction, str]) -> None:
    out, done, printed = tiny
    assert done.computed == REPORTED + TUNING
    table = pd.read_csv(done.summary)
    assert len(table) == len(SETTINGS) * LINES
    assert set(table["rounds"]) == {ROUNDS}
    assert set(table["trials"]) == {TRIALS}
    kinds = {radius.partition(" (")[0] for radius in table["radius"]}
    assert kinds == {"tuned", "paper", "none"}
    names = {
        f"{quantity}-{family}.{kind}"
        for quantity in ("regret", "time", "communication", "bytes")
        for family in ("simulation", "real")
        for kind in ("png", "svg", "pdf")
    }
    assert {path.name for path in done.figures} == names
    assert all(path.stat().st_size > 5000 for path in done.figures)
    assert done.report == out / "report.html"
    for path in (done.summary, out / "figures", done.report):
        assert str(path) in printed
    assert [each.setting for each in done.gains] == [each.name for each in SETTINGS]
    for words in (
        "synthetic d=100",
        "FedLinUCB (published)",
        "What FSCLB.lean gains",
        "What the paper claims",
    ):
        assert words in printed


def test_the_summary_is_of_the_stored_runs(tiny: tuple[Path, Reproduction, str]) -> None:
    out, done, _ = tiny
    runs = pd.read_parquet(out / "runs")
    assert set(runs["trial"]) == set(range(TRIALS))
    ends = runs[runs["round"] == ROUNDS]
    means = ends.groupby(["setting", "algorithm", "radius"])["reward"].mean().to_dict()
    summary = pd.read_csv(done.summary).set_index(["setting", "algorithm", "radius"])
    assert summary["reward_mean"].to_dict() == pytest.approx(means, abs=1e-9)


def test_radii_are_picked_on_other_tapes(tiny: tuple[Path, Reproduction, str]) -> None:
    out, _, _ = tiny
    tuning = pd.read_parquet(out / "tuning" / "runs")
    assert tuning["trial"].min() == FIRST_SEED
    ends = tuning[tuning["round"] == ROUNDS].copy()
    means = ends.groupby(["setting", "algorithm", "radius"])["reward"].mean()
    runs = pd.read_parquet(out / "runs")
    for setting in SETTINGS:
        names = ("FSCLB", "FSCLB (buffered)", "FSCLB.lean", "FedLinUCB", "FedLinUCB (published)")
        for name in names:
            here = runs[(runs["setting"] == setting.name) & (runs["algorithm"] == name)]
            (label,) = set(here["radius"]) - {"paper"}
            tried = means[setting.name][name.partition(" (")[0]]
            assert tried[label.removeprefix("tuned (").removesuffix(")")] == tried.max()


def test_both_forms_play_alike(tiny: tuple[Path, Reproduction, str]) -> None:
    _, done, _ = tiny
    assert done.tuned.forms_agree
    assert len(done.tuned.time) == len(SETTINGS)
    assert not done.theoretical.time  # timed with one radius alone
    ours = [(each.algorithm, each.setting) for each in done.tuned.own_time]
    named = ("FSCLB (buffered)", "FSCLB.lean")
    assert sorted(ours) == sorted((name, each.name) for name in named for each in SETTINGS)
    tests = [claim.test for claim in claims(done.tuned)]
    assert [test for test in tests if ", ours, " in test] == [
        f"{name}, ours, against FedLinUCB as published" for name in named
    ]
    assert len(done.theoretical.reward) == len(SETTINGS)


def test_once_more_computes_nothing(tiny: tuple[Path, Reproduction, str]) -> None:
    out, first, printed = tiny
    stored = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    files = [first.summary, first.report, *first.figures]
    written = {path: path.read_bytes() for path in files}
    second, printed_again = call(out)
    assert second.computed == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == stored
    assert {path: path.read_bytes() for path in files} == written
    assert printed_again == printed


def test_what_is_asked_for_overrides_quick() -> None:
    quick = size_of(trials=None, rounds=None, quick=True)
    full = size_of(trials=None, rounds=None, quick=False)
    assert (full.trials, full.rounds, full.grid) == (20, 20_000, FULL.grid)
    assert quick.trials < full.trials
    assert quick.rounds < full.rounds
    asked = size_of(trials=7, rounds=123, quick=True)
    assert (asked.trials, asked.rounds, asked.grid) == (7, 123, quick.grid)


def test_every_recipe_brings_its_own_runs() -> None:
    size = Size(trials=2, rounds=50, tuning_trials=2, grid=(0.1,))
    study = paper_study(size, every_recipe=True)
    tuning = study.tuning_tasks()
    choices = [
        Choice(setting.name, algorithm.name, 0.1, ())
        for setting in SETTINGS
        for algorithm in study.algorithms
    ]
    reported = study.reported_tasks(choices)
    assert len(study.algorithms) == 12
    assert len({task.key for task in reported}) == len(reported) == 4 * 2 * (2 * 8 + 4)
    assert {task.world.params["seed"] for task in reported} == {0, 1}
    assert not {task.trial for task in reported} & {task.trial for task in tuning}
    assert len({id(task.world) for task in reported}) == 4 * 2
    for task in reported:
        assert task.world.params["seed"] == task.trial
        if task.algorithm == RANDOM:
            assert task.recipe.params["seed"] == task.trial


@pytest.mark.parametrize("trials", [0, -3, FIRST_SEED + 1, 2.5, True])
def test_trials_that_cannot_be(trials: int) -> None:
    with pytest.raises(InvalidParameter, match="a whole number from 1"):
        size_of(trials=trials, rounds=None, quick=False)


@pytest.mark.parametrize("rounds", [0, -3, 2.5, True])
def test_rounds_that_cannot_be(tmp_path: Path, rounds: int) -> None:
    with pytest.raises(
        InvalidParameter, match=r"rounds must be a whole number of at least 1; got "
    ):
        reproduce(out=tmp_path / "out", rounds=rounds)
    assert not (tmp_path / "out").exists()


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    numbers: dict[str, Any] = {"trials": np.int64(2), "rounds": np.int64(30)}
    size = size_of(**numbers, quick=True)
    assert (type(size.trials), type(size.rounds)) == (int, int)


def test_file_in_the_way_of_the_figures_is_an_output_error(
    tiny: tuple[Path, Reproduction, str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny[0], copy, ignore=shutil.ignore_patterns("figures"))
    (copy / "figures").touch()
    with pytest.raises(OutputError, match="figures' cannot be written"):
        call(copy)


def test_the_report_says_which_classes_radii_were_picked_on(
    tiny: tuple[Path, Reproduction, str],
) -> None:
    page = " ".join(tiny[1].report.read_text(encoding="utf-8").split())
    # Seeds 1,000,000 and 1,000,001 are 4 and 5 modulo 6, and 0 and 1 modulo 10.
    assert "Radii were picked on 2 of the 6 classes: 4, 5. Classes have from 0 to 1" in page
    assert "Radii were picked on 2 of the 10 classes: 0, 1. Classes have from 0 to 1" in page
