"""Read and write saved states: flat dictionaries of arrays and scalars, fit for ``numpy.savez``.

What is read is checked; an entry that is missing or wrong raises InvalidState with its name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fedbandit.core.identity import form_1, is_of_version_1
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.statistics import NO_ESTIMATES, NO_REWARDS, Estimates, Rewards, Statistics
from fedbandit.errors import InvalidState, complaint

if TYPE_CHECKING:
    from fedbandit.core.memory.contract import Memory
    from fedbandit.core.recipe import Recipe

State = dict[str, Any]


def array(state: Mapping[str, Any], key: str, *shape: int | None) -> Array:
    """Return a copy of state[key] as finite float64 of this shape (None: any length)."""
    entry = _entry(state, key)
    try:
        value = np.array(entry, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong_entry(key, f"a {type(entry).__name__}", f"an array of shape {shape}") from error
    fits = value.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(value.shape, shape, strict=True)
    )
    if not fits or not np.isfinite(value).all():
        raise wrong_entry(
            key, f"an array of shape {value.shape}", f"a finite array of shape {shape}"
        )
    return value


def number(state: Mapping[str, Any], key: str) -> float:
    """Return state[key] as a finite float."""
    entry = _entry(state, key)
    try:
        value = float(entry)
    except (TypeError, ValueError) as error:
        raise wrong_entry(key, repr(entry), "a number") from error
    if not np.isfinite(value):
        raise wrong_entry(key, value, "a finite number")
    return value


def not_negative(state: Mapping[str, Any], key: str) -> float:
    """Return state[key] as a finite float that is not negative."""
    value = number(state, key)
    if value < 0.0:
        raise wrong_entry(key, value, "a number of at least 0")
    return value


def integer(state: Mapping[str, Any], key: str) -> int:
    """Return state[key] as an int >= 0."""
    value = number(state, key)
    if value < 0 or value != int(value):
        raise wrong_entry(key, value, "a whole number >= 0")
    return int(value)


def under(prefix: str, state: Mapping[str, Any]) -> State:
    """Return the state with every key put under ``prefix.``."""
    return {f"{prefix}.{key}": value for key, value in state.items()}


def part(state: Mapping[str, Any], prefix: str) -> State:
    """Return the entries under ``prefix.``, with the prefix taken off."""
    dot = f"{prefix}."
    return {key[len(dot) :]: state[key] for key in state if key.startswith(dot)}


def rewards_entry(rewards: Rewards) -> Array:
    """Return sums of rewards as an entry of a saved state."""
    return np.array([rewards.count, rewards.total, rewards.squares], dtype=np.float64)


def rewards(state: Mapping[str, Any], key: str, *, most: int) -> Rewards:
    """Return the sums of rewards at a key; NO_REWARDS for states of versions without them."""
    if key not in state:
        return NO_REWARDS
    count, total, squares = array(state, key, 3)
    if not 0 <= count <= most or count != int(count) or squares < 0.0:
        raise wrong_entry(key, [count, total, squares], f"sums over at most {most} rewards")
    return Rewards(int(count), float(total), float(squares))


def estimates_entry(estimates: Estimates) -> Array:
    """Return sums over estimates as an entry of a saved state."""
    return np.array([estimates.count, estimates.total, estimates.errors], dtype=np.float64)


def estimates(state: Mapping[str, Any], key: str, *, most: int) -> Estimates:
    """Return the sums over estimates at a key; NO_ESTIMATES where none were saved."""
    if key not in state:
        return NO_ESTIMATES
    count, total, errors = array(state, key, 3)
    if not 0 <= count <= most or count != int(count) or errors < 0.0:
        raise wrong_entry(key, [count, total, errors], f"sums over at most {most} estimates")
    return Estimates(int(count), float(total), float(errors))


class Names(NamedTuple):
    """What comes before the name of an entry, and before those of the summary's entries."""

    prefix: str
    summary: str


BASE: Final = Names("base_", "base")
"""Of what an agent last downloaded."""

MERGED: Final = Names("", "summary")
"""Of what a server has merged."""


def statistics_entries(statistics: Statistics, memory: "Memory", names: Names) -> State:
    """Return statistics as plain arrays and numbers; estimates are not saved."""
    state: State = {
        f"{names.prefix}moment": statistics.moment.copy(),
        f"{names.prefix}count": statistics.count,
        f"{names.prefix}rewards": rewards_entry(statistics.rewards),
    }
    if statistics.cut:
        state[f"{names.prefix}cut"] = statistics.cut
    return state | under(names.summary, memory.pack(statistics.summary))


def statistics_in(
    state: Mapping[str, Any], memory: "Memory", dimension: int, names: Names
) -> Statistics:
    """Return the statistics that were saved under these names; raise InvalidState if damaged."""
    count, cut = integer(state, f"{names.prefix}count"), f"{names.prefix}cut"
    return Statistics(
        memory.unpack(part(state, names.summary)),
        array(state, f"{names.prefix}moment", dimension),
        count,
        rewards(state, f"{names.prefix}rewards", most=count),
        integer(state, cut) if cut in state else 0,
    )


def check_word(state: Mapping[str, Any], key: str, expected: str) -> None:
    """Raise InvalidState if the state says another word; states of version 1 say none."""
    if key in state and str(state[key]) != expected:
        raise wrong_entry(key, repr(str(state[key])), repr(expected))


def check_owner(state: Mapping[str, Any], recipe: "Recipe") -> None:
    """Raise InvalidState unless the state was saved with this recipe."""
    said = str(_entry(state, "recipe"))
    if said in recipe.identities.values():
        return
    if not (is_of_version_1(recipe) and said == form_1(recipe)):
        raise wrong_entry("recipe", str(state["recipe"]), f"{recipe.identity}, that is {recipe!r}")


def wrong_entry(key: str, got: object, expected: str) -> InvalidState:
    """Return the error for an entry of a saved state that is missing or wrong."""
    fix = "Pass restore() what state() returned, and the same recipe."
    return InvalidState(complaint(f"saved state, {key!r}", got=got, expected=expected, fix=fix))


def _entry(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise wrong_entry(key, f"only the entries {sorted(state)}", f"an entry {key!r}")
    return state[key]
