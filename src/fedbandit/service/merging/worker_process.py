"""Merging in a process of its own, as ``merge_worker`` does it, seen from the coordinator."""

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fedbandit.errors import StoreError, complaint
from fedbandit.service.merging.commit import Answer
from fedbandit.service.merging.intake import Arrived
from fedbandit.service.merging.merges import Asked, has_merged, looked
from fedbandit.service.merging.queue import ModelRef
from fedbandit.service.merging.worker_messages import (
    Check,
    Checked,
    Failed,
    Inbox,
    Message,
    Open,
    Take,
    Taken,
    packed,
    understood,
)

_START_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two starts
_log = logging.getLogger("fedbandit.service")


class ProcessMerges:
    """Has syncs taken in by a process, and starts another one when that has ended by itself.

    Where one after another ends without having merged anything, starts become rarer.
    """

    def __init__(self, url: str) -> None:
        self.batches: Counter[str] = Counter()
        self._url = url
        self._worker: asyncio.Task[_Worker] | None = None
        self._pause, self._next_start, self._merged = _FIRST_PAUSE, 0.0, 0

    async def take(self, ref: ModelRef, arrived: Arrived) -> Answer:
        """Have a sync taken in by the other process."""
        worker = await self._running()
        return await worker.take(ref, arrived)

    async def check(self, seconds: float) -> None:
        """Have the process, which is started if none runs, write to the store."""
        worker = await self._running()
        await worker.check(seconds)

    async def stop(self, seconds: float) -> bool:
        """End the process: by itself if it does so in time, else at once."""
        if self._worker is None:
            return True
        if not self._worker.done():  # it has been asked nothing yet
            self._worker.cancel()
        await asyncio.wait({self._worker})
        return _is_over(self._worker) or await self._worker.result().end(seconds)

    async def _running(self) -> "_Worker":
        known = self._worker
        if known is None or (known.done() and _is_over(known)):
            self._worker = known = self._begin()
        if not known.done():
            await asyncio.wait({known})  # whoever asks may be gone before it has started
        if known.cancelled():
            raise _gone()
        return known.result()

    def _begin(self) -> "asyncio.Task[_Worker]":
        now, merged = asyncio.get_running_loop().time(), self.batches.total()
        if now < self._next_start:
            raise _gone()
        self._pause = _FIRST_PAUSE if merged > self._merged else self._pause
        self._next_start, self._merged = now + self._pause, merged
        self._pause = min(2.0 * self._pause, _LONGEST_PAUSE)
        return asyncio.create_task(_started(self._url, self.batches))


def _is_over(start: "asyncio.Task[_Worker]") -> bool:
    return start.cancelled() or start.exception() is not None or start.result().ended


class _Worker(asyncio.Protocol):
    """One process, and what it was asked and has not answered yet."""

    def __init__(self, process: "subprocess.Popen[bytes]", batches: Counter[str]) -> None:
        self._process, self._batches = process, batches
        self._asked, self._inbox = Asked(), Inbox()
        self._transport: asyncio.Transport | None = None
        self._checking: asyncio.Future[str] | None = None
        self.first: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.ended, self._ending = False, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand out answers."""
        for message, along in self._inbox.arrived(data):
            if not self.first.done():
                self.first.set_result(message)
            elif isinstance(message, Checked):
                self._checked(message.trouble)
            elif isinstance(message, Taken | Failed):
                merged = understood(message, along)
                self._batches[message.model] += has_merged(merged)
                self._asked.settle(merged)

    def connection_lost(self, _: Exception | None) -> None:
        """Say to whoever still waits that nothing will come."""
        self.ended = True
        if not self.first.done():
            self.first.set_exception(_gone())
        self._asked.fail(_gone())
        self._checked(str(_gone()))
        if not self._ending:
            self._process.kill()
            asyncio.get_running_loop().run_in_executor(None, self._bury)

    async def take(self, ref: ModelRef, arrived: Arrived) -> Answer:
        """Have a sync taken in."""
        if self.ended:
            raise _gone()
        number, answer = self._asked.ask()
        model, incarnation = ref.model, ref.incarnation
        self.say(Take(number, model, incarnation, arrived.agent, arrived.token), arrived.body)
        return await answer

    async def check(self, seconds: float) -> None:
        """Raise StoreError unless it says in time that the store can be written.

        Those who ask while it looks share its answer.
        """
        if self.ended:
            raise _gone()
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_future()
            self.say(Check())
        await looked(self._checking, seconds)

    def _checked(self, trouble: str) -> None:
        if self._checking is not None:
            self._checking.set_result(trouble)
            self._checking = None

    def say(self, message: Message, along: bytes = b"") -> None:
        """Send a message; where that cannot be, whoever waits is told when that is noticed."""
        if self._transport is not None:
            self._transport.write(packed(message, along))

    async def end(self, seconds: float) -> bool:
        """Let it end; if it does not in time, end it. Say whether all were answered."""
        finished, self._ending = await self._asked.finish(seconds), True
        if self._transport is not None:
            (self._transport.close if finished else self._transport.abort)()
        await asyncio.to_thread(self._wait, seconds if finished else 0.0)
        if self._transport is not None:
            self._transport.abort()
        return finished

    def kill(self) -> None:
        """End it at once, before it was asked anything."""
        self._ending = True
        self._process.kill()
        asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        if self._transport is not None:
            self._transport.abort()

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _bury(self) -> None:
        code = self._process.wait()
        _log.error("the merging process ended (%s); another one is started", code)


async def _started(url: str, batches: Counter[str]) -> _Worker:
    """Start a process, and wait until it can be asked."""
    try:
        mine, process = _spawned()
    except OSError as error:
        raise _gone(str(error)) from error
    loop = asyncio.get_running_loop()
    _, worker = await loop.create_connection(lambda: _Worker(process, batches), sock=mine)
    try:
        worker.say(Open(url.encode("utf-8", "surrogateescape")))
        async with asyncio.timeout(_START_SECONDS):
            said = await worker.first
        if isinstance(said, Failed):
            raise StoreError(said.message)
    except TimeoutError as error:
        worker.kill()
        raise _gone(f"no sign of life for {_START_SECONDS:g} seconds") from error
    except BaseException:
        worker.kill()
        raise
    return worker


def _spawned() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Start a process; return it, and the socket to talk to it by.

    ``-P``: what lies in the working directory is none of our modules.
    """
    mine, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-m", "fedbandit.service.merging.worker"]
    try:
        with theirs, _signals_held():
            process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    except BaseException:
        mine.close()
        raise
    return mine, process


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back signals to stop: a process that is started meanwhile does so until it can cope."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _gone(why: str = "an end") -> StoreError:
    fix = "Look at the log and the memory left; another one is started."
    return StoreError(complaint("merging process", got=why, expected="one that merges", fix=fix))
