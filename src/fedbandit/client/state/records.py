"""What an agent writes into its journal, as typed values and as bytes.

A journal begins with a ``Header`` and a ``Learned``. After them come decisions and their rewards,
and now and then another ``Learned``, which takes the place of everything learned before it; open
decisions go on. Replaying a journal in this order gives the agent that wrote it. A journal that was
written anew has the ids that are settled, how long the agent has run, and the decisions still open,
in place of their history.

Times are seconds that the agent has been running, over all its runs: the largest in a journal is
where the next run goes on counting. Records of versions that wrote no times are read as well.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from fedbandit.core.kernels.linalg import Array

FORMAT = 1


class Header(msgspec.Struct, array_like=True, frozen=True, tag="header"):
    """Whose journal it is: model, agent, the recipe to rebuild, the coordinator's limits."""

    format: int
    model: str
    agent: str
    recipe: str
    params: bytes
    limits: tuple[float, float, int] | None


class Decided(msgspec.Struct, array_like=True, frozen=True, tag="decided"):
    """A decision was made, and waits for its reward; ``active`` unless activation was deferred.

    ``since``: the running time when it began to wait.
    """

    id: str
    arm: bytes
    active: bool
    since: float | None = None


class Activated(msgspec.Struct, array_like=True, frozen=True, tag="activated"):
    """A deferred decision was put into effect, and waits ``since`` then."""

    id: str
    since: float | None = None


class Rewarded(msgspec.Struct, array_like=True, frozen=True, tag="rewarded"):
    """A decision was paid, by its caller or by the default."""

    id: str
    reward: float


class Forgotten(msgspec.Struct, array_like=True, frozen=True, tag="forgotten"):
    """A decision was given up without an observation."""

    id: str


class Settled(msgspec.Struct, array_like=True, frozen=True, tag="settled"):
    """Decisions that were settled before this journal was written anew, the latest last."""

    ids: list[str]


class Ran(msgspec.Struct, array_like=True, frozen=True, tag="ran"):
    """How many seconds the agent had been running by now, over all its runs."""

    seconds: float


class Tensor(msgspec.Struct, array_like=True, frozen=True):
    """An array: its shape and its raw little-endian float64."""

    shape: tuple[int, ...]
    data: bytes


class Learned(msgspec.Struct, array_like=True, frozen=True, tag="learned"):
    """Everything learned and not yet delivered: the core agent's state, and its outbox.

    ``digest`` names the download that the state goes back to; nothing where that is not known.
    """

    life: bytes
    born: int | None
    sequence: int
    in_flight: bytes | None
    waiting: list[bytes]
    agent: dict[str, int | float | str | Tensor]
    digest: str = ""


Record = Header | Decided | Activated | Rewarded | Forgotten | Settled | Ran | Learned

OPENING = re.compile(
    rb"[\x90-\x9f].(?:header|decided|activated|rewarded|forgotten|settled|ran|learned)",
    re.DOTALL,
)
"""How the bytes of a record begin: an array whose first item is the tag."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """Return a record as bytes."""
    return _ENCODER.encode(record)


def decode_all(payloads: list[bytes]) -> Iterator[Record]:
    """Yield the records that these bytes encode; raise msgspec.DecodeError at one that is none."""
    return map(_DECODER.decode, payloads)


def packed(state: Mapping[str, Any]) -> dict[str, int | float | str | Tensor]:
    """Return a state of the core (arrays and scalars) in the form that a record holds."""
    return {key: _plain(value) for key, value in state.items()}


def unpacked(state: Mapping[str, int | float | str | Tensor]) -> dict[str, Any]:
    """Return the state that was packed; raise ValueError where an array is not whole."""
    return {
        key: array_of(value.data).reshape(value.shape) if isinstance(value, Tensor) else value
        for key, value in state.items()
    }


def array_of(data: bytes) -> Array:
    """Return the numbers that ``bytes_of`` made bytes of."""
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
        raise TypeError(f"no form in a journal for {type(value).__name__}")
    return value
