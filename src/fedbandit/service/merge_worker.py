"""The process that merges for a coordinator: ``python -m fedbandit.service.merge_worker``.

Merging is arithmetic and waiting for the disk. In threads of the coordinator's own process both
would take turns with the event loop for the interpreter's lock; here they have it to themselves.

It talks over the socket that is its standard input, is told the store's URL first, and ends when
the other end is closed, once what it has begun is committed. Signals are for the coordinator, which
then closes its end: those that a terminal or a service manager sends to both are left aside.
"""

import logging
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import BinaryIO

from threadpoolctl import threadpool_limits

from fedbandit.errors import LocalError
from fedbandit.service.intake import Arrived
from fedbandit.service.merge_messages import (
    LENGTH_BYTES,
    Failed,
    Message,
    Open,
    Ready,
    Take,
    length,
    packed,
    told,
    unpacked,
)
from fedbandit.service.merger import Address, Merged, Merger
from fedbandit.service.merges import THREADS
from fedbandit.service.stores import open_store
from fedbandit.service.warm_up import merge_once

_READ_AHEAD = 2**20
_log = logging.getLogger("fedbandit.service")


class _Worker:
    def __init__(self, url: str, link: socket.socket, pool: ThreadPoolExecutor) -> None:
        self._store, self._link, self._pool = open_store(url), link, pool
        self._sending = Lock()
        self._mergers: dict[str, tuple[Address, Merger]] = {}

    def take(self, take: Take) -> None:
        """Queue a sync."""
        address = Address(take.model, take.incarnation)
        known, merger = self._mergers.get(take.model, (None, None))
        if merger is None or known != address:
            merger = Merger(self._store, address, self._pool, self._tell)
            self._mergers[take.model] = address, merger
        merger.put(take.number, Arrived(take.agent, take.body, take.token))

    def say(self, message: Message) -> None:
        """Send a message, if anybody is left to read it."""
        with self._sending:
            try:
                self._link.sendall(packed(message))
            except OSError:  # the coordinator is gone; its agents will ask the next one
                return

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _tell(self, merged: Merged) -> None:
        message = told(merged)
        if isinstance(message, Failed) and message.reason == "fault":
            _log.error("a merge failed: %s", message.message)
        self.say(message)


def main() -> None:
    """Merge until the other end is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    merge_once()
    link = socket.socket(fileno=sys.stdin.fileno())
    with open(link.fileno(), "rb", buffering=_READ_AHEAD, closefd=False) as stream:
        opened = _read(stream)
        if isinstance(opened, Open):
            _work(opened.store, link, stream)


def _work(url: str, link: socket.socket, stream: BinaryIO) -> None:
    with threadpool_limits(limits=1), ThreadPoolExecutor(THREADS, "fedbandit-merge") as pool:
        try:
            worker = _Worker(url, link, pool)
        except LocalError as error:
            link.sendall(packed(Failed("", "", [], "store", str(error))))
            return
        worker.say(Ready())
        while isinstance(message := _read(stream), Take):
            worker.take(message)
    worker.close()


def _read(stream: BinaryIO) -> Message | None:
    """Return the next message, or nothing at the end."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    body = stream.read(length(head))
    return unpacked(body) if len(body) == length(head) else None


if __name__ == "__main__":
    main()
