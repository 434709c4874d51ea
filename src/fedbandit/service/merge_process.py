"""Merging in a process of its own, as ``merge_worker`` does it, seen from the coordinator."""

import asyncio
import socket
import subprocess
import sys
from collections import Counter

from fedbandit.errors import StoreError, complaint
from fedbandit.service.batch import Answer
from fedbandit.service.intake import Arrived
from fedbandit.service.merge_messages import (
    Failed,
    Inbox,
    Message,
    Open,
    Take,
    Taken,
    packed,
    understood,
)
from fedbandit.service.merger import Address
from fedbandit.service.merges import Asked


class ProcessMerges:
    """Has syncs taken in by a process, and starts another one when that has ended by itself."""

    def __init__(self, url: str) -> None:
        self.batches: Counter[str] = Counter()
        self._url = url
        self._worker: asyncio.Task[_Worker] | None = None

    async def start(self) -> None:
        """Start the process, so that the first sync need not wait for it."""
        await self._running()

    async def take(self, address: Address, arrived: Arrived) -> Answer:
        """Have a sync taken in by the other process."""
        worker = await self._running()
        return await worker.take(address, arrived)

    async def stop(self, seconds: float) -> bool:
        """End the process: by itself if it does so in time, else at once."""
        if self._worker is None:
            return True
        if not self._worker.done():  # it has been asked nothing yet
            self._worker.cancel()
        try:
            worker = await self._worker
        except (StoreError, asyncio.CancelledError):
            return True
        return await worker.end(seconds)

    async def _running(self) -> "_Worker":
        known = self._worker
        if known is None or (known.done() and _is_over(known)):
            self._worker = known = asyncio.create_task(_started(self._url, self.batches))
        if known.done():
            return known.result()
        await asyncio.wait({known})  # whoever asks may be gone before it has started
        if known.cancelled():
            raise _gone()
        return known.result()


def _is_over(start: "asyncio.Task[_Worker]") -> bool:
    return start.cancelled() or start.exception() is not None or start.result().ended


class _Worker(asyncio.Protocol):
    """One process, and what it was asked and has not answered yet."""

    def __init__(self, process: "subprocess.Popen[bytes]", batches: Counter[str]) -> None:
        self._process, self._batches = process, batches
        self._asked, self._inbox = Asked(), Inbox()
        self._transport: asyncio.WriteTransport | None = None
        self.first: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand out answers."""
        for message, along in self._inbox.arrived(data):
            if not self.first.done():
                self.first.set_result(message)
            elif isinstance(message, Taken | Failed):
                self._batches[message.model] += 1
                self._asked.settle(understood(message, along))

    def connection_lost(self, _: Exception | None) -> None:
        """Say to whoever still waits that nothing will come."""
        self.ended = True
        self._process.kill()
        asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        if not self.first.done():
            self.first.set_exception(_gone())
        self._asked.fail(_gone())

    def say(self, message: Message, along: bytes = b"") -> None:
        """Send a message."""
        if self._transport is None or self.ended:
            raise _gone()
        self._transport.write(packed(message, along))

    async def take(self, address: Address, arrived: Arrived) -> Answer:
        """Have a sync taken in."""
        number, answer = self._asked.ask()
        model, incarnation = address.model, address.incarnation
        self.say(Take(number, model, incarnation, arrived.agent, arrived.token), arrived.body)
        return await answer

    async def end(self, seconds: float) -> bool:
        """Let it end, and wait for that."""
        finished = await self._asked.finish(seconds)
        if self._transport is not None:
            self._transport.close()
        if not finished:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        return finished


async def _started(url: str, batches: Counter[str]) -> _Worker:
    """Start a process, and wait until it can be asked."""
    mine, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "fedbandit.service.merge_worker"]
        process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    try:
        loop = asyncio.get_running_loop()
        _, worker = await loop.create_connection(lambda: _Worker(process, batches), sock=mine)
        worker.say(Open(url))
        said = await worker.first
    except BaseException:
        process.kill()
        mine.close()
        raise
    if isinstance(said, Failed):
        raise StoreError(said.message)
    return worker


def _gone() -> StoreError:
    fix = "Look at the log and at the memory left; another one is started."
    got, expected = "an end", "one that merges"
    return StoreError(complaint("merging process", got=got, expected=expected, fix=fix))
