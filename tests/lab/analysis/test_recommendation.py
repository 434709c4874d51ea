"""Which size is recommended, on made measurements."""

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import InvalidParameter
from fedbandit.lab.analysis.recommendation import Certainty, Measured, Recommendation, recommend
from fedbandit.lab.analysis.statistics import Estimate

LEAD = Estimate(500.0, 20.0)


def measured(size: int | Literal["auto"] | None, loss: float, ci95: float) -> Measured:
    sent = Estimate(1000.0 if size is None else 50.0, 0.0)
    return Measured("FSCLB.lean", size, Estimate(30.0, 1.0), sent, Estimate(loss, ci95))


def judge(*losses: tuple[int, float, float], lead: Estimate = LEAD) -> Recommendation:
    return recommend(
        [measured(*each) for each in losses],
        reference=measured(None, 0.0, 0.0),
        lead=lead,
        tolerance=0.02,
        rounds=3000,
    )


TABLES = st.lists(
    st.tuples(st.integers(2, 60), st.floats(-0.5, 1.0), st.floats(0.0, 0.5)),
    min_size=1,
    unique_by=lambda row: row[0],
)


@given(TABLES)
def test_the_rule(table: list[tuple[int, float, float]]) -> None:
    sure = [size for size, loss, ci95 in table if loss + ci95 <= 0.02]
    likely = [size for size, loss, _ in table if loss <= 0.02]
    said = judge(*table)
    if sure:
        assert (said.sketch_size, said.certainty) == (min(sure), Certainty.SURE)
    elif likely:
        assert (said.sketch_size, said.certainty) == (min(likely), Certainty.LIKELY)
    else:
        assert (said.sketch_size, said.certainty) == (None, Certainty.NONE_GOOD)


@given(TABLES)
def test_the_order_of_sizes_decides_nothing(table: list[tuple[int, float, float]]) -> None:
    assert judge(*table) == judge(*reversed(table))


def test_sure() -> None:
    said = judge((5, 0.05, 0.01), (10, 0.012, 0.004), (20, 0.001, 0.001))
    assert said.sketch_size == 10
    assert said.sentence == (
        "Take l = 10 with FSCLB.lean: it is the smallest size tried that surely loses no more than "
        "2 % of FedLinUCB's lead over Random (it lost 1.20 %, 95 % interval 0.80 to 1.60 %), and "
        "it sent 5.0 % of FedLinUCB's bytes."
    )


def test_sure_but_a_smaller_one_may_do() -> None:
    said = judge((5, 0.015, 0.01), (10, 0.001, 0.001))
    assert said.sketch_size == 10
    assert "l = 5 may do as well" in said.sentence
    assert "more trials would tell" in said.sentence


def test_likely() -> None:
    said = judge((5, 0.05, 0.01), (10, 0.01, 0.03))
    assert (said.sketch_size, said.certainty) == (10, Certainty.LIKELY)
    assert "no size surely does: more trials" in said.sentence


def test_one_trial_is_never_sure() -> None:
    said = judge((5, 0.01, math.nan), (9, 0.0, math.nan), lead=Estimate(500.0, math.nan))
    assert (said.sketch_size, said.certainty) == (5, Certainty.LIKELY)
    assert "one trial gives no interval" in said.sentence


def test_none_good_enough_names_the_best() -> None:
    said = judge((5, 0.2, 0.01), (9, 0.1, 0.01))
    assert said.sketch_size is None
    assert "the best is l = 9 (it lost 10.00 %" in said.sentence
    assert "try larger sizes" in said.sentence


@pytest.mark.parametrize(
    "lead",
    [
        Estimate(5.0, 6.0),
        Estimate(5.0, 5.0),
        Estimate(-5.0, 1.0),
        Estimate(0.0, 0.0),
        Estimate(0.0, math.nan),
    ],
)
def test_without_a_lead_nothing_can_be_told(lead: Estimate) -> None:
    said = judge((5, 0.0, 0.0), lead=lead)
    assert (said.sketch_size, said.certainty) == (None, Certainty.TOO_SHORT)
    assert "after 3,000 rounds" in said.sentence
    assert "nan" not in said.sentence


def test_a_size_that_does_not_count_up_to_anything_is_refused() -> None:
    for candidates in ([], [measured("auto", 0.0, 0.0)]):
        with pytest.raises(InvalidParameter, match="recommend"):
            recommend(
                candidates,
                reference=measured(None, 0.0, 0.0),
                lead=LEAD,
                tolerance=0.02,
                rounds=1,
            )
