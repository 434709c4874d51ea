"""Turns: what is taken is given back, and nobody takes more than there is."""

from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.service.admission import Turns
from fedbandit.service.refusal import Refusal
from fedbandit.service.settings import Settings

SETTINGS = Settings(queue=3, queue_bytes=100, turns=2)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=8))
def test_an_agent_has_its_own_turns(agents: list[str]) -> None:
    turns = Turns(SETTINGS)
    for _ in range(2):  # the second time shows that all were given back
        with ExitStack() as held:
            for place, agent in enumerate(agents):
                if agents[:place].count(agent) < 2:
                    held.enter_context(turns.talking("m", agent))
                    continue
                with pytest.raises(Refusal) as caught:
                    held.enter_context(turns.talking("m", agent))
                assert caught.value.response().headers["retry-after"] == "1"
                assert caught.value.status == 429


@given(st.lists(st.integers(0, 150), max_size=8))
def test_the_queue_is_bounded_in_number_and_bytes_but_takes_one(sizes: list[int]) -> None:
    turns = Turns(SETTINGS)
    for _ in range(2):
        inside: list[int] = []
        with ExitStack() as held:
            for size in sizes:
                if not inside or (len(inside) < 3 and sum(inside) + size <= 100):
                    held.enter_context(turns.waiting(size))
                    inside.append(size)
                else:
                    with pytest.raises(Refusal) as caught:
                        held.enter_context(turns.waiting(size))
                    assert caught.value.status == 503
                assert turns.queued == len(inside)
        assert turns.queued == 0


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60)), max_size=80),
)
def test_bodies_that_arrive_take_no_more_than_twice_the_queue(
    most: int, sent: list[tuple[int, int]]
) -> None:
    turns = Turns(Settings(queue_bytes=most))
    with ExitStack() as under_way:
        notes = [under_way.enter_context(turns.arriving()) for _ in range(10)]
        held = [0] * 10
        for who, size in sent:
            if sum(held) + size > most < 10 * (held[who] + size):  # it has had its share
                with pytest.raises(Refusal) as caught:
                    notes[who](size)
                assert caught.value.status == 503
            else:
                notes[who](size)
                held[who] += size
            assert sum(held) <= 2 * most
    with turns.arriving() as note, turns.arriving() as other:
        note(most)  # nothing is left of those before
        with pytest.raises(Refusal):
            other(most // 2 + 1)
        if most > 1:
            other(1)


def test_many_bodies_one_after_another_do_not_add_up_beyond_that() -> None:
    """Each newcomer's share is smaller, but those before keep theirs: the sum has an end."""
    turns = Turns(Settings(queue_bytes=1000))
    held = 0
    with ExitStack() as under_way:
        for _ in range(400):
            note = under_way.enter_context(turns.arriving())
            with suppress(Refusal):
                for _ in range(1000):
                    note(1)
                    held += 1
            assert held <= 2000


def test_a_body_that_is_alone_may_be_as_large_as_its_model_says() -> None:
    turns = Turns(Settings(queue_bytes=10))
    with turns.arriving() as note:
        note(8)
        note(1000)
