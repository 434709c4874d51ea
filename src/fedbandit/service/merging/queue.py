"""The queue before each model: what arrives while a batch is being merged makes up the next one."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fedbandit.errors import StoreError
from fedbandit.service.merging.sync import Answer, BatchMerger, ModelRef, Outcome, SyncRequest

BATCH: Final = 64  # uploads merged in one transaction, at most
BATCH_BYTES: Final = 2**23  # a batch of this size takes no more

_Waiting = tuple[SyncRequest, "asyncio.Future[Answer]"]


class NotInTime(StoreError):
    """No answer in time to whether a batch could be merged; merging may just take long."""


class MergeQueue:
    """Queues the syncs of all models; has a thread merge one batch of a model at a time.

    Used from the event loop's thread alone. ``batches`` counts those that changed a model.
    """

    def __init__(self, merger: BatchMerger) -> None:
        self.batches: Counter[str] = Counter()
        self._merger = merger
        self._threads = ThreadPoolExecutor(merger.writers, "fedbandit-merge")
        self._waiting: dict[ModelRef, deque[_Waiting]] = {}
        self._merging: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Future[None] | None = None

    async def take(self, ref: ModelRef, request: SyncRequest) -> Answer:
        """Return the answer to a sync once it is durable.

        Raises Refusal, and what ``BatchMerger.merge`` raises.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if ref in self._waiting:
            self._waiting[ref].append((request, answer))
        else:
            self._waiting[ref] = deque([(request, answer)])
            merging = asyncio.create_task(self._merge(ref))
            self._merging.add(merging)
            merging.add_done_callback(self._merging.discard)
        return await answer

    async def check(self, seconds: float) -> None:
        """Raise StoreError unless a batch could be merged now, NotInTime if that stays unknown.

        Checks that are asked for while one is under way share its outcome.
        """
        if self._checking is None or self._checking.done():
            loop = asyncio.get_running_loop()
            self._checking = loop.run_in_executor(self._threads, self._merger.check)
        await asyncio.wait({self._checking}, timeout=seconds)
        if not self._checking.done():
            message = f"Merging gave no answer for {seconds:g} seconds."
            raise NotInTime(f"{message} See whether the store is locked or much is being merged.")
        self._checking.result()

    async def stop(self, seconds: float) -> bool:
        """Merge what was queued, but wait no longer than that; return whether all is merged."""
        under_way = {*self._merging, *([self._checking] if self._checking else [])}
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)
        finished = all(each.done() for each in under_way)
        await asyncio.to_thread(self._merger.close, seconds if finished else 0.0)
        self._threads.shutdown(wait=finished, cancel_futures=True)
        return finished

    async def _merge(self, ref: ModelRef) -> None:
        """Merge batch after batch until no sync of this model waits."""
        waiting = self._waiting[ref]
        try:
            while waiting:
                requests, answers = zip(*_next_batch(waiting), strict=True)
                outcomes = await self._outcomes(ref, requests)
                merged = (isinstance(each, Answer) and each.merged for each in outcomes)
                self.batches[ref.model] += any(merged)
                for answer, outcome in zip(answers, outcomes, strict=True):
                    _settle(answer, outcome)
        finally:  # also when it is cancelled, at the end of the event loop
            del self._waiting[ref]

    async def _outcomes(
        self, ref: ModelRef, requests: Sequence[SyncRequest]
    ) -> Sequence[Outcome | Exception]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._merger.merge, ref, requests)
        except Exception as error:  # goes to every sync of the batch; the next one may succeed
            return [error] * len(requests)


def _next_batch(waiting: deque[_Waiting]) -> Iterator[_Waiting]:
    """Take from the queue what makes up a batch: one sync at least."""
    number, size = 0, 0
    while waiting and number < BATCH and size < BATCH_BYTES:
        request, answer = waiting.popleft()
        yield request, answer
        number, size = number + 1, size + len(request.body)


def _settle(answer: "asyncio.Future[Answer]", outcome: Outcome | Exception) -> None:
    if answer.done():  # cancelled: the connection was closed
        return
    if isinstance(outcome, Answer):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)
