"""The envelopes in which messages are sent over HTTP: Sync, Synced and Joined."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fedbandit.core.identity import form_1
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.wire.decoding import FORMAT, WIDTH, check_head, read, refuse
from fedbandit.wire.messages import (
    WiredDownload,
    WiredUpload,
    encode,
    unwired_download,
    unwired_upload,
    written,
)
from fedbandit.wire.shadow import ShadowSums

LIFE_BYTES: Final = 16
"""Length of a life, see ``Sync``."""

LARGEST: Final = 2**63 - 1
"""The largest whole number in an envelope."""

_Life = Annotated[bytes, Meta(min_length=LIFE_BYTES, max_length=LIFE_BYTES)]
_Fingerprint = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
_Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
_Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
_Above0 = Annotated[float, Meta(gt=0.0)]
_Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _MoreSync(msgspec.Struct, frozen=True, omit_defaults=True):
    """``shadow``: how the agent compares with the rule that it shadows, as of this request."""

    shadow: ShadowSums | None = None


class _Sync(msgspec.Struct, array_like=True, frozen=True, tag="sync", forbid_unknown_fields=True):
    format: int
    fingerprint: _Fingerprint
    width: int
    life: _Life
    born: _Natural
    sequence: _Positive
    upload: WiredUpload
    more: _MoreSync | None = None


class _MoreSynced(msgspec.Struct, frozen=True, omit_defaults=True):
    """``set_back``: the version at which something was last taken out of the model, if ever."""

    set_back: _Natural = 0


class _Synced(
    msgspec.Struct, array_like=True, frozen=True, tag="synced", forbid_unknown_fields=True
):
    format: int
    fingerprint: _Fingerprint
    width: int
    merged: bool
    sequence: _Positive
    version: _Natural
    download: WiredDownload
    more: _MoreSynced | None = None


class _Limits(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    arm_norm: _Above0
    reward: _Above0
    count: _Positive


class _MoreJoined(msgspec.Struct, frozen=True, omit_defaults=True):
    """``digest``: of the download that is left out because the agent has it.

    ``set_back``: see ``_MoreSynced``.
    """

    digest: _Digest | None = None
    set_back: _Natural = 0


class _Joined(
    msgspec.Struct, array_like=True, frozen=True, tag="joined", forbid_unknown_fields=True
):
    format: int
    fingerprint: _Fingerprint
    width: int
    recipe: str
    params: bytes
    limits: _Limits
    lives: _Natural
    download: WiredDownload | None
    more: _MoreJoined | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """Agent to coordinator: upload number ``sequence`` (from 1) of one ``life`` of the agent.

    A life is 16 random bytes, drawn when an agent starts without a saved state. ``born`` is the
    ``Joined.lives`` of the life's first join, 0 if it never joined; it never changes, so that the
    coordinator can tell a life that it has forgotten from a new one. ``fingerprint`` identifies the
    recipe (see the function ``fingerprint``). ``format`` is that of the bytes; the answer has the
    same. ``shadow``: how the agent compares with the rule that it shadows, None if it has none.
    """

    fingerprint: str
    life: bytes
    sequence: int
    upload: Upload
    born: int = 0
    format: int = FORMAT
    shadow: ShadowSums | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Synced:
    """Coordinator to agent: the upload is merged and stored; ``download`` is everything merged.

    ``merged`` is False for a copy of an upload that was merged before, which changed nothing.
    ``version`` is the upload's place in the order of merging, from 1; a copy of the life's last
    upload gets the same number again, an older copy 0. The download may be newer. ``digest`` is the
    digest of the download's bytes; "" if this was not decoded from bytes. ``set_back`` is the
    version at which something was last taken out of the model, 0 if never: a relay that knows an
    earlier one has to tell its own agents.
    """

    fingerprint: str
    merged: bool
    sequence: int
    version: int
    download: Download
    digest: str = ""
    format: int = FORMAT
    set_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a model: its coordinator refuses uploads beyond, and its agents check first.

    |x| <= ``arm_norm`` for every arm, |r| <= ``reward`` for every reward, and at most ``count``
    observations in an upload.
    """

    arm_norm: float
    reward: float
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Coordinator to agent: the recipe, its limits, and everything merged so far.

    ``params`` are the recipe's parameters as JSON: ``RECIPES[recipe](**params)`` is the recipe with
    this ``fingerprint``. ``download`` is None if the agent said that it has the current one.
    ``lives`` is the number of lives of this agent that have uploaded something so far. ``digest``
    is that of the download's bytes, in this format, also where it is left out; "" if not known.
    ``set_back`` as in ``Synced``.
    """

    fingerprint: str
    recipe: str
    params: bytes
    limits: Limits
    download: Download | None
    lives: int = 0
    digest: str = ""
    format: int = FORMAT
    set_back: int = 0


def fingerprint(recipe: Recipe, *, format: int = FORMAT) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a recipe's identity.

    Agents and coordinator compare it to make sure that they run the same algorithm. Format 1 had
    another identity, see ``core.identity.form_1``.
    """
    identity = form_1(recipe) if format == 1 else recipe.identity
    return sha256(identity.encode()).hexdigest()[:16]


