"""Rows of the tables as values, and back; the rules of a model are one column, in JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from fedbandit.errors import StoreError, complaint
from fedbandit.service.bookkeeping.deduplication import Life, MergedUploads, UnreadableUploads
from fedbandit.service.bookkeeping.history import HOURLY, History
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas, Spent
from fedbandit.service.storage.contract import Model
from fedbandit.wire import Limits, ShadowSums

_LIVES = msgspec.msgpack.Decoder(list[tuple[bytes, int, int, int]])


def lives_of(packed: bytes, model: str, agent: str) -> dict[bytes, Life]:
    """Return the lives in a packed column; raise UnreadableUploads if they cannot be read."""
    try:
        lives = _LIVES.decode(packed)
    except (msgspec.DecodeError, TypeError) as error:  # SQLite keeps a text in any column
        who = f"merged uploads of agent {agent!r} of model {model!r}"
        expected = "lives as this program writes them"
        fix = "Restore a backup; or delete this agent's row of the table agents, and what it has "
        fix += "on its way may be counted twice."
        raise UnreadableUploads(
            complaint(who, got=str(error), expected=expected, fix=fix)
        ) from error
    return {key: Life(*rest) for key, *rest in lives}


def merged_of(lives: Mapping[bytes, Life], *values: Any) -> MergedUploads:
    """Return the merged uploads of an agent from its row."""
    *totals, observations, uploads, at, loose, quarantined, rewards, total, held, shadow, place = (
        values
    )
    spent = Spent(observations, uploads, at)
    rest = (spent, loose, bool(quarantined), rewards, total, held, shadow_of(shadow), place)
    return MergedUploads(lives, *(*totals, *rest))


def merged_values(merged: MergedUploads) -> tuple[Any, ...]:
    """Return the row of merged uploads."""
    lives = [(key, each.born, each.sequence, each.version) for key, each in merged.lives.items()]
    counts = (merged.uploads, merged.observations, merged.received)
    packed, spent = msgspec.msgpack.encode(lives), merged.spent
    known = (packed, merged.known, merged.floor, *counts, merged.seen, merged.since, merged.mass)
    drains = (spent.observations, spent.uploads, spent.at)
    shadow = None if merged.shadow is None else msgspec.msgpack.encode(merged.shadow)
    shown = (merged.rewards, merged.reward_total, merged.held, shadow, merged.place)
    return (*known, *drains, merged.loose, int(merged.quarantined), *shown)


def shadow_of(packed: Any) -> ShadowSums | None:
    """Return the sums in a packed column; None if there are none, or they cannot be read."""
    try:
        return None if packed is None else msgspec.msgpack.decode(packed, type=ShadowSums)
    except (msgspec.DecodeError, TypeError):  # for the board alone, and told anew
        return None


def model_of(row: Sequence[Any]) -> Model:
    """Return a model from its row."""
    name, incarnation, recipe, params, fingerprint, arm_norm, reward, most, *rest = row
    version, count, created, packed, mass, snapshot, set_back, told = rest
    rules = read_rules(packed, name)
    return Model(
        name=name,
        incarnation=incarnation,
        recipe=recipe,
        params=bytes(params),
        fingerprint=fingerprint,
        limits=Limits(arm_norm=arm_norm, reward=reward, count=most),
        version=version,
        count=count,
        created=created,
        quotas=rules.quotas,
        history=rules.history,
        mass=mass,
        snapshot=snapshot,
        set_back=set_back,
        groups=rules.groups,
        told=bytes(told or b""),
        relays=rules.relays,
        weighed=rules.weighed,
        watched=rules.watched,
    )


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


def written_rules(model: Model) -> str:
    """Return the rules of a model as they are stored."""
    rules = Rules(
        model.quotas, model.history, model.groups, model.relays, model.weighed, model.watched
    )
    return msgspec.json.encode(rules).decode()
