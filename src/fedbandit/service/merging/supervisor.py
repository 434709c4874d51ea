"""The worker process, seen from the coordinator: started, asked, and started again if it exits."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fedbandit.service.merging.link import WorkerLink, exited
from fedbandit.service.merging.sync import Answer, ModelRef, SyncRequest, in_time

_START_SECONDS = 600.0  # a first start compiles, for minutes on a small or busy machine
FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds from one start to the next
_SOCKET_BYTES = 2**20  # room for a batch, so that neither end waits for the other to read


class WorkerMerger:
    """Has a worker process merge. Fulfils ``SyncMerger``.

    A worker that exited is replaced at the next question. Starts become rarer while one worker
    after another exits without having merged anything.
    """

    def __init__(self, url: str) -> None:
        self.batches: Counter[str] = Counter()
        self._url, self._stopped = url, False
        self._worker: asyncio.Task[WorkerLink] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._pause, self._next_start = FIRST_PAUSE, 0.0

    async def take(self, ref: ModelRef, request: SyncRequest) -> Answer:
        """Have the worker merge a sync."""
        worker = await self._running()
        answer: Answer = await worker.ask(ref=ref, request=request)
        self._pause = FIRST_PAUSE
        return answer

    async def check(self, seconds: float) -> None:
        """Have the worker, which is started if none runs, write to the store."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        await in_time(self._checking, seconds)

    async def _check(self) -> None:
        worker = await self._running()
        await worker.ask()

    async def stop(self, seconds: float) -> bool:
        """Let the worker exit; kill it if it takes longer than that, or is just starting."""
        self._stopped = True
        if self._worker is None:
            return True
        self._worker.cancel()  # has no effect on one that has started
        await asyncio.wait({self._worker})
        return _is_over(self._worker) or await self._worker.result().end(seconds)

    async def _running(self) -> WorkerLink:
        worker = self._worker
        if worker is None or (worker.done() and _is_over(worker)):
            self._worker = worker = self._start()
        if not worker.done():
            await asyncio.wait({worker})  # a caller that is cancelled does not cancel the start
        if worker.cancelled():
            raise exited()
        return worker.result()

    def _start(self) -> "asyncio.Task[WorkerLink]":
        now = asyncio.get_running_loop().time()
        if self._stopped or now < self._next_start:
            raise exited()
        self._next_start, self._pause = now + self._pause, min(2.0 * self._pause, _LONGEST_PAUSE)
        return asyncio.create_task(_started(self._url, self.batches))


def _is_over(worker: "asyncio.Task[WorkerLink]") -> bool:
    return worker.cancelled() or worker.exception() is not None or worker.result().lost.done()


async def _started(url: str, batches: Counter[str]) -> WorkerLink:
    """Start a worker and have it open the store; raise StoreError if it cannot, or not in time."""
    try:
        mine, process = _spawned()
    except OSError as error:
        raise exited(str(error)) from error
    loop = asyncio.get_running_loop()
    _, worker = await loop.create_connection(lambda: WorkerLink(process, batches), sock=mine)
    try:
        async with asyncio.timeout(_START_SECONDS):
            await worker.ask(url=url)
    except TimeoutError as error:
        worker.kill()
        raise exited(f"no sign of life for {_START_SECONDS:g} seconds") from error
    except BaseException:
        worker.kill()
        raise
    return worker


def _spawned() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Start a worker; return the socket to it. ``-P``: no module from the working directory."""
    mine, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-m", "fedbandit.service.merging.worker"]
    try:
        with theirs, _signals_blocked():
            for each in (mine, theirs):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    except BaseException:
        mine.close()
        raise
    return mine, process


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM: a process started meanwhile inherits that until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