def fingerprints(recipe: Recipe, *, format: int = FORMAT) -> frozenset[str]:
    """Return every fingerprint under which this recipe may be met: of earlier meanings as well."""
    if format == 1:
        return frozenset([fingerprint(recipe, format=1)])
    said = recipe.identities.values()
    return frozenset(sha256(each.encode()).hexdigest()[:16] for each in said)


def state_path(have: str = "", *, since: int | None = None) -> str:
    """Return the relative URL that an agent gets to join or catch up.

    ``have``: the digest of its last download, which is then not sent again if it is current.
    ``since``: the version of that; nothing is sent unless the model was set back after it.
    """
    asked = "" if since is None else f"&since={since}"
    return f"state?format={FORMAT}" + (f"&have={have}" if have else "") + asked


def digest(download: Download, *, format: int = FORMAT) -> str:
    """Return the SHA-256 of a download's bytes, in 64 hexadecimal digits.

    It tells downloads apart, which their versions do not: a coordinator that was restored from a
    backup uses the same versions again. Receivers hash the bytes that they received, since encoding
    the download again may give other bytes.
    """
    return sha256(encode(download, format=format)).hexdigest()


def encode_sync(sync: Sync, *, upload: bytes | None = None) -> bytes:
    """Return a sync as bytes; ``upload``: ``encode(sync.upload)`` if that exists already."""
    packed = msgspec.Raw(encode(sync.upload, format=sync.format) if upload is None else upload)
    head = (sync.fingerprint, WIDTH, sync.life, sync.born, sync.sequence)
    return written(sync.format, "sync", *head, packed, more=_MoreSync(sync.shadow))


def decode_sync(
    data: bytes,
    *,
    dimension: int | None = None,
    check_sender: Callable[[str, int], None] = lambda _fingerprint, _format: None,
) -> Sync:
    """Return the sync in these bytes; raise InvalidMessage if there is none.

    ``dimension``: of the arms, if it is known. Numbers that are packed in few bits are unpacked
    only if they fit it: they take up to 150 times the bytes of the message. ``check_sender`` is
    called with fingerprint and format before that.
    """
    wired = read(data, "sync", _Sync)
    check_head("", wired.format, wired.more, wired.width)
    _check_inner("upload.", wired.upload.format, wired.format)
    check_sender(wired.fingerprint, wired.format)
    length = wired.upload.moment.shape[0]
    if dimension is not None and length != dimension:
        refuse("upload.moment", f"it has {length} numbers; expected {dimension}")
    upload = unwired_upload(wired.upload, "upload.")
    head = (wired.fingerprint, wired.life, wired.sequence)
    shadow = None if wired.more is None else wired.more.shadow
    return Sync(*head, upload, wired.born, wired.format, shadow)


