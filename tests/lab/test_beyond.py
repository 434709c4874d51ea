"""The comparison beyond the paper: every line is built as it says, every number as it was run."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedbandit.cli.entry import main
from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.beyond.beyond import beyond
from fedbandit.lab.beyond.report import heavy_tail_table
from fedbandit.lab.beyond.variants import VARIANTS
from fedbandit.lab.study.settings import SETTINGS, Algorithm
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

    table = heavy_tail_table([line("straight", 0.3 * at), line("root", np.sqrt(at))])
    assert "| straight | 3,000 | 6,000 | 9,000 | 12,000 | 1.00 ± 0.00 |" in table
    assert "| root | 100 | 141 | 173 | 200 | 0.65 ± 0.00 |" in table


@pytest.mark.parametrize("words", [["--trials", "0"], ["--rounds", "many"], ["--nope"], []])
def test_wrong_words_are_answered_in_one_message(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["beyond", *words])
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err
