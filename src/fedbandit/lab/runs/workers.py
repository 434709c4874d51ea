"""Worker processes that end with the command that started them, and not by Ctrl-C."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

from joblib import Parallel

_LOOK_EVERY = 0.5  # seconds
_HUSHED = "ignore:resource_tracker:UserWarning"


def pool(workers: int, *, as_finished: bool = False) -> Parallel:
    """Return what calls functions in so many processes, the same ones each time it is asked for.

    Results come in the order of the calls, or as they are finished.
    """
    return Parallel(
        n_jobs=workers,
        backend="loky",
        batch_size=1,
        max_nbytes=None,
        return_as="generator_unordered" if as_finished else "generator",
        initializer=follow,
        initargs=(os.getpid(),),
    )


def follow(parent: int) -> None:
    """End this process soon after its parent has ended, even if the parent was killed.

    Otherwise an orphan would go on working beside the command when that is started again.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=watch, name="follow", daemon=True).start()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from processes and threads started in this block: only this process gets it.

    They inherit the blocked signal, so workers write no tracebacks of their own over the message.
    Starting Python's resource tracker would unblock it again, so that is started first. The pool's
    own tracker would warn of leftovers if it ends early; the filter silences that.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    warned = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = f"{warned},{_HUSHED}" if warned else _HUSHED
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        del os.environ["PYTHONWARNINGS"]
        if warned:
            os.environ["PYTHONWARNINGS"] = warned