def encode_synced(answer: Synced) -> bytes:
    """Return an answer as bytes."""
    head = synced_head(
        answer.fingerprint,
        merged=answer.merged,
        sequence=answer.sequence,
        version=answer.version,
        format=answer.format,
    )
    return head + synced_rest(answer.download, format=answer.format, set_back=answer.set_back)


def synced_head(
    fingerprint: str, *, merged: bool, sequence: int, version: int, format: int = FORMAT
) -> bytes:
    """Return the first bytes of a ``Synced``; ``synced_rest``, shared by many agents, follows."""
    head = ("synced", format, fingerprint, WIDTH, merged, sequence, version)
    packed = msgspec.msgpack.encode(head)
    more = 1 if format == 1 else 2  # elements of the array: the download, and the map
    return bytes([packed[0] + more]) + packed[1:]


def synced_rest(
    download: Download, *, format: int = FORMAT, encoded: bytes | None = None, set_back: int = 0
) -> bytes:
    """Return the last bytes of a ``Synced``. ``encoded``: ``encode(download)`` if it exists."""
    body = encode(download, format=format) if encoded is None else encoded
    return body if format == 1 else body + msgspec.msgpack.encode(_MoreSynced(set_back))


def decode_synced(data: bytes) -> Synced:
    """Return the answer in these bytes; raise InvalidMessage if there is none."""
    wired = read(data, "synced", _Synced)
    check_head("", wired.format, wired.more, wired.width)
    _check_inner("download.", wired.download.format, wired.format)
    download = unwired_download(wired.download, "download.")
    head = (wired.fingerprint, wired.merged, wired.sequence, wired.version)
    digest, set_back = _digest_of_download(data, wired.format), _set_back(wired.more)
    return Synced(*head, download, digest, wired.format, set_back)


def encode_joined(joined: Joined, *, download: bytes | None = None) -> bytes:
    """Return the answer to a join as bytes; ``download``: that as bytes, if they are there."""
    packed = None
    if joined.download is not None:
        packed = msgspec.Raw(download or encode(joined.download, format=joined.format))
    limits = (joined.limits.arm_norm, joined.limits.reward, joined.limits.count)
    head = (joined.fingerprint, WIDTH, joined.recipe, joined.params, limits, joined.lives)
    left_out = joined.digest if joined.download is None else ""
    more = _MoreJoined(left_out or None, joined.set_back)
    return written(joined.format, "joined", *head, packed, more=more)


def decode_joined(data: bytes) -> Joined:
    """Return the ``Joined`` in these bytes; raise InvalidMessage if there is none."""
    wired = read(data, "joined", _Joined)
    check_head("", wired.format, wired.more, wired.width)
    given, digest = wired.limits, (wired.more and wired.more.digest) or ""
    if wired.download is not None:
        _check_inner("download.", wired.download.format, wired.format)
        digest = _digest_of_download(data, wired.format)
    return Joined(
        wired.fingerprint,
        wired.recipe,
        wired.params,
        Limits(arm_norm=given.arm_norm, reward=given.reward, count=given.count),
        None if wired.download is None else unwired_download(wired.download, "download."),
        wired.lives,
        digest,
        wired.format,
        _set_back(wired.more),
    )


def _set_back(more: _MoreSynced | _MoreJoined | None) -> int:
    return 0 if more is None else more.set_back


def _check_inner(place: str, inner: int, outer: int) -> None:
    """Raise InvalidMessage unless a message is in the format of its envelope."""
    if inner != outer:
        refuse(f"{place}format", f"this is format {inner}; its envelope is format {outer}")


def _digest_of_download(data: bytes, form: int) -> str:
    """Return the digest of the download's bytes in an envelope: the last field, or the one before.

    From format 2 on a map follows it.
    """
    fields = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    return sha256(fields[-1 if form == 1 else -2]).hexdigest()
