"""The background thread: does the housekeeping, delivers what is due, and backs off."""

import logging
import time
from collections.abc import Callable
from math import inf
from random import random
from threading import Condition, Thread

from fedbandit.client.delivery.delivery import Delivery
from fedbandit.errors import FedbanditError, Unreachable

_log = logging.getLogger(__name__)


class Backoff:
    """Exponential with full jitter, so that a fleet does not return to its coordinator at once.

    The n-th wait in a row is uniform between 0 and first x 2^n, at most ``longest`` seconds.
    ``uniform`` returns random numbers from 0 to 1.
    """

    def __init__(
        self,
        *,
        first: float = 0.5,
        longest: float = 60.0,
        uniform: Callable[[], float] = random,
    ) -> None:
        self._first, self.longest, self._uniform = first, longest, uniform
        self._failures = 0

    def after_failure(self, *, least: float = 0.0) -> float:
        """Return how many seconds to wait after another failure, and at least ``least``."""
        ceiling = min(self.longest, self._first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return least + ceiling * self._uniform()

    def reset(self) -> None:
        """Start from ``first`` again, after a success."""
        self._failures = 0


class BackgroundThread:
    """A daemon thread that delivers until it is stopped.

    A failed delivery is tried again for ever, with growing pauses of up to a minute. What the
    coordinator refuses is tried about once a minute, since a token or a model may be put right.
    """

    def __init__(self, delivery: Delivery, *, name: str) -> None:
        self._delivery, self._backoff = delivery, Backoff()
        self._condition = Condition()
        self._woken, self._urgent, self._stopping = True, False, False
        self._not_before = 0.0
        self._next_housekeeping = 0.0
        self._told_of_cuts = False
        self._troubles: dict[str, str | None] = {"delivery": None, "housekeeping": None}
        self._thread = Thread(target=self._run, name=name, daemon=True)

    @property
    def trouble(self) -> str | None:
        """The last error; None if the same has succeeded since."""
        return self._troubles["delivery"] or self._troubles["housekeeping"]

    @property
    def retry_in(self) -> float | None:
        """Seconds until the next delivery is tried; None if there is nothing to deliver."""
        if not self._delivery.due():
            return None
        return max(0.0, self._not_before - time.monotonic())

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self, *, urgent: bool = False) -> None:
        """Let the thread look for work now; ``urgent``: deliver even during a pause."""
        with self._condition:
            self._woken = True
            self._urgent = self._urgent or urgent
            self._condition.notify_all()

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until done(), the thread's end or the timeout; return done()."""
        with self._condition:
            return self._condition.wait_for(lambda: done() or not self.alive, timeout) and done()

    def stop(self, timeout: float) -> None:
        """End the thread after its present turn; stop waiting for that after ``timeout``."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._take_turns()
        finally:
            self._delivery.close()  # in this thread: stop() may not have waited for an answer

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
        self._attempt("housekeeping", self._do_housekeeping)  # may fail; delivery goes on
        if urgent or time.monotonic() >= self._not_before:
            error = self._attempt("delivery", self._deliver)
            if error is not None:
                self._not_before = time.monotonic() + self._pause_after(error)

    def _do_housekeeping(self) -> None:
        self._next_housekeeping = time.monotonic() + self._backoff.longest / 4  # if it fails
        self._next_housekeeping = time.monotonic() + self._delivery.do_housekeeping()

    def _deliver(self) -> None:
        while self._delivery.due() and not self._stopping:
            self._delivery.deliver()
            self._backoff.reset()
            self._tell_of_cuts()
            self._report("delivery", None)

    def _tell_of_cuts(self) -> None:
        """Log once that corrections of uploads were cut, by this agent or by others."""
        if self._delivery.cut and not self._told_of_cuts:
            self._told_of_cuts = True
            _log.warning(
                "%s: corrections of uploads were too long and were cut; look at the scale of arms "
                "and rewards, and at parameter_norm in bounds",
                self._thread.name,
            )

    def _attempt(self, kind: str, work: Callable[[], None]) -> Exception | None:
        """Do some work and report how it went; return the error, of whatever kind.

        Every exception is caught on purpose: if an unforeseen one ended the thread, nothing would
        be delivered until the program is restarted. It is logged with its traceback.
        """
        try:
            work()
        except FedbanditError as error:
            self._report(kind, str(error))
            return error
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if said != self._troubles[kind]:
                _log.exception("%s: unexpected error in the %s", self._thread.name, kind)
            self._troubles[kind] = said
            return error
        self._report(kind, None)
        return None

    def _pause_after(self, error: Exception) -> float:
        if isinstance(error, Unreachable):
            return self._backoff.after_failure(least=error.retry_after)
        return self._backoff.after_failure(least=self._backoff.longest / 2)

    def _report(self, kind: str, trouble: str | None) -> None:
        """Log an error once, and once that it is over."""
        before, self._troubles[kind] = self._troubles[kind], trouble
        if trouble is not None and trouble != before:
            _log.warning("%s: %s", self._thread.name, trouble)
        elif trouble is None and before is not None:
            _log.info("%s: the %s works again", self._thread.name, kind)

    def _pause(self) -> float:
        """Return the seconds until there is something to do without being woken."""
        times = [self._next_housekeeping, self._not_before if self._delivery.due() else inf]
        return max(0.0, min(times) - time.monotonic())
