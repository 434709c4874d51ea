"""The worker process, seen from the coordinator: started, asked, and started again if it exits.

Questions and replies are pickled by ``multiprocessing.connection``, one link per thread that asks;
docs/decisions, 58, has what that costs. A ``ProcessPoolExecutor`` would be shorter still, but
reaches 0.77 of the throughput (median of 9 alternated runs of ``benchmarks.load``), starts a second
child process and offers no public way to kill a worker that hangs.
"""

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from fedbandit.errors import StoreError
from fedbandit.service.merging.sync import ModelRef, Outcome, SyncRequest

_START_SECONDS = 60.0
FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds from one start to the next
_log = logging.getLogger("fedbandit.service")


class WorkerMerger:
    """Merges batches in a worker process. Fulfils ``BatchMerger``.

    A worker that exited is replaced at the next question. Starts become rarer while one worker
    after another exits without having merged anything.
    """

    def __init__(self, url: str, *, writers: int) -> None:
        self.writers = writers
        self._url = url
        self._starting = Lock()
        self._worker: _Worker | None = None
        self._closed = False
        self._pause, self._next_start = FIRST_PAUSE, 0.0

    def merge(self, ref: ModelRef, requests: Sequence[SyncRequest]) -> list[Outcome]:
        """Have the worker merge a batch."""
        outcomes: list[Outcome] = self._ask(ref, list(requests))
        self._pause = FIRST_PAUSE
        return outcomes

    def check(self) -> None:
        """Have the worker, which is started if none runs, write to the store."""
        self._ask()

    def close(self, seconds: float) -> None:
        """Let the worker exit; kill it if it takes longer than that."""
        self._closed = True
        if self._worker is not None:
            self._worker.end(seconds)

    def _ask(self, *question: object) -> Any:
        worker = self._running()
        try:
            with worker.link() as link:
                link.send(question)
                reply = link.recv()
        except (EOFError, OSError) as error:
            code = worker.kill()
            if not self._closed:
                _log.error("the merge worker exited (%s); another one is started", code)
            raise _exited() from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _running(self) -> "_Worker":
        with self._starting:
            if self._worker is None or self._worker.process.poll() is not None:
                self._start()
            assert self._worker is not None
            return self._worker

    def _start(self) -> None:
        now = time.monotonic()
        if self._closed or now < self._next_start:
            raise _exited()
        self._next_start, self._pause = now + self._pause, min(2.0 * self._pause, _LONGEST_PAUSE)
        try:
            self._worker = worker = _spawned(self.writers)
        except OSError as error:
            raise _exited(str(error)) from error
        if self._closed:  # meanwhile
            worker.kill()
        try:
            worker.open(self._url)
        except BaseException:
            worker.kill()
            raise


@dataclass(frozen=True, eq=False)
class _Worker:
    process: "subprocess.Popen[bytes]"
    links: "list[Connection[Any, Any]]"

    def open(self, url: str) -> None:
        """Have it open the store; raise StoreError if it cannot, or does not start in time."""
        try:
            with self.link() as link:
                link.send(url)
                if not link.poll(_START_SECONDS):
                    raise _exited(f"no sign of life for {_START_SECONDS:g} seconds")
                failure = link.recv()
        except (EOFError, ConnectionError) as error:
            raise _exited() from error
        if failure is not None:
            raise failure

    @contextmanager
    def link(self) -> "Iterator[Connection[Any, Any]]":
        """Use a link that is idle, and close it if the block raises; raise EOFError if none is."""
        try:
            link = self.links.pop()
        except IndexError:
            raise EOFError from None
        try:
            yield link
        except BaseException:
            link.close()
            raise
        self.links.append(link)

    def end(self, seconds: float) -> None:
        """Close what it reads from, and kill it if it does not exit in time."""
        self._close_links()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> int:
        """End it at once; return its exit code."""
        self.process.kill()
        self._close_links()
        return self.process.wait()

    def _close_links(self) -> None:
        while self.links:  # those in use are closed by the threads that use them
            self.links.pop().close()


def _spawned(number: int) -> _Worker:
    """Start a worker with some links; ``-P``: no module comes from the working directory."""
    mine, theirs = zip(*(Pipe() for _ in range(number)), strict=True)
    descriptors = [each.fileno() for each in theirs]
    command = [sys.executable, "-P", "-m", "fedbandit.service.merging.worker"]
    try:
        with _signals_blocked():
            process = subprocess.Popen(
                [*command, *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
    except BaseException:
        for each in mine:
            each.close()
        raise
    finally:
        for each in theirs:
            each.close()
    return _Worker(process, list(mine))


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM: a process started meanwhile inherits that until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exited(why: str = "") -> StoreError:
    because = f" ({why})" if why else ""
    message = f"The merge worker exited{because}; it is being restarted."
    return StoreError(f"{message} If that repeats, look at the log and at the memory left.")
