"""The process that merges for a coordinator: ``python -m fedbandit.service.merging.worker``.

Merging is arithmetic and waiting for the disk. In threads of the coordinator's own process both
would compete with the event loop for the interpreter's lock.

It talks over the socket that is its standard input, is told the store's URL first, and exits once
the coordinator has closed its end and what came before that is answered. It ignores SIGINT and
SIGTERM, which a terminal or a service manager sends to both processes: the coordinator decides when
it ends.
"""

import ctypes
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any

from threadpoolctl import threadpool_limits

from fedbandit.errors import LocalError, StoreError
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.link import Question, framed_reply, questions
from fedbandit.service.merging.precompile import precompile
from fedbandit.service.merging.queue import Batch, MergeQueue
from fedbandit.service.merging.sync import MergeFailed, ModelGone, ModelRef, Outcome, SyncRequest
from fedbandit.service.storage.opening import open_store

Reply = list[Outcome] | Exception | None
_CHECK = ModelRef("", ""), SyncRequest("", b"")  # what a check of the store is queued as
_READ_AHEAD = 2**20
_PR_SET_PDEATHSIG = 1
_log = logging.getLogger("fedbandit.service")


def main() -> None:
    """Merge until the coordinator closes its end."""
    _end_with_the_coordinator()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    precompile()
    with socket.socket(fileno=sys.stdin.fileno()) as link, threadpool_limits(limits=1):
        _Worker(link).run()


def _end_with_the_coordinator() -> None:
    """Have Linux kill this process when the one that started it ends, whatever it does then.

    What it would still write was acknowledged to no agent, and a backup may be restored meanwhile.
    Elsewhere it ends once it finds the link closed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Worker:
    """Reads syncs and merges them, in as many threads as the store lets write at once.

    A thread that finds no batch reads, one thread at a time, until there is one. So with a single
    thread nothing is read while a batch is merged, and what came meanwhile makes up the next one.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link, self._questions, self._closed = link, questions(), False
        self._queue: MergeQueue[int] = MergeQueue()
        self._reading, self._sending = Lock(), Lock()

    def run(self) -> None:
        """Open the store that the first message names, and merge until there is no more to do."""
        asked: list[Question] = []
        while not asked:
            if not (data := self._link.recv(_READ_AHEAD)):
                return
            asked = self._questions.received(data)
        first = asked[0]
        try:
            store = open_store(first.url or "", serving="worker")
        except LocalError as error:
            self._send("", [first.number], StoreError(str(error)))
            return
        self._send("", [first.number], None)
        merge = partial(self._merge_or_exit, StoreMerger(store))
        threads = [Thread(target=merge) for _ in range(store.writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()

    def _merge_or_exit(self, merger: StoreMerger) -> None:
        """Merge, and end this process if that raises: the coordinator would wait in vain."""
        try:
            with suppress(ConnectionError):  # the coordinator was killed
                self._merge(merger)
        except BaseException as error:
            _log.critical("merging cannot go on: %s", type(error).__name__)
            logging.shutdown()
            os._exit(1)

    def _merge(self, merger: StoreMerger) -> None:
        while (batch := self._next_batch()) is not None:
            reply = reply_to(batch, merger)
            self._queue.merged(batch)
            self._send(batch.ref.model, batch.tickets, reply)

    def _next_batch(self) -> Batch[int] | None:
        """Return a batch once there is one; None if there is none and no more can come."""
        while (batch := self._queue.next_batch()) is None and not self._closed:
            with self._reading:
                # another thread may have queued several while this one waited to read
                if (batch := self._queue.next_batch()) is not None:
                    break
                self._read()
        return batch

    def _read(self) -> None:
        """Queue what has come; if that is nothing, wait for some."""
        flags = 0
        with suppress(BlockingIOError):
            while data := self._link.recv(_READ_AHEAD, flags):
                for asked in self._questions.received(data):
                    self._queue.put(
                        asked.ref or _CHECK[0], asked.request or _CHECK[1], asked.number
                    )
                flags = socket.MSG_DONTWAIT
            self._closed = True

    def _send(self, model: str, numbers: list[int], reply: Reply) -> None:
        with self._sending:
            self._link.sendall(framed_reply((model, numbers, reply)))


def reply_to(batch: Batch[Any], merger: StoreMerger) -> Reply:
    """Return the outcomes of a batch, None for checks that passed, or what is to be raised."""
    try:
        if batch.ref != _CHECK[0]:
            return merger.merge(batch.ref, batch.requests)
        merger.check()
    except ModelGone:
        return ModelGone()
    except LocalError as error:
        return StoreError(str(error))
    except Exception as error:
        _log.error("a merge failed: %s", type(error).__name__)
        return MergeFailed(type(error).__name__)
    return None


if __name__ == "__main__":
    main()
