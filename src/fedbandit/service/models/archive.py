"""A model in a file: to back it up, to move it to another store, to look at it.

The file holds the recipe, the state, which uploads were merged (so that a copy stays a copy) and
the hashes of the tokens (so that agents need no new ones), and the parts of a model that keeps
those, or the sums of its groups, and what became of it over time, but no snapshots. It carries a
checksum of itself.
"""

from dataclasses import asdict
from hashlib import sha256

import msgspec

from fedbandit.errors import DataError, FedbanditError, complaint
from fedbandit.service.bookkeeping.deduplication import Life, MergedUploads
from fedbandit.service.bookkeeping.history import HOURLY, History, Part, check_history
from fedbandit.service.bookkeeping.progress import Period
from fedbandit.service.bookkeeping.quotas import (
    NO_QUOTAS,
    NOTHING_SPENT,
    Quotas,
    Spent,
    check_quotas,
)
from fedbandit.service.bookkeeping.recipes import current_fingerprint, server_at
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.groups.membership import check_groups
from fedbandit.service.groups.telling import as_told
from fedbandit.service.models.model import new_incarnation, recipe_of
from fedbandit.service.storage.contract import Archive, Model, Relaying
from fedbandit.terms import check_limits, check_name
from fedbandit.wire import Limits, ShadowSums

_MAGIC = b"fedbandit model 7\n"
_OLDER = tuple(f"fedbandit model {number}\n".encode() for number in range(1, 7))
_DIGEST = 32
_APART = ("lives", "shadow")  # fields that are written in a form of their own


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    arm_norm: float
    reward: float
    count: int


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    incarnation: str
    recipe: str
    params: bytes
    fingerprint: str
    limits: _Limits
    version: int
    count: int
    created: float
    quotas: Quotas = NO_QUOTAS
    history: History = HOURLY
    mass: float = 0.0
    snapshot: float = 0.0
    set_back: int = 0
    groups: int = 0
    told: bytes = b""
    relays: int = 0
    weighed: bool = False
    watched: bool = False


class _MergedUploads(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lives: list[tuple[bytes, int, int, int]]
    known: int
    floor: int
    uploads: int
    observations: int
    received: int
    seen: float
    since: float = 0.0
    mass: float = 0.0
    spent: Spent = NOTHING_SPENT
    loose: int = 0
    quarantined: bool = False
    rewards: int = 0
    reward_total: float = 0.0
    held: int = 0
    shadow: ShadowSums | None = None
    place: int | None = None


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    digest: bytes
    name: str
    model: str | None
    agent: str | None
    created: float
    expires: float | None = None
    used: float | None = None
    lifetime: float | None = None
    code: bool = False


class _Archive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: _Model
    state: bytes
    ledgers: dict[str, _MergedUploads]  # the name in files of version 1
    tokens: list[_Token]
    parts: list[Part] = []
    groups: dict[int, bytes] = {}
    relaying: Relaying | None = None
    periods: list[Period] = []


def archive_bytes(archive: Archive) -> bytes:
    """Return the contents of a file."""
    merged = {
        agent: {
            **{
                name: value
                for name, value in msgspec.structs.asdict(each).items()
                if name not in _APART
            },
            **({} if each.shadow is None else {"shadow": each.shadow}),
            "lives": [
                (key, life.born, life.sequence, life.version) for key, life in each.lives.items()
            ],
        }
        for agent, each in archive.merged.items()
    }
    relaying = {} if archive.relaying is None else {"relaying": asdict(archive.relaying)}
    body = msgspec.msgpack.encode(
        {
            "model": asdict(archive.model),
            "state": archive.state,
            "ledgers": merged,
            "tokens": [asdict(token) for token in archive.tokens],
            "parts": [asdict(part) for part in archive.parts],
            "groups": dict(archive.groups),
            **relaying,
            "periods": [asdict(period) for period in archive.periods],
        }
    )
    return _MAGIC + sha256(body).digest() + body


def read_archive(data: bytes, *, name: str | None = None) -> Archive:
    """Return what was written; raise DataError if it is broken.

    Under another name it comes without tokens: a token opens one model. It is another incarnation:
    a coordinator that served this name before must not take it for what it holds.
    """
    body = data[len(_MAGIC) + _DIGEST :]
    if (
        not data.startswith((_MAGIC, *_OLDER))
        or data[len(_MAGIC) : -len(body)] != sha256(body).digest()
    ):
        raise _broken("bytes that are not, or no longer, what export wrote")
    try:
        wired = msgspec.msgpack.decode(body, type=_Archive)
        archive = _archive(wired, name or wired.model.name)
        model, recipe = archive.model, recipe_of(archive.model)
        server = server_at(recipe, archive.state)
        as_told(recipe, server, model.told)
        if (server.version, server.count) != (model.version, model.count):
            raise _broken("a state of another version than the model's")
    except (msgspec.DecodeError, TypeError, FedbanditError) as error:
        raise _broken(str(error)) from error
    return archive


def _archive(wired: _Archive, name: str) -> Archive:
    limits = check_limits(Limits(**msgspec.structs.asdict(wired.model.limits)))
    fresh = {"name": check_name("model", name), "incarnation": new_incarnation()}
    was = wired.model
    mark = current_fingerprint(was.recipe, was.params, was.fingerprint)
    rules = {"quotas": check_quotas(was.quotas), "history": check_history(was.history)}
    check_groups(was.groups, weighed=was.weighed)
    fields = {**msgspec.structs.asdict(was), **fresh, "limits": limits, "fingerprint": mark}
    fields |= rules
    tokens = [_token(each, wired.model.name) for each in wired.tokens]
    return Archive(
        model=Model(**fields),
        state=wired.state,
        merged={agent: _merged(each) for agent, each in wired.ledgers.items()},
        tokens=tokens if name == wired.model.name else [],
        parts=wired.parts,
        groups=wired.groups,
        relaying=wired.relaying,
        periods=wired.periods,
    )


def _token(wired: _Token, model: str) -> Token:
    """Return a token of this model; a file must not bring tokens of others, or of admins."""
    if wired.model != model or wired.agent is None or len(wired.digest) != _DIGEST:
        raise _broken("a token of another model, or of an admin")
    check_name("agent", wired.agent)
    return Token(**msgspec.structs.asdict(wired))


def _merged(wired: _MergedUploads) -> MergedUploads:
    fields = msgspec.structs.asdict(wired)
    return MergedUploads(**{**fields, "lives": {key: Life(*rest) for key, *rest in wired.lives}})


def _broken(got: str) -> DataError:
    fix = "Export the model again."
    return DataError(complaint("model file", got=got, expected="a whole export", fix=fix))
