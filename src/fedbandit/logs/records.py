"""The records of a log: one JSON object a line, told apart by ``kind``.

::

    {"kind":"log","format":1,"model":"shop","agent":"till-3","recipe":"FSCLB","params":{...}}
    {"kind":"decision","id":"7f-1","time":1763280000.1,"version":12,"chosen":1,"probability":0.93,
     "arms":[[0.1,0.2],[0.3,0.4]]}
    {"kind":"reward","id":"7f-1","time":1763280031.5,"reward":1.0}
    {"kind":"activated","id":"7f-2","time":1763280040.0}

A file begins with a ``log`` record, and each start of a writer adds one. A decision has its
``arms`` (K lists of d numbers), or the ``context`` and the ``actions`` (objects with ``id`` and
``features``) that they were made of. ``probability`` is that with which the ``chosen`` one was
taken. Fields at their default are left out, and fields that a reader does not know are ignored: a
newer version may add some.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

FORMAT: Final = 1


class Opened(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="log"
):
    """Who writes from here on. ``encoding``: how features became arms, if ``params`` do not say."""

    format: int
    time: float = 0.0
    model: str = ""
    agent: str = ""
    recipe: str = ""
    params: Mapping[str, Any] = {}
    encoding: Any = None


class LoggedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action to choose from, by its features."""

    id: str = ""
    features: Any = None


class Decided(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="decision"
):
    """A decision. ``chosen``: the row of ``arms``, or of ``actions``, that was played.

    ``deferred``: it was not put into effect yet; an ``activated`` record says when. ``own``: in
    shadow mode another program has chosen, and these are the probabilities (K) with which the agent
    itself would have taken each. ``means`` (K): the rewards that the agent expected then.
    """

    id: str
    chosen: int
    probability: float
    time: float = 0.0
    version: int = 0
    agent: str = ""
    arms: list[list[float]] | None = None
    context: Any = None
    actions: list[LoggedAction] | None = None
    deferred: bool = False
    own: list[float] | None = None
    means: list[float] | None = None


class Rewarded(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="reward"
):
    """A decision's reward. ``default``: none came in time, and this was assumed."""

    id: str
    reward: float
    time: float = 0.0
    default: bool = False


class Activated(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="activated"
):
    """A deferred decision was put into effect."""

    id: str
    time: float = 0.0


Record = Opened | Decided | Rewarded | Activated

_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: value.tolist())
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def line_of(record: Record) -> bytes:
    """Return a record as one line, its end included."""
    return _ENCODER.encode(record) + b"\n"


def record_in(line: bytes) -> Record:
    """Return the record in a line; raise msgspec.DecodeError (or a subclass) if there is none."""
    return _DECODER.decode(line)
