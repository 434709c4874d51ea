import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbandit.errors import OutputError
from fedbandit.lab.analysis.curves import MEASURES, curves
from fedbandit.lab.analysis.statistics import estimate
from fedbandit.lab.analysis.summary import summarise, write_csv
from fedbandit.lab.paper.classes import reward_by_class
from fedbandit.lab.study.settings import SETTINGS
from tests.lab.made_runs import made_trials, one, paper_runs

COLUMNS = ["setting", "algorithm", "radius", "trials", "rounds"] + [
    f"{measure}_{part}" for measure in MEASURES for part in ("mean", "ci95")
]


def test_the_file_has_the_promised_columns_and_numbers(tmp_path: Path) -> None:
    found = curves(paper_runs(wobble=3.0))
    table = pd.read_csv(write_csv(summarise(found), tmp_path / "summary.csv"))
    assert list(table.columns) == COLUMNS
    assert len(table) == 4
    row = table[table["algorithm"] == "FSCLB"].iloc[0]
    expected = estimate([993.0, 987.0, 993.0, 987.0])
    assert row["reward_mean"] == expected.mean
    assert row["reward_ci95"] == pytest.approx(expected.ci95, rel=1e-12)
    assert (row["radius"], row["trials"], row["rounds"]) == ("tuned (0.3)", 4, 100)
    assert row["uploads_mean"] == 10.0


def test_one_trial_leaves_the_interval_empty(tmp_path: Path) -> None:
    rows = summarise([one(made_trials({"reward": [5.0]}))])
    assert math.isnan(rows[0].estimates["reward"].ci95)
    with write_csv(rows, tmp_path / "summary.csv").open() as source:
        (line,) = csv.DictReader(source)
    assert line["reward_mean"] == "5.0"
    assert line["reward_ci95"] == ""


def test_directory_in_the_way_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write_csv([], tmp_path)


def test_rewards_by_class() -> None:
    satimage = SETTINGS[2]
    rewards = np.arange(1.0, 9.0)
    found = [
        one(made_trials({"reward": list(scale * rewards)}, algorithm=name, rounds=100))
        for name, scale in (("FSCLB", 10.0), ("Random", 1.0))
    ]
    rows = reward_by_class(found, satimage)
    # Eight trials, six classes: classes 0 and 1 come twice (rewards 1 and 7, 2 and 8).
    assert [(row.target, row.trials) for row in rows] == [
        (0, 2),
        (1, 2),
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 1),
    ]
    assert rows[0].rates == pytest.approx((0.4, 0.04))
    assert rows[5].rates == pytest.approx((0.6, 0.06))


def test_classes_without_a_trial_are_left_out() -> None:
    found = [one(made_trials({"reward": [1.0, 2.0]}))]
    assert [row.target for row in reward_by_class(found, SETTINGS[3])] == [0, 1]
    assert reward_by_class([], SETTINGS[3]) == []
