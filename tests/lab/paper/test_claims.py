import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.statistics import Estimate
from fedbandit.lab.analysis.verdicts import Verdict, at_least, at_most, worst
from fedbandit.lab.paper.claims import Findings, claims, findings, largest_size
from fedbandit.lab.study.settings import SETTINGS, Setting
from tests.lab.made_runs import made_trials, paper_runs

finite = st.floats(-10, 10)


def found(table: pa.Table, radius: str = "tuned") -> Findings:
    return findings(curves(table), SETTINGS, radius=radius)


@given(finite, st.floats(0, 5), finite)
def test_a_verdict_says_on_which_side_the_interval_lies(
    mean: float, half: float, line: float
) -> None:
    verdict = at_most(Estimate(mean, half), line)
    assert (verdict == Verdict.HOLDS) == (mean + half <= line)
    assert (verdict == Verdict.FAILS) == (mean - half > line)
    settled = verdict in (Verdict.HOLDS, Verdict.FAILS)
    assert settled or (verdict == Verdict.LIKELY) == (mean <= line)


@given(finite, st.floats(0, 5), finite)
def test_at_least_looks_at_the_other_side(mean: float, half: float, line: float) -> None:
    verdict = at_least(Estimate(mean, half), line)
    assert (verdict == Verdict.HOLDS) == (mean - half >= line)
    assert (verdict == Verdict.FAILS) == (mean + half < line)
    settled = verdict in (Verdict.HOLDS, Verdict.FAILS)
    assert settled or (verdict == Verdict.LIKELY) == (mean >= line)


def test_one_trial_never_settles_anything() -> None:
    assert at_most(Estimate(0.01, math.nan), 0.03) == Verdict.LIKELY
    assert at_most(Estimate(0.04, math.nan), 0.03) == Verdict.UNLIKELY
    assert at_most(Estimate(math.nan, math.nan), 0.03) == Verdict.UNDEFINED


def test_the_worst_of_several_decides() -> None:
    assert worst([Verdict.HOLDS, Verdict.FAILS, Verdict.LIKELY]) == Verdict.FAILS
    assert worst([Verdict.HOLDS, Verdict.HOLDS]) == Verdict.HOLDS


@pytest.mark.parametrize(
    ("reward", "wobble", "verdict"),
    [
        (990.0, 1.0, Verdict.HOLDS),
        (1010.0, 1.0, Verdict.HOLDS),
        (971.0, 10.0, Verdict.LIKELY),
        (969.0, 10.0, Verdict.UNLIKELY),
        (950.0, 1.0, Verdict.FAILS),
    ],
)
def test_reward_flips_at_three_per_cent_of_the_lead(
    reward: float, wobble: float, verdict: Verdict
) -> None:
    (only,) = found(paper_runs(reward=reward, wobble=wobble)).reward
    assert only.loss.mean == pytest.approx(1.0 - reward / 1000.0)
    assert only.lead.mean == pytest.approx(1000.0)
    assert only.verdict == verdict


def test_a_loss_cannot_be_told_where_nothing_was_learned() -> None:
    runs = paper_runs(lead=-1.0, reward=-2.0)
    assert found(runs).reward[0].verdict == Verdict.UNDEFINED
    (first, *_) = claims(found(runs))
    assert first.measured == "FedLinUCB is not ahead of Random"


@pytest.mark.parametrize(
    ("published", "best", "verdicts"),
    [
        (10.0, 5.0, (Verdict.HOLDS, Verdict.HOLDS, Verdict.HOLDS)),
        (10.0, 0.5, (Verdict.HOLDS, Verdict.FAILS, Verdict.FAILS)),
        (0.05, 0.05, (Verdict.FAILS, Verdict.FAILS, Verdict.FAILS)),
    ],
)
def test_time_must_be_saved_against_both_forms(
    published: float, best: float, verdicts: tuple[Verdict, ...]
) -> None:
    runs = paper_runs(seconds=0.1, published_seconds=published, best_seconds=best)
    (only,) = found(runs).time
    assert only.published.mean == pytest.approx(1.0 - 0.1 / published)
    assert only.best.mean == pytest.approx(1.0 - 0.1 / best)
    assert (only.against_published, only.against_best, only.verdict) == verdicts


@pytest.mark.parametrize(
    ("scalars", "prediction", "claim"),
    [
        (5_000.0, Verdict.HOLDS, Verdict.HOLDS),
        (19_000.0, Verdict.HOLDS, Verdict.FAILS),
        (30_000.0, Verdict.FAILS, Verdict.FAILS),
    ],
)
def test_scalars_against_prediction_and_claim(
    scalars: float, prediction: Verdict, claim: Verdict
) -> None:
    (only,) = found(paper_runs(scalars=scalars, uploads=20.0)).scalars
    assert only.saving.mean == pytest.approx(1.0 - scalars / 51_000.0)
    assert only.uploads.mean == pytest.approx(2.0)
    assert only.size.mean == pytest.approx(scalars / 20 / 5_100)
    # d = 50, 19 rows: (19 x 50 + 52) up, (19 x 51 + 52) down, of 2 x 2550.
    assert only.largest_size == pytest.approx((1002 + 1021) / 5100)
    assert only.predicted_saving == pytest.approx(1 - 2023 / 5100)
    assert (only.against_prediction, only.against_claim) == (prediction, claim)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_largest_size_follows_from_l_and_d(setting: Setting) -> None:
    d, rows = setting.dimension, setting.sketch_size - 1
    up, down = rows * d + d + 2, rows * d + rows + d + 2
    assert largest_size(setting) == pytest.approx((up + down) / (2 * (d * d + d)))


def test_each_radius_has_findings_of_its_own() -> None:
    runs = paper_runs(radius="paper", reward=500.0)
    tuned = paper_runs()
    learners = tuned.filter(pc.not_equal(tuned["algorithm"], "Random"))
    table = pa.concat_tables([runs, learners])
    assert found(table, "tuned").reward[0].verdict == Verdict.HOLDS
    assert found(table, "paper").reward[0].verdict == Verdict.FAILS


def test_nothing_sent_is_no_share_of_anything() -> None:
    silent = paper_runs(scalars=0.0, uploads=0.0, best_scalars=0.0)
    measured = claims(found(silent))[4].measured
    assert measured == "FedLinUCB needed no scalars"
    both = pa.concat_tables([silent, paper_runs(setting="satimage")])
    assert claims(found(both))[4].measured == "19.6 % of its scalars"


def test_settings_are_counted_in_words() -> None:
    table = pa.concat_tables(
        [paper_runs(), paper_runs(setting="satimage", reward=900.0, seconds=4.0)]
    )
    lines = claims(found(table))
    assert lines[0].measured == "1.0 % to 10.0 % of the lead lost"
    assert [words for _, words in lines[0].counts] == [
        "holds at 1 of 2 settings",
        "does not hold at 1 of 2 settings",
    ]
    assert lines[2].measured == "2.0 % to 80.0 % of its time"
    assert claims(found(paper_runs()))[0].counts == ((Verdict.HOLDS, "holds at 1 of 1 setting"),)


def test_forms_that_part_are_noticed() -> None:
    runs = paper_runs()
    assert found(runs).forms_agree
    others = runs.filter(pc.not_equal(runs["algorithm"], "FedLinUCB (published)"))
    parted = made_trials(
        {"reward": [999.0] * 4, "seconds": [1.0] * 4}, algorithm="FedLinUCB (published)"
    )
    assert not found(pa.concat_tables([others, parted])).forms_agree


def test_nothing_run_is_nothing_found() -> None:
    assert claims(found(made_trials({"reward": [1.0, 2.0]}))) == []
