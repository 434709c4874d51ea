"""Quotas hold over any hours and in the long run, and whoever waits as told is let in."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.errors import InvalidParameter
from fedbandit.service.bookkeeping.quotas import (
    FREE,
    HOUR,
    NO_QUOTAS,
    Exceeded,
    Quotas,
    Spent,
    check_quotas,
    exceeded_rate,
    exceeded_share,
    mass_of,
)
from tests.service.made_uploads import GRAM, RECIPE, upload_for

COUNTS = st.lists(st.tuples(st.floats(0.0, 3000.0), st.integers(1, 40)), max_size=60)
BOTH = Quotas(observations=50, uploads=7)


def sent(pauses: list[tuple[float, int]], quotas: Quotas) -> list[tuple[float, int]]:
    """Try to send after each pause; return when what was let in."""
    now, spent, let_in = 1e9, Spent(), list[tuple[float, int]]()
    for pause, count in pauses:
        now += pause
        spent = spent.drained(quotas, now)
        if exceeded_rate(quotas, spent, count) is None:
            spent = spent.plus(count)
            let_in.append((now, count))
    return let_in


@given(COUNTS)
def test_no_hour_has_more_than_twice_the_quota(pauses: list[tuple[float, int]]) -> None:
    let_in = sent(pauses, BOTH)
    for start, _ in let_in:
        hour = [count for at, count in let_in if start <= at < start + HOUR]
        assert sum(hour) <= 2 * 50 + 1e-6
        assert len(hour) <= 2 * 7 + 1e-6


@given(COUNTS)
def test_in_the_long_run_it_is_the_quota(pauses: list[tuple[float, int]]) -> None:
    let_in = sent(pauses, BOTH)
    hours = sum(pause for pause, _ in pauses) / HOUR
    assert sum(count for _, count in let_in) <= 50 * (1 + hours) + 1e-6
    assert len(let_in) <= 7 * (1 + hours) + 1e-6


@given(COUNTS, st.integers(1, 500))
def test_who_waits_as_long_as_told_is_let_in(pauses: list[tuple[float, int]], count: int) -> None:
    now, spent = 1e9, Spent()
    for at, each in sent(pauses, BOTH):
        now, spent = at, spent.drained(BOTH, at).plus(each)
    told = exceeded_rate(BOTH, spent.drained(BOTH, now), count)
    while told is not None:  # at most once for each of the two quotas
        assert 1 <= told.seconds <= 2 * HOUR
        now += told.seconds
        told = exceeded_rate(BOTH, spent.drained(BOTH, now), count)
    assert now <= 1e9 + sum(pause for pause, _ in pauses) + 2 * HOUR


def test_without_quotas_nothing_waits() -> None:
    assert exceeded_rate(NO_QUOTAS, Spent(1e300, 1e300, 0.0), 10**15) is None
    spent = Spent(5.0, 5.0, 7.0).drained(NO_QUOTAS, 8.0)
    assert (spent.observations, spent.uploads) == (0.0, 0.0)


def test_a_clock_that_was_wrong_holds_nobody_up_for_longer_than_an_hour() -> None:
    spent = Spent(50.0, 1.0, 2e9).drained(BOTH, 1e9)
    assert spent.at == 1e9
    assert exceeded_rate(BOTH, spent.drained(BOTH, 1e9 + HOUR), 50) is None


@given(COUNTS, st.lists(st.floats(0.0, HOUR), min_size=2, max_size=3), st.randoms())
def test_clocks_that_differ_drain_no_more_than_one(
    pauses: list[tuple[float, int]], ahead: list[float], random: Random
) -> None:
    """Whichever coordinator an agent goes to, and however often it goes from one to another."""
    now, spent, let_in = 1e9, Spent(), list[int]()
    for pause, count in [*pauses, *[(0.01, 1)] * 200]:
        now += pause
        spent = spent.drained(BOTH, now + random.choice(ahead))
        if exceeded_rate(BOTH, spent, count) is None:
            spent = spent.plus(count)
            let_in.append(count)
    hours = (now - 1e9 + max(ahead)) / HOUR
    assert sum(let_in) <= 50 * (1 + hours) + 1e-6
    assert len(let_in) <= 7 * (1 + hours) + 1e-6


@given(st.floats(0.01, 1.0), st.lists(st.tuples(st.integers(0, 3), st.floats(0.1, 9)), max_size=80))
def test_nobody_holds_more_than_its_share(share: float, tries: list[tuple[int, float]]) -> None:
    held, seen, total = [0.0] * 4, [0] * 4, 0.0
    for agent, mass in tries:
        if not exceeded_share(
            Quotas(share=share),
            dimension=1,
            observations=seen[agent] + 5,
            held=held[agent],
            added=mass,
            total=total,
            count=sum(seen),
        ):
            held[agent] += mass
            total += mass
            seen[agent] += 5
            assert seen[agent] <= FREE or held[agent] <= share * total * (1 + 1e-12)


def test_a_share_is_told_with_a_time() -> None:
    told = exceeded_share(
        Quotas(share=0.25), dimension=2, observations=21, held=1.0, added=1.0, total=5.0, count=99
    )
    assert isinstance(told, Exceeded)
    assert "0.25 of the model" in told.reason
    assert told.seconds > 0


@given(st.floats(1.0, 1e15), st.integers(1, 20))
def test_a_first_upload_is_free_unless_it_outweighs_what_it_may(mass: float, count: int) -> None:
    """A thousand observations of the model weigh 1 each; what is free is 20 of those."""
    told = exceeded_share(
        Quotas(share=0.01),
        dimension=2,
        observations=count,
        held=0.0,
        added=mass,
        total=1000.0,
        count=1000,
    )
    assert (told is None) == (mass <= 20.0)


@pytest.mark.parametrize("recipe", [RECIPE, GRAM])
def test_mass_is_what_an_upload_adds_to_the_trace_of_v(recipe: fb.Recipe) -> None:
    memory, summary = recipe.parts.memory, upload_for(recipe, 3).summary
    reading, d = memory.read(summary), recipe.dimension
    inverse = np.array([reading.solve(each) for each in np.eye(d)])
    trace = float(np.trace(np.linalg.inv(inverse)))
    assert mass_of(summary) == pytest.approx(trace - d * memory.ridge)


@pytest.mark.parametrize(
    "quotas",
    [Quotas(observations=0), Quotas(uploads=-1), Quotas(share=0.0), Quotas(share=float("nan"))],
)
def test_quotas_that_make_no_sense_are_refused(quotas: Quotas) -> None:
    with pytest.raises(InvalidParameter, match="quota"):
        check_quotas(quotas)
