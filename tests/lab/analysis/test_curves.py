import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.lab.analysis.curves import curves, pick, unfinished
from tests.lab.made_runs import made_run, made_trials, one


@given(st.permutations(range(30)))
def test_the_order_of_the_rows_does_not_matter(rows: list[int]) -> None:
    table = pa.concat_tables(
        [
            made_trials({"reward": [3.0, 1.0, 2.0]}, algorithm="FSCLB"),
            made_trials({"reward": [5.0, 6.0, 4.0]}, algorithm="Random", radius="none"),
        ]
    )
    first, second = curves(table.take(rows))
    assert first.final("reward").tolist() == [3.0, 1.0, 2.0]
    assert second.final("reward").tolist() == [5.0, 6.0, 4.0]
    assert first.trials == second.trials == (0, 1, 2)


def test_values_are_trials_by_checkpoints() -> None:
    found = one(made_trials({"regret": [10.0, 20.0]}, rounds=100))
    assert found.checkpoints.tolist() == [20, 40, 60, 80, 100]
    assert np.allclose(found.values["regret"], [[2, 4, 6, 8, 10], [4, 8, 12, 16, 20]])


def test_other_rounds_are_other_curves() -> None:
    table = pa.concat_tables([made_run({}, rounds=100), made_run({}, rounds=200)])
    assert [each.rounds for each in curves(table)] == [100, 200]


def test_what_lacks_trials_is_named() -> None:
    full = made_trials({"reward": [3.0, 1.0, 2.0]}, algorithm="FSCLB")
    lacking = made_trials({"reward": [5.0]}, algorithm="Random", radius="none", first=2)
    assert unfinished(curves(full)) == []
    assert unfinished(curves(pa.concat_tables([full, lacking]))) == [
        "synthetic d=50 / Random (radius none) has 1 of 3 trials"
    ]


def test_two_results_for_one_trial_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"several results for one trial of FSCLB"):
        curves(pa.concat_tables([made_run({"reward": 1.0}), made_run({"reward": 2.0})]))


def test_trials_with_other_checkpoints_are_refused() -> None:
    uneven = [made_run({}, trial=0, points=5), made_run({}, trial=1, points=4)]
    with pytest.raises(InvalidParameter, match="one run per"):
        curves(pa.concat_tables(uneven))


def test_pick_by_kind_of_radius() -> None:
    found = curves(
        pa.concat_tables(
            [made_run({}, radius=radius) for radius in ("tuned (0.3)", "paper", "0.1", "0.15")]
        )
    )

    def picked(radius: str | None) -> str | None:
        each = pick(found, setting="synthetic d=50", algorithm="FSCLB", radius=radius)
        return None if each is None else each.radius

    assert picked("tuned") == picked("tuned (0.3)") == "tuned (0.3)"
    assert picked("paper") == "paper"
    assert picked("0.1") == "0.1"
    assert picked("tuned (0.2)") is None
    assert picked(None) is not None
    assert pick(found, setting="elsewhere", algorithm="FSCLB") is None


def test_an_unknown_measure_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="regret"):
        one(made_run({})).final("regrets")
