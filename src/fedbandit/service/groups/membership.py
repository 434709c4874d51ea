"""Groups of agents, for a model that few liars must not sway: how many, and who is in which.

What agents send is merged into the whole, as ever, and into the sum of the sender's group as well.
What agents are told is found from these sums (``groups.weighed``).

The first agents that send something are each alone in a group; once all groups have one, each gets
a second one, and so on (``place``): who shares a group with a liar is told less, so few do. Which
of the groups it is depends on when the model was made, so that it cannot be chosen from outside.
Agents that had sent something before they had a place are in groups by their names.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Final

from fedbandit.errors import InvalidParameter, complaint
from fedbandit.terms import is_log_name

MOST_GROUPS: Final = 256
FEWEST_GROUPS: Final = 5
"""Fewer do not outvote one."""

ADVISED_GROUPS: Final = 24
WATCHED_FROM: Final = 8
"""Groups that have sent something, before those that are watched are weighed."""

FEWEST_AGENTS: Final = 10
"""Fewer agents fill too few groups to tell a liar from the others."""

_KEYS, _CLOSED = 1000, 500


def group_of(created: float, groups: int, agent: str, place: int | None = None) -> int:
    """Return the group of an agent of the model that was made at this time.

    ``place``: how many agents had one before it; None if it has none.
    """
    if agent.startswith("/"):  # not an agent: what a whole group had sent, see ``undo``
        return int(agent[1:])
    if place is None:
        return _drawn(created, agent) % groups
    turn, seat = divmod(place, groups)
    return (seat + _drawn(created, f"/{turn}")) % groups


def _drawn(created: float, what: str) -> int:
    digest = sha256(f"{created!r}/{what}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


@lru_cache(maxsize=1 << 16)
def key_for(created: float, groups: int, agent: str, place: int | None = None) -> int:
    """Return the key of the sum that what an agent sends is added to.

    A log that an operator merged (``model warm``) is no agent's: it counts as what was merged
    without groups, whose mass is believed.
    """
    if is_log_name(agent):
        return key_of(1, 0)
    return key_of(groups, group_of(created, groups, agent, place))


def key_of(groups: int, number: int) -> int:
    """Return the key that the sum of a group is stored under: of these many groups, this one.

    So sums of other groups, of before, can lie beside it. ``key_of(1, 0)`` is for what was merged
    without groups.
    """
    return _KEYS * groups + number


def closed_key(key: int) -> int:
    """Return the key for the same group's sum of before parts of agents were kept."""
    return key if is_closed(key) else key + _CLOSED


def is_closed(key: int) -> bool:
    """Say whether a key is for what came before parts of agents were kept."""
    return key % _KEYS >= _CLOSED


def group_at(key: int) -> tuple[int, int]:
    """Return how many groups a key is for one of, and which."""
    return key // _KEYS, key % _KEYS % _CLOSED


def check_groups(groups: int, *, weighed: bool = True) -> int:
    """Return the number of groups of a model; raise InvalidParameter if it is out of range."""
    if groups and not (FEWEST_GROUPS if weighed else 3) <= groups <= MOST_GROUPS:
        fix = "Choose three to four times the number of liars that it has to stand."
        expected = f"a whole number from {FEWEST_GROUPS} to {MOST_GROUPS}, or 0 for none"
        raise InvalidParameter(complaint("groups", got=groups, expected=expected, fix=fix))
    return groups
