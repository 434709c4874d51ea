"""Quotas hold over any hours and in the long run, and whoever waits as told is let in."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.errors import InvalidParameter
from fedbandit.service.bookkeeping.quotas import (
    AHEAD,
    FREE,
    HOUR,
    NO_QUOTAS,
    Exceeded,
    Quotas,
    Senders,
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


class Fleet:
    """Agents that send to one model of dimension d, and what each of them holds of it."""

    def __init__(self, share: float, *, d: int = 1) -> None:
        self.quotas, self.d = Quotas(share=share), d
        self.held, self.seen = dict[int, float](), dict[int, int]()

    def send(self, agent: int, count: int, mass: float) -> bool:
        """Try to send so many observations of this mass; return whether they were let in."""
        held, seen = self.held.get(agent, 0.0), self.seen.get(agent, 0)
        told = exceeded_share(
            self.quotas,
            dimension=self.d,
            longest=1.0,
            sent=count,
            observations=seen + count,
            held=held,
            added=mass,
            total=self.total,
            count=self.count,
            senders=lambda: Senders(len(self.seen), self.count),
        )
        if told is None:
            self.held[agent], self.seen[agent] = held + mass, seen + count
        return told is None

    @property
    def total(self) -> float:
        return sum(self.held.values())

    @property
    def count(self) -> int:
        return sum(self.seen.values())


SENT = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from([0.0, 0.1, 1.0, 9.0])),
    max_size=120,
)
MORE = 1 + 1e-12


@given(st.floats(0.01, 1.0), SENT)
def test_nobody_holds_more_than_its_share(
    share: float, tries: list[tuple[int, int, float]]
) -> None:
    fleet = Fleet(share)
    for agent, count, mass in tries:
        if fleet.send(agent, count, mass) and fleet.seen[agent] > FREE:
            assert fleet.held[agent] <= share * fleet.total * MORE
            assert fleet.seen[agent] <= share * fleet.count * MORE


@given(st.floats(0.01, 1.0), SENT)
def test_nobody_begins_far_ahead_of_the_others(
    share: float, tries: list[tuple[int, int, float]]
) -> None:
    """But for d observations, or their mass: what one may have to be able to begin."""
    fleet = Fleet(share, d=3)
    for agent, count, mass in tries:
        senders, total = max(1, len(fleet.seen)), fleet.total
        average = total / max(1, fleet.count)
        if fleet.send(agent, count, mass) and total:
            most = max(share, AHEAD / senders) * MORE
            assert fleet.seen[agent] <= max(3, most * fleet.count)
            assert fleet.held[agent] <= max(3 * average * MORE, most * fleet.total)


@given(
    st.sampled_from([1, 3, 20]),
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from([0.0, 1e-6, 1.0, 1e6])), max_size=5),
)
def test_what_one_agent_says_at_first_stops_nobody(d: int, said: list[tuple[int, float]]) -> None:
    """Such as that it has seen much that weighs nothing: others may begin, and go on in turn."""
    fleet = Fleet(0.25, d=d)
    for count, mass in said:
        fleet.send(0, count, mass)
    for _ in range(FREE * d + 2):
        assert all(fleet.send(agent, 1, 1.0) for agent in range(1, 6))


def test_an_agent_that_did_not_go_ahead_is_not_asked_about() -> None:
    """Counting the senders costs the store a walk over all agents."""

    def senders() -> Senders:
        raise AssertionError("counted")

    assert not exceeded_share(
        Quotas(share=0.25),
        dimension=2,
        longest=1.0,
        sent=5,
        observations=25,
        held=20.0,
        added=5.0,
        total=95.0,
        count=95,
        senders=senders,
    )


@given(st.integers(1, 1000), st.integers(0, 10**6))
def test_observations_that_were_taken_out_make_nobody_wait(left: int, gone: int) -> None:
    """An agent's observations are all that it ever sent; those of all agents are as well."""
    sent = (left + gone) // 5
    assert not exceeded_share(
        Quotas(share=0.25),
        dimension=1,
        longest=1.0,
        sent=1,
        observations=sent + 1,
        held=left / 5,
        added=1e-3,
        total=float(left),
        count=left,
        senders=lambda: Senders(5, 5 * sent + 20),
    )


def test_a_share_is_told_with_a_time() -> None:
    fleet = Fleet(0.25, d=2)
    fleet.held, fleet.seen = {0: 1.0, 1: 4.0}, {0: 20, 1: 79}
    told = exceeded_share(
        fleet.quotas,
        dimension=2,
        longest=1.0,
        sent=1,
        observations=21,
        held=1.0,
        added=1.0,
        total=5.0,
        count=99,
        senders=lambda: Senders(2, 99),
    )
    assert isinstance(told, Exceeded)
    assert "0.25 of the model" in told.reason
    assert told.seconds > 0


@given(st.floats(1.0, 1e15), st.integers(1, 20), st.sampled_from([1, 5, 10, 100, 1000]))
def test_a_first_upload_is_free_unless_it_outweighs_what_it_may(
    mass: float, count: int, senders: int
) -> None:
    """A thousand observations of the model weigh 1 each, as the longest arm does.

    What is free is 20 of those, and of many senders 5 times what they hold on average.
    """
    fleet = Fleet(0.001, d=2)
    each = 1000 // senders
    fleet.held = dict.fromkeys(range(1, senders + 1), float(each))
    fleet.seen = dict.fromkeys(range(1, senders + 1), each)
    fair = mass <= max(2.0, (1000.0 + mass) * AHEAD / senders) and mass <= 20.0
    fair = fair or mass <= 0.001 * (1000.0 + mass)
    few = count <= max(2.0, (1000.0 + count) * AHEAD / senders)
    assert fleet.send(0, count, mass) == (fair and few)


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
