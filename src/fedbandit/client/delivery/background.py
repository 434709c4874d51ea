"""The one thread that talks: it tends the journal, delivers what is due, and backs off."""

import logging
import time
from collections.abc import Callable
from math import inf
from threading import Condition, Thread
from typing import Protocol

from fedbandit.client.delivery.backoff import Backoff
from fedbandit.errors import FedbanditError, Unreachable

_log = logging.getLogger(__name__)


class Work(Protocol):
    """What the thread does, and how it learns what there is to do."""

    def tend(self) -> float:
        """Do what needs no network; return in how many seconds to do so again."""
        ...

    def due(self) -> bool:
        """Say whether there is anything to deliver."""
        ...

    def deliver(self) -> None:
        """Deliver one thing; raise FedbanditError if that fails."""
        ...

    def end(self) -> None:
        """Let go of what is open: the thread ends."""
        ...


class Sender:
    """A daemon thread that works until it is stopped.

    A failure is tried again after a while, for ever: soon at first, then up to a minute apart. What
    the coordinator refuses is tried a minute apart, since a token or a model may be mended there.
    """

    def __init__(self, work: Work, backoff: Backoff, *, name: str) -> None:
        self._work, self._backoff = work, backoff
        self._condition = Condition()
        self._woken, self._urgent, self._stopping = True, False, False
        self._not_before = 0.0
        self._next_tending = 0.0
        self._troubles: dict[str, str | None] = {"delivering": None, "tending": None}
        self._thread = Thread(target=self._run, name=name, daemon=True)

    @property
    def trouble(self) -> str | None:
        """What went wrong last and has not gone right since."""
        return self._troubles["delivering"] or self._troubles["tending"]

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self, *, urgent: bool = False) -> None:
        """Say that there is something to do; if urgent, even though it failed just now."""
        with self._condition:
            self._woken = True
            self._urgent = self._urgent or urgent
            self._condition.notify_all()

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait until something is so, looked at after every turn of the thread; say if it is."""
        with self._condition:
            return self._condition.wait_for(lambda: done() or not self.alive, timeout) and done()

    def stop(self, timeout: float) -> None:
        """End the thread after its present turn; give up waiting for that after ``timeout``."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._take_turns()
        finally:
            self._work.end()  # here, since nobody may wait for a thread that waits for an answer

    def _take_turns(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._woken or self._stopping, self._pause())
                urgent, self._woken, self._urgent = self._urgent, False, False
                if self._stopping:
                    return
            self._turn(urgent=urgent)
            with self._condition:
                self._condition.notify_all()

    def _turn(self, *, urgent: bool) -> None:
        self._attempt("tending", self._tend)  # if it fails, what is in flight can still be sent
        if urgent or time.monotonic() >= self._not_before:
            error = self._attempt("delivering", self._deliver)
            if error is not None:
                self._not_before = time.monotonic() + self._wait_after(error)

    def _tend(self) -> None:
        self._next_tending = time.monotonic() + self._backoff.longest / 4  # should it fail
        self._next_tending = time.monotonic() + self._work.tend()

    def _deliver(self) -> None:
        while self._work.due() and not self._stopping:
            self._work.deliver()
            self._backoff.reset()
            self._report("delivering", None)

    def _attempt(self, kind: str, work: Callable[[], None]) -> Exception | None:
        """Do something and report how it went; return what went wrong, whatever it was.

        The last resort is broad on purpose: were the thread to end at an error that nobody has
        thought of, nothing would be delivered until the program is started anew, and nobody told.
        """
        try:
            work()
        except FedbanditError as error:
            self._report(kind, str(error))
            return error
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if said != self._troubles[kind]:
                _log.exception("%s: %s failed in a way that it should not", self._thread.name, kind)
            self._troubles[kind] = said
            return error
        self._report(kind, None)
        return None

    def _wait_after(self, error: Exception) -> float:
        if isinstance(error, Unreachable):
            return self._backoff.after_failure(least=error.retry_after)
        return self._backoff.after_failure(least=self._backoff.longest / 2)

    def _report(self, kind: str, trouble: str | None) -> None:
        """Say once that something is wrong, and once that it is right again."""
        before, self._troubles[kind] = self._troubles[kind], trouble
        if trouble is not None and trouble != before:
            _log.warning("%s: %s", self._thread.name, trouble)
        elif trouble is None and before is not None:
            _log.info("%s: %s works again", self._thread.name, kind)

    def _pause(self) -> float:
        """Return the seconds until there is something to do without being woken."""
        times = [self._next_tending, self._not_before if self._work.due() else inf]
        return max(0.0, min(times) - time.monotonic())
