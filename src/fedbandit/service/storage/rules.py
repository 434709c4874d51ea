"""The rules of a model as they are stored: quotas, history, groups and relays, in JSON."""

from functools import lru_cache

import msgspec

from fedbandit.errors import StoreError, complaint
from fedbandit.service.bookkeeping.history import HOURLY, History
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas


class Rules(msgspec.Struct, frozen=True):
    """The column ``rules``, as JSON."""

    quotas: Quotas = NO_QUOTAS
    history: History = HOURLY
    groups: int = 0
    relays: int = 0


@lru_cache(maxsize=64)
def read_rules(packed: str, model: str) -> Rules:
    """Return the rules in a column; raise StoreError, with the name of the model, for others."""
    try:
        return msgspec.json.decode(packed, type=Rules)
    except (msgspec.DecodeError, TypeError) as error:
        who, expected = f"quotas of model {model!r}", "rules as this program writes them"
        fix = "Restore a backup, or set the column rules of the table models to {} for none."
        raise StoreError(complaint(who, got=str(error), expected=expected, fix=fix)) from error


def written_rules(quotas: Quotas, history: History, groups: int, relays: int) -> str:
    """Return rules as they are stored."""
    return msgspec.json.encode(Rules(quotas, history, groups, relays)).decode()
