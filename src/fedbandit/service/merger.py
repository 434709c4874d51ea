"""The queue before a model: what arrives while a batch is being merged makes up the next one."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from fedbandit.service.batch import Answer, Outcome, Posted

Commit = Callable[[Sequence[Posted]], Sequence[Outcome]]
Waiting = tuple[Posted, "asyncio.Future[Answer]"]


class Merger:
    """Hands batches to a worker thread, one at a time, in order of arrival, and notes each."""

    def __init__(
        self, commit: Commit, pool: Executor, *, batch: int, note: Callable[[], None]
    ) -> None:
        self._commit, self._pool, self._batch, self._note = commit, pool, batch, note
        self._waiting: deque[Waiting] = deque()
        self._idle: asyncio.Future[None] | None = None  # while busy: done when nothing waits
        self._stopped = False

    async def merge(self, posted: Posted) -> Answer:
        """Return the answer to a sync once it is durable; raise what went wrong with it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((posted, answer))
        if self._idle is None:
            self._idle = loop.create_future()
            loop.call_soon(self._begin, loop)
        return await answer

    async def finish(self, seconds: float) -> bool:
        """Wait until nothing waits, but no longer than that; say whether it came to that."""
        if self._idle is None:
            return True
        done, _ = await asyncio.wait({self._idle}, timeout=seconds)
        self._stopped = True
        return bool(done)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a batch of what waits; where nothing does, be idle."""
        taken = self._next()
        if self._idle is not None and not taken:
            self._idle.set_result(None)
            self._idle = None
        elif not self._stopped:
            work = self._pool.submit(self._commit, [posted for posted, _ in taken])
            work.add_done_callback(lambda done: self._hand_back(loop, taken, done))

    def _next(self) -> list[Waiting]:
        """Take the next batch, without those whose senders are gone: they will ask again."""
        taken: list[Waiting] = []
        while self._waiting and len(taken) < self._batch:
            posted, answer = self._waiting.popleft()
            if not answer.done():
                taken.append((posted, answer))
        return taken

    def _hand_back(
        self,
        loop: asyncio.AbstractEventLoop,
        taken: list[Waiting],
        work: "Future[Sequence[Outcome]]",
    ) -> None:
        """Tell the event loop, from the worker's thread, if it still runs."""
        if not loop.is_closed() and not work.cancelled():
            loop.call_soon_threadsafe(self._answer, loop, taken, work)

    def _answer(
        self,
        loop: asyncio.AbstractEventLoop,
        taken: list[Waiting],
        work: "Future[Sequence[Outcome]]",
    ) -> None:
        self._note()
        failure = work.exception()
        outcomes = [failure] * len(taken) if failure else work.result()
        for (_, answer), outcome in zip(taken, outcomes, strict=True):
            _settle(answer, outcome)
        loop.call_soon(self._begin, loop)


def _settle(answer: asyncio.Future[Answer], outcome: Outcome | BaseException | None) -> None:
    if answer.done():  # whoever asked is gone
        return
    if isinstance(outcome, Answer):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome or asyncio.InvalidStateError())
