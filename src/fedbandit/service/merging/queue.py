"""The queue before each model: what arrives while a batch is being merged makes up the next one."""

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, TypeVar

from fedbandit.service.merging.sync import ModelRef, SyncRequest

BATCH: Final = 64  # uploads merged in one transaction, at most
BATCH_BYTES: Final = 2**23  # a batch of this size takes no more

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[T]):
    """Syncs of one model that are merged together, and for each what it was queued with."""

    ref: ModelRef
    requests: list[SyncRequest]
    tickets: list[T]


class MergeQueue(Generic[T]):
    """Syncs that wait, by model. Any thread may use it.

    A sync is queued with a ticket, which says where the outcome goes once its batch is merged.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[ModelRef, deque[tuple[SyncRequest, T]]] = {}
        self._merging: set[ModelRef] = set()

    def put(self, ref: ModelRef, request: SyncRequest, ticket: T) -> None:
        """Queue a sync."""
        with self._lock:
            self._waiting.setdefault(ref, deque()).append((request, ticket))

    def next_batch(self) -> Batch[T] | None:
        """Take the next batch, of a model of which none is being merged; None if there is none.

        The next one of this model is there to be taken after ``merged``.
        """
        with self._lock:
            ref = next((each for each in self._waiting if each not in self._merging), None)
            if ref is None:
                return None
            self._merging.add(ref)
            waiting = self._waiting.pop(ref)
            batch: Batch[T] = Batch(ref, [], [])
            size = 0
            while waiting and len(batch.requests) < BATCH and size < BATCH_BYTES:
                request, ticket = waiting.popleft()
                batch.requests.append(request)
                batch.tickets.append(ticket)
                size += len(request.body)
            if waiting:
                self._waiting[ref] = waiting  # behind those of other models
            return batch

    def merged(self, batch: Batch[T]) -> None:
        """Let the next batch of this model be taken."""
        with self._lock:
            self._merging.discard(batch.ref)
