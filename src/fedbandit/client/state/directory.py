"""The state_dir of an agent: its lock, its journal, and the agent's state read back from it."""

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedbandit import file_lock
from fedbandit.client.decisions import OpenDecision, OpenDecisions
from fedbandit.client.state.journal import Journal, read
from fedbandit.client.state.learner import Learner
from fedbandit.client.state.records import (
    FORMAT,
    OPENING,
    Activated,
    Decided,
    DecisionForgotten,
    Header,
    Learned,
    Ran,
    Record,
    Rewarded,
    Settled,
    array_of,
    decode_all,
    encode,
)
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.recipe import Recipe
from fedbandit.errors import (
    FedbanditError,
    InvalidState,
    OutputError,
    SettledDecision,
    UnknownDecision,
    complaint,
)
from fedbandit.wire import Limits

_log = logging.getLogger(__name__)
_LOCK = "lock"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which agent of which model this is."""

    model: str
    agent: str

    def __str__(self) -> str:
        return f"{self.model}/{self.agent}"


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """What was read back from a journal, and its format.

    ``running_time`` is over all runs, and so is ``number``, of the latest decision. ``chance``: see
    ``Header``.
    """

    journal: Journal
    learner: Learner
    limits: Limits | None
    running_time: float
    format: int
    number: int
    chance: int


class StateDir:
    """A directory that is locked against other processes until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal = path / "journal"
        self.refused = path / "refused"
        self._held = _hold(path)

    def recover(self, who: Identity, decisions: OpenDecisions) -> Recovered | None:
        """Replay the journal, if there is one: fill in the open decisions and return the rest.

        The file is not changed before everything in it has been read without an error.
        """
        if not self._journal.exists():
            return None
        content = read(self._journal, opening=OPENING)
        try:
            header, learner, running_time, number = _replay(content.payloads, who, decisions)
        except (UnknownDecision, SettledDecision) as error:
            raise _unreadable(f"a reward without its decision, {error}") from error
        except FedbanditError:
            raise
        except (msgspec.DecodeError, ValueError) as error:
            raise _unreadable(str(error)) from error
        limits = None if header.limits is None else _limits(header.limits)
        if content.torn:
            _log.warning("%s: cut off a torn record of %d bytes", self._journal, content.torn)
        journal = Journal.resume(self._journal, content)
        kept = header.format, number, header.chance
        return Recovered(journal, learner, limits, running_time, *kept)

    def begin(self, records: Iterable[Record]) -> Journal:
        """Start a journal with these records; they are on the disk before it has its name."""
        made = Journal.create(self._journal, map(encode, records))
        made.rename(self._journal)
        made.flush_name()
        return made

    def hold_again(self) -> None:
        """Make and lock the directory again if it was deleted, moved or replaced meanwhile.

        Raises OutputError if that fails, or if another process has it by now.
        """
        if not file_lock.is_at(self._held, self._path / _LOCK):
            _log.warning("%s was deleted or moved; it is made again", self._path)
            held, self._held = self._held, _hold(self._path)
            file_lock.release(held)

    def close(self) -> None:
        """Unlock the directory for other processes."""
        file_lock.release(self._held)


def header(who: Identity, recipe: Recipe, limits: Limits | None, chance: int = 0) -> Header:
    """Return the record that a journal begins with."""
    bounds = None if limits is None else (limits.arm_norm, limits.reward, limits.count)
    params = msgspec.json.encode(recipe.params)
    return Header(FORMAT, who.model, who.agent, recipe.name, params, bounds, recipe.meaning, chance)


def recipe_of(name: str, params: bytes) -> Recipe:
    """Return the recipe that a header or a coordinator names, or raise InvalidState."""
    try:
        return RECIPES[name](**msgspec.json.decode(params, type=dict[str, object]))
    except (KeyError, TypeError, msgspec.DecodeError, FedbanditError) as error:
        got, expected = f"{name} with {params!r}", "a recipe that this version can build"
        fix = "Use the same version of fedbandit everywhere."
        raise InvalidState(complaint("recipe", got=got, expected=expected, fix=fix)) from error


