"""The rules of a model as they are stored: quotas, history, groups and relays, in JSON."""

from dataclasses import astuple, replace
from functools import lru_cache

import msgspec

from fedbandit.errors import StoreError, complaint
from fedbandit.service.bookkeeping.history import HOURLY, History
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas
from fedbandit.service.storage.contract import Model
from fedbandit.service.storage.database import Session


class Rules(msgspec.Struct, frozen=True):
    """The column ``rules``, as JSON."""

    quotas: Quotas = NO_QUOTAS
    history: History = HOURLY
    groups: int = 0
    relays: int = 0
    weighed: bool = False
    watched: bool = False


@lru_cache(maxsize=64)
def read_rules(packed: str, model: str) -> Rules:
    """Return the rules in a column; raise StoreError, with the name of the model, for others."""
    try:
        return msgspec.json.decode(packed, type=Rules)
    except (msgspec.DecodeError, TypeError) as error:
        who, expected = f"quotas of model {model!r}", "rules as this program writes them"
        fix = "Restore a backup, or set the column rules of the table models to {} for none."
        raise StoreError(complaint(who, got=str(error), expected=expected, fix=fix)) from error


def changed_rules(model: Model, *, relays: int | None, groups: int | None, watched: bool) -> Model:
    """Return a model with other relays and groups; what is None stays."""
    if relays is not None:
        model = replace(model, relays=relays)
    if groups is None:
        return model
    return replace(model, groups=groups, weighed=groups > 0, watched=watched and groups > 0)


def write_rules(session: Session, model: Model) -> None:
    """Store the limits and rules of a model."""
    session.run(
        "UPDATE models SET arm_norm = ?, reward = ?, most = ?, rules = ? WHERE name = ?",
        (*astuple(model.limits), written_rules(model), model.name),
    )


def written_rules(model: Model) -> str:
    """Return the rules of a model as they are stored."""
    rules = Rules(
        model.quotas, model.history, model.groups, model.relays, model.weighed, model.watched
    )
    return msgspec.json.encode(rules).decode()
