"""The socket between a coordinator and its worker process, and the coordinator's end of it.

A message is its length in eight bytes, then a pickle. Both ends run the same version of this
program, and no other process can write to either. The coordinator sends each sync at once, without
waiting for earlier ones, so that the worker always finds its next batch in the socket; docs/
decisions, 58, has what that is worth.
"""

import asyncio
import logging
import pickle
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from fedbandit.service.merging.sync import WorkerExited, has_merged, settle

_LENGTH = struct.Struct("<Q")
_log = logging.getLogger("fedbandit.service")


def framed(message: object) -> bytes:
    """Return a message as it is sent. An object that occurs in it twice is sent once."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Cuts what arrives into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def received(self, data: bytes) -> Iterator[Any]:
        """Add some bytes; yield the messages that are complete now."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as view:
                message = pickle.loads(view[_LENGTH.size : end])
            del self._buffer[:end]
            yield message


def exited(why: str = "") -> WorkerExited:
    """Return the error of whatever a worker was asked and did not answer."""
    because = f" ({why})" if why else ""
    message = f"The merge worker exited{because}; it is being restarted."
    return WorkerExited(f"{message} If that repeats, look at the log and at the memory left.")


class WorkerLink(asyncio.Protocol):
    """One worker process, and the questions that it has not answered yet.

    ``batches`` counts those that changed a model. ``lost`` is done once the worker has closed its
    end, which it does last of all, or has died.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", batches: Counter[str]) -> None:
        self._process, self._batches = process, batches
        self._loop = asyncio.get_running_loop()
        self._frames, self._numbers = Frames(), count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.Transport
        self._ending = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def ask(self, *question: object) -> "asyncio.Future[Any]":
        """Send a question; return its outcome to come."""
        answer = self._loop.create_future()
        if self.lost.done():
            answer.set_exception(exited())
            return answer
        number = next(self._numbers)
        self._asked[number] = answer
        self._transport.write(framed((number, *question)))
        return answer

    async def end(self, seconds: float) -> bool:
        """Have the worker answer what it was asked, and exit; kill it if that takes longer.

        Returns whether everything was answered, also what a caller no longer waits for.
        """
        self._ending = True
        self._transport.write_eof()
        await asyncio.wait({self.lost}, timeout=seconds)
        finished = self.lost.done()
        await asyncio.to_thread(self._reap, seconds if finished else 0.0)
        self._transport.abort()
        return finished

    def kill(self) -> None:
        """End the worker at once."""
        self._ending = True
        self._process.kill()
        self._transport.abort()
        self._loop.run_in_executor(None, self._process.wait)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to write to. Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Settle the questions that are answered. Called by asyncio."""
        for model, numbers, reply in self._frames.received(data):
            outcomes = reply if isinstance(reply, list) else [reply] * len(numbers)
            if has_merged(outcomes):
                self._batches[model] += 1
            for number, outcome in zip(numbers, outcomes, strict=True):
                settle(self._asked.pop(number), outcome)

    def connection_lost(self, _: Exception | None) -> None:
        """Fail what was not answered. Called by asyncio."""
        self.lost.set_result(None)
        while self._asked:
            settle(self._asked.popitem()[1], exited())
        if not self._ending:
            self._process.kill()
            self._loop.run_in_executor(None, self._report)

    def _reap(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _report(self) -> None:
        code = self._process.wait()
        _log.error("the merge worker exited (%s); another one is started", code)
