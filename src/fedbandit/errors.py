"""Every error that fedbandit raises on purpose.

::

    FedbanditError
    ├── LocalError               something on this side has to change
    │   ├── InvalidParameter     a recipe, world or spec was asked for something that cannot be
    │   ├── InvalidArms          the arms given to ``choose``
    │   ├── InvalidReward        the reward given to ``observe``
    │   ├── OutOfOrder           ``observe`` without a ``choose``
    │   ├── InvalidState         a saved state that does not fit
    │   ├── UnknownName          a name that is not there, with the nearest one that is
    │   │   └── UnknownParameter a parameter that a recipe does not have
    │   ├── DataError            a data set that cannot be read or used
    │   ├── OutputError          a place that cannot be written
    │   ├── StoreError           a coordinator's store that cannot be opened, read or written
    │   ├── MissingExtra         an optional dependency is not installed
    │   ├── UnknownDecision      a reward for a decision that is not open here
    │   ├── SettledDecision      a reward for a decision that has its reward already
    │   ├── DuplicateDecision    an id of the caller's own that was used before
    │   └── Closed               an agent that was closed
    └── RemoteError              the other side, or what it sent, is at fault
        ├── InvalidMessage       a message that does not fit this agent or server
        ├── Unreachable          no answer from the coordinator, or "not now": try again later
        └── Refused              the coordinator says no, and trying again alone will not help

A message says who complains, what came, what was expected and what to do. State is left as it was.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.6  # of 1: how alike two names are before one is taken for the other
_SHOWN = 20  # names that an error lists; a store may have thousands


class FedbanditError(Exception):
    """The root: catch this to catch everything that fedbandit raises on purpose."""


class LocalError(FedbanditError):
    """Something on this side has to change."""


class InvalidParameter(LocalError, ValueError):
    """A recipe, world or spec was asked for something that cannot be."""


class InvalidArms(LocalError, ValueError):
    """The arms given to ``choose`` are not a finite K x d matrix with K >= 1."""


class InvalidReward(LocalError, ValueError):
    """The reward given to ``observe`` is not a finite number."""


class OutOfOrder(LocalError, RuntimeError):
    """An arm was named by its index, but no arms have been shown."""


class InvalidState(LocalError, ValueError):
    """A saved state does not belong to this recipe, or is not whole."""


class UnknownName(LocalError, LookupError):
    """A name that does not exist; the message offers the nearest one that does."""


class UnknownParameter(UnknownName, TypeError):
    """A parameter that a recipe does not have; the message offers the nearest one that it has."""


class DataError(LocalError, ValueError):
    """A data set cannot be read, or is not what a world can be made of."""


class OutputError(LocalError, OSError):
    """A place that cannot be written."""


class StoreError(LocalError, OSError):
    """A coordinator's store cannot be opened, read or written, or is away for now."""


class MissingExtra(LocalError, ImportError):
    """An optional dependency is not installed."""


class UnknownDecision(LocalError, LookupError):
    """No open decision has this id: it was never made here, or was given up."""


class SettledDecision(LocalError, LookupError):
    """The decision has its reward already; nothing was counted twice."""


class DuplicateDecision(LocalError, ValueError):
    """An id that the caller chose for a decision was used before."""


class Closed(LocalError, RuntimeError):
    """The agent was closed."""


class RemoteError(FedbanditError):
    """The other side, or what it sent, is at fault."""


class InvalidMessage(RemoteError, ValueError):
    """A message does not fit the agent or server that received it.

    ``field`` is the dotted name of the part at fault, where that is known.
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
    """The coordinator said no, with this HTTP ``status``, about a ``field`` where it named one."""

    def __init__(self, message: str, *, status: int, field: str = "") -> None:
        super().__init__(message)
        self.status, self.field = status, field


def complaint(who: str, *, got: object, expected: str, fix: str) -> str:
    """One sentence pattern for every error: who, what came, what was expected, what to do."""
    return f"{who}: got {got}; expected {expected}. {fix}"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that was begun or misspelt, whatever its case, or None."""
    folded, given = {each.casefold(): each for each in valid}, name.casefold()
    begun = [each for each in folded if len(given) > 1 and each.startswith(given)]
    close = begun if len(begun) == 1 else get_close_matches(given, folded, n=1, cutoff=_ALIKE)
    return folded[close[0]] if close else None


def unknown(kind: str, name: str, valid: Iterable[str]) -> UnknownName:
    """Return the error for a name that does not exist, offering the nearest valid one."""
    names = sorted(valid)
    if not names:
        expected, fix = f"a {kind}, and there is none yet", "Make one first."
        return UnknownName(complaint(kind, got=repr(name), expected=expected, fix=fix))
    meant = nearest(name, names)
    fix = f"Did you mean {meant!r}?" if meant else "Pick one of those."
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    expected = f"one of {', '.join(names[:_SHOWN])}{more}"
    return UnknownName(complaint(kind, got=repr(name), expected=expected, fix=fix))


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """Return the error for an optional dependency that is not installed."""
    return MissingExtra(
        complaint(
            purpose,
            got=f"no installed {package}",
            expected=f"the extra {extra!r}",
            fix=f"Run: pip install 'fedbandit[{extra}]'.",
        )
    )
