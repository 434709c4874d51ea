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
    LENGTH_BYTES,
    Failed,
    Message,
    Open,
    Take,
    Taken,
    length,
    packed,
    understood,
    unpacked,
)
from fedbandit.service.merger import Address
from fedbandit.service.merges import Asked

_READ_AHEAD = 2**22


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
        if self._worker is None or not self._worker.done() or self._worker.exception():
            return True
        return await self._worker.result().end(seconds)

    async def _running(self) -> "_Worker":
        known = self._worker
        if known is None or (known.done() and (known.exception() or known.result().ended)):
            self._worker = known = asyncio.create_task(_start(self._url, self.batches))
        return known.result() if known.done() else await asyncio.shield(known)


class _Worker:
    """One process, and what it was asked and has not answered yet."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        batches: Counter[str],
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._asked, self._batches = Asked(), batches
        self._listening = asyncio.create_task(self._listen())

    @property
    def ended(self) -> bool:
        """Whether it can be asked nothing more."""
        return self._listening.done()

    async def take(self, address: Address, arrived: Arrived) -> Answer:
        """Have a sync taken in."""
        number, answer = self._asked.ask()
        where, token = (address.model, address.incarnation, arrived.agent), arrived.token
        self._writer.write(packed(Take(number, *where, arrived.body, token)))
        return await answer

    async def end(self, seconds: float) -> bool:
        """Let it end, and wait for that."""
        finished = await self._asked.finish(seconds)
        self._writer.close()
        if not finished:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        return finished

    async def _listen(self) -> None:
        """Hand out answers until there are no more; then say so to whoever still waits."""
        try:
            while True:
                message = await _read(self._reader)
                if isinstance(message, Taken | Failed):
                    self._batches[message.model] += 1
                    self._asked.settle(understood(message))
        except (asyncio.IncompleteReadError, OSError):
            self._process.kill()
            self._asked.fail(_gone())


async def _start(url: str, batches: Counter[str]) -> _Worker:
    """Start a process, and wait until it can be asked."""
    mine, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "fedbandit.service.merge_worker"]
        process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    reader, writer = await asyncio.open_connection(sock=mine, limit=_READ_AHEAD)
    writer.write(packed(Open(url)))
    try:
        said = await _read(reader)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise _gone() from error
    if isinstance(said, Failed):
        raise StoreError(said.message)
    return _Worker(process, reader, writer, batches)


async def _read(reader: asyncio.StreamReader) -> Message:
    head = await reader.readexactly(LENGTH_BYTES)
    return unpacked(await reader.readexactly(length(head)))


def _gone() -> StoreError:
    fix = "Look at the log and at the memory left; another one is started."
    got, expected = "an end", "one that merges"
    return StoreError(complaint("merging process", got=got, expected=expected, fix=fix))
