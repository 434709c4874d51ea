"""The socket between a coordinator and its worker process, and the coordinator's end of it.

A message is its length in eight bytes, then its content: MessagePack of a question, a pickle of a
reply, which may be an exception. Both ends run the same version of this program, and no other
process can write to either. The coordinator sends each sync at once, without waiting for earlier
ones, so that the worker always finds its next batch in the socket; docs/decisions, 58, has what
that is worth.
"""

import asyncio
import logging
import pickle
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

import msgspec

from fedbandit.service.merging.sync import (
    ModelRef,
    SyncRequest,
    WorkerExited,
    has_merged,
    settle,
)

T = TypeVar("T")
_LENGTH = struct.Struct("<Q")
_ENCODER = msgspec.msgpack.Encoder()
_log = logging.getLogger("fedbandit.service")


class Question(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """Asks a worker to open the store at ``url``, or to merge a sync; else to write to the store.

    Its reply comes with the same ``number``.
    """

    number: int
    url: str | None = None
    ref: ModelRef | None = None
    request: SyncRequest | None = None


def framed_reply(message: object) -> bytes:
    """Return a reply as it is sent. An object that occurs in it twice is sent once."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


def framed_question(question: Question) -> bytearray:
    """Return a question as it is sent."""
    written = bytearray(_LENGTH.size)
    _ENCODER.encode_into(question, written, _LENGTH.size)
    _LENGTH.pack_into(written, 0, len(written) - _LENGTH.size)
    return written


class Frames(Generic[T]):
    """Cuts what arrives into messages, each as ``read`` reads its content."""

    def __init__(self, read: Callable[[memoryview], T]) -> None:
        self._read, self._rest = read, bytearray()

    def received(self, data: bytes) -> list[T]:
        """Add some bytes; return the messages that are complete now."""
        if self._rest:
            self._rest += data
        messages, start = [], 0
        with memoryview(self._rest or data) as view:
            while len(view) >= start + _LENGTH.size:
                end = start + _LENGTH.size + _LENGTH.unpack_from(view, start)[0]
                if len(view) < end:
                    break
                messages.append(self._read(view[start + _LENGTH.size : end]))
                start = end
            rest = self._rest if self._rest and not start else bytearray(view[start:])
        self._rest = rest
        return messages


def questions() -> Frames[Question]:
    """Return what cuts and reads questions."""
    return Frames(msgspec.msgpack.Decoder(Question).decode)


def replies() -> Frames[Any]:
    """Return what cuts and reads replies."""
    return Frames(pickle.loads)


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
        self._replies, self._numbers = replies(), count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.Transport
        self._ending = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def ask(
        self,
        *,
        url: str | None = None,
        ref: ModelRef | None = None,
        request: SyncRequest | None = None,
    ) -> "asyncio.Future[Any]":
        """Send a question; return its outcome to come."""
        answer = self._loop.create_future()
        if self.lost.done():
            answer.set_exception(exited())
            return answer
        number = next(self._numbers)
        self._asked[number] = answer
        self._transport.write(framed_question(Question(number, url, ref, request)))
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
        for model, numbers, reply in self._replies.received(data):
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
