"""One sync on its way: a ``SyncRequest`` comes in, an ``Answer`` or a ``Refusal`` goes out.

A ``SyncMerger`` takes it: ``threads`` in this process, or ``supervisor``, which starts a process of
its own (``worker``) and sends it there (``link``). Either way ``queue`` collects what waits,
``batch`` decodes and checks what waits together, and ``commit`` merges it in one transaction.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from fedbandit import wire
from fedbandit.errors import StoreError
from fedbandit.service.refusal import Refusal


class ModelRef(msgspec.Struct, frozen=True, array_like=True):
    """A model's name and incarnation."""

    model: str
    incarnation: str


class SyncRequest(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """A sync as it was posted: by which agent, its body, and the digest of its token, if any."""

    agent: str
    body: bytes
    token: bytes | None = None


class Answer(msgspec.Struct, frozen=True, eq=False):
    """The answer to a sync that was merged, now (``merged``) or before (a copy).

    ``head`` is the agent's own; ``download``, everything merged, is the same bytes for many.
    ``format`` is that of the wire, as the agent asked. ``cut``: whether the upload's correction was
    cut (``Statistics.cut``). ``due``: at a relay, whether what waits for upstream has to
    be sent now. ``quarantined``: a copy, of an agent of which nothing more is merged.
    """

    head: bytes
    download: bytes
    merged: bool
    format: int = wire.FORMAT
    cut: bool = False
    due: bool = False
    quarantined: bool = False

    @property
    def body(self) -> bytes:
        """The bytes to answer with."""
        return self.head + self.download


Outcome = Answer | Refusal


class ModelGone(Exception):
    """The model was deleted, and perhaps made anew under its name: nothing was merged."""


class MergeFailed(Exception):
    """Merging failed by a defect in this program. The log has the name of the error."""


class WorkerExited(StoreError):
    """The process that merges ended before it answered; another one is started."""


class NotInTime(StoreError):
    """No answer in time to whether a batch could be merged; merging may just take long."""


class SyncMerger(Protocol):
    """Has the syncs of all models merged. Used from the event loop's thread alone."""

    @property
    def batches(self) -> Counter[str]:
        """How many batches have changed a model, by its name."""
        ...

    async def take(self, ref: ModelRef, request: SyncRequest) -> Answer:
        """Return the answer to a sync once it is durable.

        Raises Refusal; ModelGone; LocalError if the store or the worker failed, and then both are
        possible: it was merged, or not.
        """
        ...

    async def check(self, seconds: float) -> None:
        """Raise StoreError unless a batch could be merged now, NotInTime if that stays unknown.

        Checks that are asked for while one is under way share its outcome.
        """
        ...

    async def stop(self, seconds: float) -> bool:
        """Merge what was taken, but wait no longer than that; return whether all is merged."""
        ...


async def in_time(checking: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait for a check, and raise what it raises; raise NotInTime if it takes longer."""
    # a check that fails after its callers are gone is no fault to warn of
    checking.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait({checking}, timeout=seconds)
    if not checking.done():
        message = f"Merging gave no answer for {seconds:g} seconds."
        raise NotInTime(f"{message} See whether the store is locked or much is being merged.")
    checking.result()


def settle(answer: "asyncio.Future[Any]", outcome: object) -> None:
    """Give a future its result or, if the outcome is an exception, let it raise that."""
    if answer.done():  # cancelled: the connection was closed
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def has_merged(outcomes: Iterable[object]) -> bool:
    """Say whether a batch has changed the model: not if all were copies, or refused."""
    return any(isinstance(each, Answer) and each.merged for each in outcomes)
