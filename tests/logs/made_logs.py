"""Logs for tests: events drawn by hypothesis, and written by hand."""

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from fedbandit.logs import Event, LogWriter
from fedbandit.logs.records import Decided, LoggedAction

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: x + 0.0)
NAMES = st.text(st.sampled_from("xyz :|%'=ü_7"), min_size=1, max_size=5)
WORDS = st.text(st.sampled_from("ab :|%'=é.0"), min_size=1, max_size=6)


@st.composite
def events(draw: st.DrawFn, *, named: bool | None = None) -> list[Event]:
    """Draw a few events, all with arms or all with named features, under ids that differ."""
    by_name = draw(st.booleans()) if named is None else named
    ids = draw(st.lists(st.uuids().map(str), min_size=1, max_size=5, unique=True))
    return [_event(draw, id, by_name) for id in ids]


def _event(draw: st.DrawFn, id: str, by_name: bool) -> Event:
    many, dimension = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shape = dict.fromkeys(range(many))
    chosen = draw(st.integers(0, many - 1))
    probability = draw(st.floats(1e-6, 1.0))
    if by_name:
        features = st.dictionaries(NAMES, st.one_of(NUMBERS, WORDS, st.booleans()), max_size=3)
        actions = [LoggedAction(id=f"a{k}", features=draw(features)) for k in shape]
        context = draw(features)
        arms = None
    else:
        rows = st.lists(NUMBERS, min_size=dimension, max_size=dimension)
        arms = np.array([draw(rows) for _ in shape])
        actions, context = None, None
    return Event(
        id=id,
        chosen=chosen,
        probability=probability,
        reward=draw(NUMBERS),
        arms=arms,
        actions=actions,
        context=context,
    )


def decided(id: str, *, chosen: int = 0, probability: float = 0.5) -> Decided:
    """Return a decision between two arms."""
    arms = [[1.0, 0.0], [0.0, 1.0]]
    return Decided(id=id, chosen=chosen, probability=probability, arms=arms)


def write(directory: Path, events: list[Event]) -> None:
    """Write events as an agent would: all decisions, then all rewards."""
    log = LogWriter(directory, agent="till", model="shop")
    for event in events:
        log.decided(
            Decided(
                id=event.id,
                chosen=event.chosen,
                probability=event.probability,
                arms=None if event.arms is None else event.arms.tolist(),
                context=event.context,
                actions=None if event.actions is None else list(event.actions),
            )
        )
    for event in events:
        log.rewarded(event.id, event.reward)
    log.close()


def same(one: Event, other: Event) -> bool:
    """Return whether two events say the same, apart from times."""
    plain = (one.id, one.chosen, one.probability, one.reward, one.context, one.actions)
    again = (other.id, other.chosen, other.probability, other.reward, other.context, other.actions)
    if (one.arms is None) != (other.arms is None):
        return False
    arms = one.arms is None or (other.arms is not None and np.array_equal(one.arms, other.arms))
    return plain == again and arms
