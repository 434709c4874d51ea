"""All errors that fedbandit raises on purpose, in one tree.

::

    FedbanditError
    ├── LocalError               something in this program or on this machine has to change
    │   ├── InvalidParameter     a parameter of a recipe, world or spec is out of range
    │   ├── InvalidArms          arms of the wrong shape, or not finite
    │   ├── InvalidReward        a reward that is not a finite number
    │   ├── OutOfOrder           a call that is not possible yet: ``observe`` before ``choose``
    │   ├── InvalidState         a saved state that is damaged or of another recipe
    │   ├── UnknownName          a name that does not exist, with the nearest one that does
    │   │   └── UnknownParameter a parameter that a recipe does not have
    │   ├── DataError            a data set that cannot be read or used
    │   ├── OutputError          a file or directory that cannot be written
    │   ├── StoreError           a coordinator's store that cannot be opened, read or written
    │   ├── MissingExtra         an optional dependency that is not installed
    │   ├── UnknownDecision      a reward for a decision that is not open
    │   ├── SettledDecision      a reward for a decision that already has its reward
    │   ├── DuplicateDecision    a decision id that was used before
    │   └── Closed               a call of an agent that was closed
    └── RemoteError              the other side, or what it sent, is at fault
        ├── InvalidMessage       a message that does not fit this agent or server
        ├── Unreachable          no answer from the coordinator, or "not now": try again later
        └── Refused              the coordinator refused; the same request will be refused again

A message says in one sentence what is wrong, and then what to do. The object that raised it has not
changed. ``NothingLearned`` is a warning: an agent's uploads go nowhere.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.6  # similarity, from 0 to 1, above which a name is offered for another
_SHOWN = 20  # names that an error lists at most; a store may have thousands


class FedbanditError(Exception):
    """Base class of all errors that fedbandit raises on purpose."""


class LocalError(FedbanditError):
    """Something in this program or on this machine has to change."""


class InvalidParameter(LocalError, ValueError):
    """A parameter of a recipe, a world, a spec or a call is missing or out of range."""


class InvalidArms(LocalError, ValueError):
    """The arms are not a finite K x d matrix with K >= 1, or are too large."""


class InvalidReward(LocalError, ValueError):
    """The reward given to ``observe`` is not a finite number."""


class OutOfOrder(LocalError, RuntimeError):
    """A call that is not possible now, such as ``observe(0, r)`` before any ``choose``."""


class InvalidState(LocalError, ValueError):
    """A saved state is damaged, incomplete, or of another recipe."""


class UnknownName(LocalError, LookupError):
    """A name that does not exist; the message offers the nearest one that does."""


class UnknownParameter(UnknownName, TypeError):
    """A parameter that a recipe does not have; the message offers the nearest one that it has."""


class DataError(LocalError, ValueError):
    """A data set cannot be read, or no world can be made of it."""


class OutputError(LocalError, OSError):
    """A file or directory cannot be written."""


class StoreError(LocalError, OSError):
    """A coordinator's store cannot be opened, read or written, perhaps only for now."""


class MissingExtra(LocalError, ImportError):
    """An optional dependency is not installed."""


class UnknownDecision(LocalError, LookupError):
    """No open decision has this id: it was never made here, or was forgotten."""


class SettledDecision(LocalError, LookupError):
    """The decision already has its reward; the second one was not counted."""


class DuplicateDecision(LocalError, ValueError):
    """The id that the caller gave a new decision was used before."""


class Closed(LocalError, RuntimeError):
    """The agent was closed."""


class RemoteError(FedbanditError):
    """The other side, or what it sent, is at fault."""


class InvalidMessage(RemoteError, ValueError):
    """A message does not fit the agent or server that received it.

    ``field`` is the dotted name of the field at fault, or "" if it is not known.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Unreachable(RemoteError, ConnectionError):
    """The coordinator gave no answer, or asked to come back in ``retry_after`` seconds."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(RemoteError):
    """The coordinator refused, with this HTTP ``status``, because of ``field`` (or "")."""

    def __init__(self, message: str, *, status: int, field: str = "") -> None:
        super().__init__(message)
        self.status, self.field = status, field


class NothingLearned(UserWarning):
    """An agent uploads again and again, and no download has ever come: it learns nothing."""


def complaint(who: str, *, got: object, expected: str, fix: str) -> str:
    """Return the text of an error about a value that was got: what, expected, and the fix."""
    return f"{who}: got {got}; expected {expected}. {fix}"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that ``name`` abbreviates or misspells, ignoring case, or None."""
    folded, given = {each.casefold(): each for each in valid}, name.casefold()
    begun = [each for each in folded if len(given) > 1 and each.startswith(given)]
    close = begun if len(begun) == 1 else get_close_matches(given, folded, n=1, cutoff=_ALIKE)
    return folded[close[0]] if close else None


def unknown(kind: str, name: str, valid: Iterable[str]) -> UnknownName:
    """Return the error for a name that does not exist, with the nearest valid one."""
    names = sorted(valid, key=_place)
    if not names:
        return UnknownName(f"{kind}: {name!r} does not exist; there is no {kind} yet. Create one.")
    meant = nearest(name, names)
    fix = f"Did you mean {meant!r}?" if meant else "Pick one of those."
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    expected = f"one of {', '.join(names[:_SHOWN])}{more}"
    return UnknownName(complaint(kind, got=repr(name), expected=expected, fix=fix))


def _place(name: str) -> tuple[bool, int, str]:
    """Return where a name is listed: numbers by size, then words."""
    number = name.isascii() and name.isdecimal()
    return not number, int(name) if number else 0, name


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """Return the error for an optional dependency that is not installed."""
    return MissingExtra(
        f"{purpose} needs {package}, which is not installed. Run: pip install 'fedbandit[{extra}]'."
    )
