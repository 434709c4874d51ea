"""How often somebody may ask for what comes to nothing."""

from hypothesis import given
from hypothesis import strategies as st

from fedbandit.service.access.attempts import Attempts
from tests.client.faults import Clock


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60))
def test_in_any_stretch_of_time_no_more_than_at_once_and_a_second(pauses: list[float]) -> None:
    clock = Clock()
    attempts, allowed = Attempts(most=5, a_second=1.0, clock=clock), []
    for pause in pauses:
        clock.now += pause
        left = attempts.are_left("a")  # counts nothing
        assert attempts.allow("a") == left
        if left:
            allowed.append(clock.now)
    for first in range(len(allowed)):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= 5 + (allowed[last] - allowed[first]) + 1e-6


def test_addresses_are_counted_apart_and_the_latest_remembered() -> None:
    clock = Clock()
    attempts = Attempts(most=1, a_second=0.0, clock=clock)
    assert attempts.allow("a")
    assert not attempts.allow("a")
    assert attempts.allow("b")
    for number in range(10_000):
        attempts.allow(str(number))
    assert attempts.allow("a")  # forgotten: memory is bounded
