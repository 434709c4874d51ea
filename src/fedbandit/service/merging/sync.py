"""One sync on its way: a ``SyncRequest`` comes in, an ``Answer`` or a ``Refusal`` goes out.

``queue`` collects requests, ``batch`` decodes and checks those that wait together, ``commit``
merges them in one transaction. ``worker`` is the process that does the last two for a coordinator,
``supervisor`` starts it and asks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedbandit import wire
from fedbandit.service.refusal import Refusal


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model's name and incarnation."""

    model: str
    incarnation: str


@dataclass(frozen=True, slots=True, eq=False)
class SyncRequest:
    """A sync as it was posted: by which agent, its body, and the digest of its token, if any."""

    agent: str
    body: bytes
    token: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to a sync that was merged, now (``merged``) or before (a copy).

    ``head`` is the agent's own; ``download``, everything merged, is the same bytes for many.
    ``format`` is that of the wire, as the agent asked.
    """

    head: bytes
    download: bytes
    merged: bool
    format: int = wire.FORMAT

    @property
    def body(self) -> bytes:
        """The bytes to answer with."""
        return self.head + self.download


Outcome = Answer | Refusal


class ModelGone(Exception):
    """The model was deleted, and perhaps made anew under its name: nothing was merged."""


class MergeFailed(Exception):
    """Merging failed by a defect in this program. The log has the name of the error."""


class BatchMerger(Protocol):
    """Merges batches: in this process (``batch``) or in another one (``supervisor``).

    Called from threads, at most ``writers`` at once, with batches of different models.
    """

    @property
    def writers(self) -> int:
        """How many batches it can merge at once."""
        ...

    def merge(self, ref: ModelRef, requests: Sequence[SyncRequest]) -> list[Outcome]:
        """Merge a batch durably and return the outcome of each sync.

        Raises ModelGone; LocalError if the store failed, and then both are possible: all of it was
        merged, or nothing.
        """
        ...

    def check(self) -> None:
        """Raise StoreError unless a batch could be merged now."""
        ...

    def close(self, seconds: float) -> None:
        """Release what it holds; wait that long for what is under way."""
        ...
