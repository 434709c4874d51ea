"""Many rounds of one agent at once, as far as they need neither an exact growth nor a message."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedbandit.core.kernels.linalg import LARGEST, Array
from fedbandit.core.kernels.ucb import Integers
from fedbandit.core.memory.contract import Pending, Tape
from fedbandit.core.messages import Upload
from fedbandit.core.parts.choice import Choice, Chosen, Policy, Ucb
from fedbandit.core.parts.parts import Parts
from fedbandit.core.parts.trigger import Growth, Never


class Stretch(NamedTuple):
    """What ``Agent.play`` did: the chosen ``arms``, one of each round played, and the upload."""

    arms: Integers
    upload: Upload | None


def plays_tapes(parts: Parts) -> bool:
    """Say whether agents of a recipe may play many rounds with one policy and one threshold."""
    fixed = isinstance(parts.trigger, Growth | Never) and not parts.own_data
    return fixed and type(parts.choice) is Ucb


def play_tape(
    policy: Policy,
    pending: Pending,
    arms: Array,
    rewards: Array,
    threshold: float,
    chosen: Integers,
    into: Chosen | None,
) -> tuple[int, Chosen | None]:
    """Let a pending buffer play as far as it can; return how far, and the last choice.

    The chosen arms are written to ``chosen``. ``into`` is a choice that is no longer needed, and
    may be written over.
    """
    play: Callable[[Tape], int] | None = getattr(pending, "play", None)
    if play is None:  # a memory that has no loop of its own
        return 0, into
    last = into
    if last is None or type(last.arms) is not np.ndarray or last.arms.shape != arms.shape[1:]:
        last = Chosen(-1, 1.0, np.empty(arms.shape[1:]), np.empty(arms.shape[1]))
    shown, widths = last.arms, last.squared_widths
    played = play(
        Tape(arms, rewards, policy.theta, policy.radius, threshold, chosen, shown, widths)
    )
    if not played:
        return 0, into
    last.arm, last.probability = int(chosen[played - 1]), 1.0
    return played, last


def play_drawn(
    choice: Choice,
    policy: Policy,
    arms: Array,
    rewards: Array,
    chosen: Integers,
    agent: int,
    number: int,
) -> int:
    """Let a choice that learns nothing draw all arms but the last, which ``choose`` remembers."""
    many = len(arms) - 1
    if not many:
        return 0
    drawn = chosen[:many] = choice.choose_many(policy, arms[:many], agent, number)
    each = np.arange(many)
    return many if _all_fit(arms[each, drawn], rewards[each, drawn]) else 0


def _all_fit(arms: Array, rewards: Array) -> bool:
    """Say whether played arms (B x d) and their rewards (B) are small enough (``LARGEST``)."""
    with np.errstate(all="ignore"):
        squares = np.einsum("bd,bd->b", arms, arms) * np.maximum(1.0, rewards * rewards)
    return bool((squares < LARGEST).all())
