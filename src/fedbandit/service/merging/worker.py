"""The process that merges for a coordinator: ``python -m fedbandit.service.merging.worker``.

Merging is arithmetic and waiting for the disk. In threads of the coordinator's own process both
would take turns with the event loop for the interpreter's lock; here they have it to themselves.

It talks over the socket that is its standard input, is told the store's URL first, and ends when
the other end is closed, once the batch that it has begun is committed. Signals are for the
coordinator, which then closes its end: those that a terminal or a service manager sends to both are
left aside.
"""

import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from threadpoolctl import threadpool_limits

from fedbandit.errors import LocalError
from fedbandit.service.merging.intake import Arrived
from fedbandit.service.merging.merges import trouble_with
from fedbandit.service.merging.queue import Merged, Merger, ModelRef, Submit
from fedbandit.service.merging.warm_up import merge_once
from fedbandit.service.merging.worker_messages import (
    Check,
    Checked,
    Failed,
    Inbox,
    Message,
    Open,
    Ready,
    Take,
    packed,
    told,
)
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store

_READ_AHEAD = 2**20
_log = logging.getLogger("fedbandit.service")


class _Link:
    """The socket to the coordinator."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._inbox, self._sending = connection, Inbox(), Lock()

    def read(self, *, wait: bool) -> Iterator[tuple[Message, bytes]]:
        """Return what has come; if need be, and told to, wait for it. Raise EOFError at the end."""
        try:
            data = self._connection.recv(_READ_AHEAD, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return iter(())
        if not data:
            raise EOFError
        return self._inbox.arrived(data)

    def say(self, message: Message, along: bytes = b"") -> None:
        """Send a message, if anybody is left to read it."""
        with self._sending:
            try:
                self._connection.sendall(packed(message, along))
            except OSError:  # most likely it is gone, and its agents will ask the next one
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)


class _Worker:
    def __init__(self, store: Store, link: _Link, submit: Submit) -> None:
        self._store, self._link, self._submit = store, link, submit
        self._mergers: dict[str, tuple[ModelRef, Merger]] = {}

    def take(self, take: Take, body: bytes) -> None:
        """Queue a sync."""
        ref = ModelRef(take.model, take.incarnation)
        known, merger = self._mergers.get(take.model, (None, None))
        if merger is None or known != ref:
            merger = Merger(self._store, ref, self._submit, self._tell)
            self._mergers[take.model] = ref, merger
        merger.put(take.number, Arrived(take.agent, body, take.token))

    def check(self) -> None:
        """Queue a look at the store."""
        self._submit(self._look)

    def _look(self) -> None:
        self._link.say(Checked(trouble_with(self._store)))

    def _tell(self, merged: Merged) -> None:
        message, along = told(merged)
        if isinstance(message, Failed) and message.reason == "fault":
            _log.error("a merge failed: %s", message.message)
        if isinstance(message, Failed) and message.reason == "gone":
            self._mergers.pop(message.model, None)
        self._link.say(message, along)


def main() -> None:
    """Merge until the other end is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    merge_once()
    link = _Link(socket.socket(fileno=sys.stdin.fileno()))
    with suppress(EOFError, ConnectionResetError), threadpool_limits(limits=1):
        for message, _ in link.read(wait=True):
            if isinstance(message, Open):
                _serve(message.store.decode("utf-8", "surrogateescape"), link)


def _serve(url: str, link: _Link) -> None:
    try:
        store = open_store(url)
    except LocalError as error:
        link.say(Failed("", "", [], "store", str(error)))
        return
    link.say(Ready())
    try:
        _merge_alone(store, link) if store.writers == 1 else _merge_beside(store, link)
    finally:
        store.close()


def _merge_alone(store: Store, link: _Link) -> None:
    """Merge in this thread: the store lets one model be written at a time anyway.

    Nothing is read while a batch is merged, so that whatever came meanwhile makes up the next one.
    """
    todo: deque[Callable[[], None]] = deque()
    worker = _Worker(store, link, todo.append)
    while True:
        while _pass_on(link, worker, wait=not todo):
            pass
        if todo:
            _done_or_ended(todo.popleft())


def _merge_beside(store: Store, link: _Link) -> None:
    """Merge in threads, so that a model that waits for the store keeps no other one waiting."""

    def submit(work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # it is ending, and nobody is left to be answered
            pool.submit(_done_or_ended, work)

    with ThreadPoolExecutor(store.writers, "fedbandit-merge") as pool:
        worker = _Worker(store, link, submit)
        while True:
            _pass_on(link, worker, wait=True)


def _done_or_ended(work: Callable[[], None]) -> None:
    """Do something, and end this process if it goes wrong: nobody would be answered any more."""
    try:
        work()
    except BaseException as error:
        _log.critical("merging cannot go on: %s", type(error).__name__)
        logging.shutdown()
        os._exit(1)


def _pass_on(link: _Link, worker: _Worker, *, wait: bool) -> bool:
    """Queue what has come; say whether anything was whole."""
    some = False
    for message, body in link.read(wait=wait):
        if isinstance(message, Take):
            worker.take(message, body)
        elif isinstance(message, Check):
            worker.check()
        some = True
    return some


if __name__ == "__main__":
    main()
