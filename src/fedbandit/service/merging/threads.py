"""Merging in threads of this process: for a coordinator that is part of a program."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.queue import Batch, MergeQueue
from fedbandit.service.merging.sync import (
    Answer,
    ModelRef,
    Outcome,
    SyncRequest,
    has_merged,
    in_time,
    settle,
)
from fedbandit.service.storage.contract import Store

_Promise = asyncio.Future[Answer]


class ThreadMerger:
    """Has threads merge into a store, which belongs to the caller. Fulfils ``SyncMerger``."""

    def __init__(self, store: Store) -> None:
        self.batches: Counter[str] = Counter()
        self._merger, self._queue = StoreMerger(store), MergeQueue[_Promise]()
        self._threads = ThreadPoolExecutor(store.writers, "fedbandit-merge")
        self._merging: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Future[None] | None = None

    async def take(self, ref: ModelRef, request: SyncRequest) -> Answer:
        """Have a thread merge a sync."""
        answer: _Promise = asyncio.get_running_loop().create_future()
        self._queue.put(ref, request, answer)
        self._merge_next()
        return await answer

    async def check(self, seconds: float) -> None:
        """Have a thread write to the store."""
        if self._checking is None or self._checking.done():
            loop = asyncio.get_running_loop()
            self._checking = loop.run_in_executor(self._threads, self._merger.check)
        await in_time(self._checking, seconds)

    async def stop(self, seconds: float) -> bool:
        """Wait for the threads; leave behind those that take longer."""
        end = asyncio.get_running_loop().time() + seconds
        while under_way := {*self._merging, *_pending(self._checking)}:
            left = end - asyncio.get_running_loop().time()
            if not (await asyncio.wait(under_way, timeout=max(left, 0.0)))[0]:
                break
        self._threads.shutdown(wait=not under_way, cancel_futures=True)
        return not under_way

    def _merge_next(self) -> None:
        while (batch := self._queue.next_batch()) is not None:
            merging = asyncio.create_task(self._merge(batch))
            self._merging.add(merging)
            merging.add_done_callback(self._merging.discard)

    async def _merge(self, batch: Batch[_Promise]) -> None:
        try:
            outcomes = await self._outcomes(batch)
        finally:  # also when it is cancelled, at the end of the event loop
            self._queue.merged(batch)
        if has_merged(outcomes):
            self.batches[batch.ref.model] += 1
        for answer, outcome in zip(batch.tickets, outcomes, strict=True):
            settle(answer, outcome)
        self._merge_next()

    async def _outcomes(self, batch: Batch[_Promise]) -> Sequence[Outcome | Exception]:
        loop, merge = asyncio.get_running_loop(), self._merger.merge
        try:
            return await loop.run_in_executor(self._threads, merge, batch.ref, batch.requests)
        except Exception as error:  # goes to every sync of the batch; the next one may succeed
            return [error] * len(batch.requests)


def _pending(checking: "asyncio.Future[None] | None") -> "list[asyncio.Future[None]]":
    return [] if checking is None or checking.done() else [checking]