def _replay(
    payloads: list[bytes], who: Identity, decisions: OpenDecisions
) -> tuple[Header, Learner, float, int]:
    """Return header, the learner after all records, the latest time and number of a decision.

    More decisions may have been open than are allowed now. All are restored, since their rewards
    may follow; only those still open at the end are trimmed.
    """
    records = decode_all(payloads)
    head, first = next(records, None), next(records, None)
    if not isinstance(head, Header) or not isinstance(first, Learned):
        raise _unreadable("its first two records are not a header and a learner")
    if not 1 <= head.format <= FORMAT:
        raise _unreadable(f"it is of format {head.format}, not 1 to {FORMAT}")
    _check_owner(head, who)
    recipe = recipe_of(head.recipe, head.params)
    if head.meaning not in recipe.identities:
        named = f"{head.recipe} of meaning {head.meaning}"
        raise _unreadable(f"it is of {named}; this version of fedbandit has {recipe.meaning}")
    learner = Learner.restore(recipe, first)
    if head.limits is not None:
        learner.most = head.limits[2]
    latest, largest = 0.0, 0
    for record in records:
        match record:
            case Decided(name, arm, active, since, number):
                latest, largest = _later(latest, since), max(largest, number)
                waits = latest if since is None else since
                decisions.restore(name, OpenDecision(array_of(arm), waits, active))
            case Activated(name, since):
                latest = _later(latest, since)
                decisions.activate(name, latest if since is None else since)
            case Rewarded(name, reward):
                learner.observe(decisions.get(name).arm, reward)
                decisions.settle(name)
            case DecisionForgotten(name):
                decisions.settle(name)
            case Settled(names):
                decisions.restore_settled(names)
            case Ran(seconds, number):
                latest, largest = _later(latest, seconds), max(largest, number)
            case Learned():
                most, learner = learner.most, Learner.restore(recipe, record)
                learner.most = most
    decisions.trim()
    return head, learner, latest, largest


def _later(latest: float, written: float | None) -> float:
    """Return the later of two running times; threads may have written theirs out of order."""
    return latest if written is None else max(latest, written)


def _check_owner(head: Header, who: Identity) -> None:
    found = Identity(model=head.model, agent=head.agent)
    if found != who:
        fix = "Give every agent of every model a state_dir of its own."
        got = f"the state of agent {found.agent!r} of model {found.model!r}"
        expected = f"that of agent {who.agent!r} of model {who.model!r}"
        raise InvalidState(complaint("state_dir", got=got, expected=expected, fix=fix))


def _limits(given: tuple[float, float, int]) -> Limits:
    arm_norm, reward, count = given
    return Limits(arm_norm=arm_norm, reward=reward, count=count)


def wait_until_free(path: Path, *, seconds: float) -> bool:
    """Wait until no process holds a state_dir, for so long at most; return whether that is so.

    A process that was told to stop delivers what is due before it lets go.
    """
    deadline = time.monotonic() + seconds
    while path.is_dir():
        with suppress(OSError):  # the next to open it says what is wrong with it
            handle = file_lock.acquire(path / _LOCK)
            if handle is None:
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_SECONDS)
                continue
            file_lock.release(handle)
        break
    return True


def _hold(path: Path) -> int:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = file_lock.acquire(path / _LOCK)
    except OSError as error:
        got, fix = f"{error.strerror} at {str(path)!r}", "Choose another state_dir."
        expected = "a directory to write to"
        raise OutputError(complaint("state_dir", got=got, expected=expected, fix=fix)) from error
    if handle is None:
        got, expected = f"{str(path)!r}, which is in use", "a directory for one process at a time"
        fix = "Close the other agent, or give this one a directory of its own."
        raise OutputError(complaint("state_dir", got=got, expected=expected, fix=fix))
    return handle


def _unreadable(why: str) -> InvalidState:
    fix = "Use the version of fedbandit that wrote it, or start with an empty state_dir."
    return InvalidState(f"The journal in the state_dir cannot be read: {why}. {fix}")
