"""The queue before a model: what arrives while a batch is being merged makes up the next one."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from fedbandit.service.batch import Answer, Outcome, Posted

Commit = Callable[[Sequence[Posted]], Sequence[Outcome]]


class Merger:
    """Hands batches to a worker thread, one at a time, in order of arrival, and notes each."""

    def __init__(
        self, commit: Commit, pool: Executor, *, batch: int, note: Callable[[], None]
    ) -> None:
        self._commit, self._pool, self._batch, self._note = commit, pool, batch, note
        self._waiting: deque[tuple[Posted, asyncio.Future[Answer]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def merge(self, posted: Posted) -> Answer:
        """Return the answer to a sync once it is durable; raise what went wrong with it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((posted, answer))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await answer

    async def finish(self, seconds: float) -> bool:
        """Wait until nothing waits, but no longer than that; say whether it came to that."""
        if self._task is None:
            return True
        done, late = await asyncio.wait({self._task}, timeout=seconds)
        for task in late:
            task.cancel()
        return bool(done)

    def _next(self) -> list[tuple[Posted, asyncio.Future[Answer]]]:
        """Take the next batch, without those whose senders are gone: they will ask again."""
        taken: list[tuple[Posted, asyncio.Future[Answer]]] = []
        while self._waiting and len(taken) < self._batch:
            posted, answer = self._waiting.popleft()
            if not answer.done():
                taken.append((posted, answer))
        return taken

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while taken := self._next():
            posted = [each for each, _ in taken]
            work = loop.run_in_executor(self._pool, self._commit, posted)
            await asyncio.wait({work})
            self._note()
            failure = work.exception()
            outcomes = [failure] * len(taken) if failure else work.result()
            for (_, answer), outcome in zip(taken, outcomes, strict=True):
                _settle(answer, outcome)


def _settle(answer: asyncio.Future[Answer], outcome: Outcome | BaseException | None) -> None:
    if answer.done():  # whoever asked is gone
        return
    if isinstance(outcome, Answer):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome or asyncio.InvalidStateError())
