"""Progress: what is folded keeps all sums, stays bounded, and is found again as averages."""

from dataclasses import astuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.messages import Upload
from fedbandit.core.statistics import Estimates, Rewards, Statistics
from fedbandit.service.bookkeeping.progress import (
    DAY,
    HOUR,
    MINUTE,
    Period,
    Progress,
    folded,
    merged_progress,
    progress_of,
    start_of,
    summed,
)

LIMITS = wire.Limits(arm_norm=1.0, reward=2.0, count=100)
NOW = 20_000 * DAY + 12_345
SOME = st.integers(0, 100)
MADE = st.builds(Progress, uploads=SOME, observations=SOME, sent=SOME, rewards=SOME)
MINUTES = st.dictionaries(st.integers(0, 100 * 1440), MADE, max_size=30)


def _periods(minutes: dict[int, Progress]) -> list[Period]:
    starts = {start_of(NOW, MINUTE) - MINUTE * back: each for back, each in minutes.items()}
    return [Period(MINUTE, start, starts[start]) for start in sorted(starts)]


def _fold(periods: list[Period], now: float) -> list[Period]:
    gone, made = folded(periods, now=now)
    kept = {(each.span, each.start): each.progress for each in periods}
    for each in gone:
        del kept[each.span, each.start]
    for each in made:
        before = kept.get((each.span, each.start), Progress())
        kept[each.span, each.start] = before.plus(each.progress)
    return [Period(*key, kept[key]) for key in sorted(kept, key=lambda key: (key[1], key[0]))]


@given(MINUTES, st.lists(st.integers(0, 400 * DAY), max_size=3))
def test_folding_keeps_every_sum_and_settles(
    minutes: dict[int, Progress], later: list[int]
) -> None:
    periods = _periods(minutes)
    for wait in (0, *sorted(later)):
        before, periods = periods, _fold(_fold(periods, NOW + wait), NOW + wait)
        assert summed(each.progress for each in periods) == summed(e.progress for e in before)
        assert folded(periods, now=NOW + wait) == ([], [])


@given(MINUTES)
def test_what_is_young_stays_fine_and_what_is_old_does_not(minutes: dict[int, Progress]) -> None:
    periods = _fold(_fold(_periods(minutes), NOW), NOW)
    first = min((each.start for each in periods), default=0)
    for each in periods:
        assert each.start % each.span == 0
        age = NOW - each.start
        if each.span == MINUTE:
            assert age <= DAY + HOUR
        elif each.span == HOUR:
            assert age >= DAY - HOUR
            assert age <= 31 * DAY or each.start < first + DAY
        else:
            assert age >= 29 * DAY


def test_a_busy_season_takes_a_bounded_number_of_periods() -> None:
    one, periods, hours = Progress(uploads=1), list[Period](), range(0, 90 * 24, 6)
    for hour in hours:
        at = NOW + hour * HOUR
        minutes = [Period(MINUTE, start_of(at, MINUTE) + k * MINUTE, one) for k in range(0, 60, 6)]
        periods = _fold([*periods, *minutes], at)
    assert len(periods) <= 5 * 10 + 31 * 4 * 2 + 5 * 2 + 90
    assert summed(each.progress for each in periods).uploads == len(hours) * 10


@given(st.lists(MADE, max_size=5))
def test_sums_are_sums(some: list[Progress]) -> None:
    columns = zip(*(astuple(each) for each in some), strict=True)
    assert summed(some) == (
        progress_of([sum(column) for column in columns]) if some else Progress()
    )


def _upload(rewards: Rewards, estimates: Estimates) -> Upload:
    summary = fb.FSCLB(dimension=3, sketch_size=2, agents=1).parts.memory.empty().summary
    return Upload(0, Statistics(summary, np.zeros(3), 4, rewards, 0, estimates))


def test_uploads_add_up_with_what_they_tell() -> None:
    whole = _upload(Rewards(4, 2.0, 1.5), Estimates(4, 1.75, 0.25))
    silent = _upload(Rewards(), Estimates())
    older = _upload(Rewards(4, 1.0, 1.0), Estimates())
    found = merged_progress([(whole, 100), (silent, 50), (older, 7)], LIMITS)
    assert (found.uploads, found.observations, found.received) == (3, 12, 157)
    assert (found.rewards, found.total, found.squares) == (8, 3.0, 2.5)
    assert (found.judged, found.earned, found.estimated, found.errors) == (4, 2.0, 1.75, 0.25)


@settings(max_examples=30)
@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=3e12),
    st.booleans(),
)
def test_estimates_that_would_spoil_all_sums_are_left_out(absurd: float, of_errors: bool) -> None:
    told = Estimates(4, 0.0, absurd * 1e7) if of_errors else Estimates(4, absurd, 0.0)
    if of_errors and absurd * 1e7 <= 4 * (1e6 * LIMITS.reward) ** 2:
        return
    found = merged_progress([(_upload(Rewards(4, 2.0, 1.5), told), 1)], LIMITS)
    assert (found.rewards, found.judged, found.estimated, found.errors) == (4, 0, 0.0, 0.0)
