"""The records of an agent's journal, as typed values and as bytes.

A journal begins with a ``Header`` and a ``Learned``. After them come decisions and their rewards,
and now and then another ``Learned``, which replaces everything learned before it; decisions stay
open. Replaying the records in order gives the agent that wrote them. A rewritten journal has the
settled ids, the running time and the open decisions in place of their history.

Times are seconds that the agent has been running, over all its runs: the largest in a journal is
where the next run goes on counting.

Journals of every format from 1 to ``FORMAT`` stay readable. Tags and the order of fields never
change; a new field comes last and has a default, which is what older records are read with (those
of the first versions have no times and no digest). Raise ``FORMAT`` for records that an older
version would misread.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from fedbandit.core.kernels.linalg import Array

FORMAT = 2
"""Format 1 had uploads in format 1 of the wire, and recipes identified by all their parameters."""


class Header(msgspec.Struct, array_like=True, frozen=True, tag="header"):
    """The model and agent that the journal belongs to, the recipe, the coordinator's limits.

    ``meaning`` is the version of what the recipe's name means, see ``core.identity``. ``chance`` is
    what the agent's draws follow from, besides the recipe's seed and the number of the decision; 0
    in journals from before there were draws.
    """

    format: int
    model: str
    agent: str
    recipe: str
    params: bytes
    limits: tuple[float, float, int] | None
    meaning: int = 1
    chance: int = 0


class Decided(msgspec.Struct, array_like=True, frozen=True, tag="decided"):
    """A decision was made; ``active`` unless deferred. It waits since this running time.

    ``number``: of the decision, over all runs; 0 in a rewritten journal, where ``Ran`` has it.
    """

    id: str
    arm: bytes
    active: bool
    since: float | None = None
    number: int = 0


class Activated(msgspec.Struct, array_like=True, frozen=True, tag="activated"):
    """A deferred decision was put into effect; it waits since this running time."""

    id: str
    since: float | None = None


class Rewarded(msgspec.Struct, array_like=True, frozen=True, tag="rewarded"):
    """A decision got its reward, from the caller or by default."""

    id: str
    reward: float


class DecisionForgotten(msgspec.Struct, array_like=True, frozen=True, tag="forgotten"):
    """A decision was given up without an observation."""

    id: str


class Settled(msgspec.Struct, array_like=True, frozen=True, tag="settled"):
    """The latest ids that were settled before this journal was rewritten, the last one last."""

    ids: list[str]


class Ran(msgspec.Struct, array_like=True, frozen=True, tag="ran"):
    """The running time when this was written, and the number of the latest decision."""

    seconds: float
    number: int = 0


class Tensor(msgspec.Struct, array_like=True, frozen=True):
    """An array: its shape and its numbers as little-endian float64."""

    shape: tuple[int, ...]
    data: bytes


class Learned(msgspec.Struct, array_like=True, frozen=True, tag="learned"):
    """Everything learned: the core agent's state, and the uploads not yet delivered.

    ``digest`` names the download that the agent last received; empty if unknown. ``taught``: the
    digests of past observations that it was given to learn from.
    """

    life: bytes
    born: int | None
    sequence: int
    in_flight: bytes | None
    waiting: list[bytes]
    agent: dict[str, int | float | str | Tensor]
    digest: str = ""
    taught: tuple[str, ...] = ()


Record = Header | Decided | Activated | Rewarded | DecisionForgotten | Settled | Ran | Learned

OPENING = re.compile(
    rb"[\x90-\x9f].(?:header|decided|activated|rewarded|forgotten|settled|ran|learned)",
    re.DOTALL,
)
"""Matches the first bytes of a record: an array whose first item is the tag."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """Return a record as bytes."""
    return _ENCODER.encode(record)


def decode_all(payloads: list[bytes]) -> Iterator[Record]:
    """Yield the records that these bytes encode; raise msgspec.DecodeError for others."""
    return map(_DECODER.decode, payloads)


def packed(state: Mapping[str, Any]) -> dict[str, int | float | str | Tensor]:
    """Return a state of the core agent, arrays and scalars, as a record holds it."""
    return {key: _plain(value) for key, value in state.items()}


def unpacked(state: Mapping[str, int | float | str | Tensor]) -> dict[str, Any]:
    """Return the state that was packed; raise ValueError for an array of another size."""
    return {
        key: array_of(value.data).reshape(value.shape) if isinstance(value, Tensor) else value
        for key, value in state.items()
    }


def array_of(data: bytes) -> Array:
    """Return the array whose bytes ``bytes_of`` returned, flat."""
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


def bytes_of(array: Array) -> bytes:
    """Return an array's numbers as little-endian float64."""
    return array.astype("<f8", copy=False).tobytes()


def _plain(value: Any) -> int | float | str | Tensor:
    if isinstance(value, np.ndarray):
        return Tensor(value.shape, bytes_of(value))
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float | str):
        raise TypeError(f"a journal cannot hold a {type(value).__name__}")
    return value
