"""Checks of received and restored statistics that Gram matrices and sketches share."""

from math import inf, isfinite
from typing import Final, Protocol, TypeVar

import numpy as np

from fedbandit.core.memory.narrow import Narrow, rounding_room
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import Triangle
from fedbandit.core.statistics import Statistics
from fedbandit.errors import InvalidMessage, InvalidState, complaint

S = TypeVar("S")

HUGE: Final = 1e150  # squares of anything larger overflow


class _Checks(Protocol):
    @property
    def dimension(self) -> int: ...

    def check(self, statistics: Statistics, /) -> None: ...


def check_sums(statistics: Statistics, dimension: int) -> None:
    """Raise InvalidMessage unless moment (d), count and rewards can come from observations."""
    moment, count, rewards = statistics.moment, statistics.count, statistics.rewards
    fits = (
        moment.dtype == np.float64
        and moment.shape == (dimension,)
        and (isfinite(moment.sum()) or bool(np.isfinite(moment).all()))  # a sum may overflow
        and isinstance(count, int | np.integer)
        and count >= 0
    )
    if not fits:
        raise InvalidMessage(
            complaint(
                "moment and count in a message",
                got=f"{moment.dtype} of shape {moment.shape}, count {count!r}",
                expected=f"{dimension} finite float64 and a whole number of at least 0",
                fix="Build agents and server from the same recipe.",
            ),
            field="moment",
        )
    if not 0 <= statistics.cut <= count:
        expected = f"a number from 0 to {count}"
        fix = "An upload is counted once if its correction was cut."
        message = complaint("cut in a message", got=statistics.cut, expected=expected, fix=fix)
        raise InvalidMessage(message, field="more.cut")
    if not (0 <= rewards.count <= count and isfinite(rewards.total + rewards.squares)):
        expected = f"finite sums over at most {count} rewards"
        fix = "Send the sums over the rewards of this message's observations, or leave them out."
        message = complaint("rewards in a message", got=rewards, expected=expected, fix=fix)
        raise InvalidMessage(message, field="more.rewards")
    guessed = statistics.estimates
    if not (0 <= guessed.count <= count and isfinite(guessed.total) and 0 <= guessed.errors < inf):
        expected = f"finite sums over at most {count} estimates"
        fix = "Send sums over what these rewards were estimated to be, or leave them out."
        message = complaint("estimates in a message", got=guessed, expected=expected, fix=fix)
        raise InvalidMessage(message, field="more.estimates")


def room_for_rounding(summary: object) -> float:
    """Return the share by which rounding may have enlarged a summary's trace, and the moment."""
    return summary.room if isinstance(summary, Triangle) else rounding_room(summary)


def restored(memory: _Checks, summary: S) -> S:
    """Return a summary from a saved state; raise InvalidState if the memory cannot use it."""
    try:
        memory.check(Statistics(summary, np.zeros(memory.dimension), 0))
    except InvalidMessage as error:
        raise InvalidState(str(error)) from error
    return summary


def wrong_summary(summary: object, expected: str, fault: str = "") -> InvalidMessage:
    """Return the error for a summary that a memory cannot merge; ``fault``: what is wrong in it."""
    match summary:
        case Gram(matrix):
            got = f"a Gram matrix of shape {matrix.shape}"
        case Triangle(width):
            got = f"a triangle of dimension {summary.dimension} in {width}"
            got += f", raised {summary.raised}, shed {summary.shed}"
        case Sketch() | Narrow():
            kind = summary.width if isinstance(summary, Narrow) else "float64"
            shape = (summary.codes if isinstance(summary, Narrow) else summary.rows).shape
            got = f"a sketch of size {summary.size}, rows of shape {shape} in {kind}"
            got += f", shed {summary.shed}, lost {summary.lost}"
        case _:
            got = f"a {type(summary).__name__}"
    fix = "Build agents and server from the same recipe."
    if fault:
        got, fix = f"{got}, {fault}", "Add up x x^T in float64, and send that sum as it is."
    return InvalidMessage(complaint("summary in a message", got=got, expected=expected, fix=fix))
