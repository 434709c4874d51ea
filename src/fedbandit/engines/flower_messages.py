"""What a server and a node of Flower tell each other, as plain values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from fedbandit.errors import InvalidMessage


@dataclass(frozen=True, slots=True)
class Ask:
    """Server to node: play until an upload is due or the rounds are over.

    ``download`` is everything merged (``wire.encode``). Of the life that this node told last,
    uploads up to number ``merged`` are in it; ``life`` is empty if it told none.
    """

    download: bytes
    life: bytes
    merged: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Node to server: upload ``sequence`` of a ``life`` of an agent (``wire.encode``).

    ``upload`` is empty, and ``sequence`` that of the last one, if there is nothing to send.
    ``over``: no rounds are left. ``rounds``, ``reward`` and ``regret`` are sums over this life.
    """

    agent: int
    life: bytes
    sequence: int
    upload: bytes
    over: bool
    rounds: int
    reward: float
    regret: float


M = TypeVar("M", Ask, Answer)


def record_of(message: Ask | Answer) -> dict[str, Any]:
    """Return the fields by name: whole numbers, floats, truth values and bytes."""
    return asdict(message)


def read(kind: type[M], record: Mapping[str, Any]) -> M:
    """Return the message in a record; raise InvalidMessage if a field is missing or wrong."""
    given: dict[str, Any] = {}
    for each in fields(kind):
        value = record.get(each.name)
        if type(value) is not each.type:
            expected = getattr(each.type, "__name__", each.type)
            message = f"{kind.__name__}.{each.name}: got {value!r:.40}; expected {expected}."
            raise InvalidMessage(f"{message} Use one version of fedbandit on all nodes.")
        given[each.name] = value
    return kind(**given)
