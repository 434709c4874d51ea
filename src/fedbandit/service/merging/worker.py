"""The process that merges for a coordinator: ``python -m fedbandit.service.merging.worker FD...``.

Merging is arithmetic and waiting for the disk. In threads of the coordinator's own process both
would compete with the event loop for the interpreter's lock.

It answers on one connection per thread, is told the store's URL on one of them first, and ends when
the coordinator closes them, once batches under way are committed. It ignores SIGINT and SIGTERM,
which a terminal or a service manager sends to both processes: the coordinator decides when it ends.
"""

import logging
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, cast

from threadpoolctl import threadpool_limits

from fedbandit.errors import LocalError, StoreError
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import BatchMerger, MergeFailed, ModelGone, Outcome
from fedbandit.service.merging.warm_up import merge_once
from fedbandit.service.storage.opening import open_store

_log = logging.getLogger("fedbandit.service")


def main() -> None:
    """Merge until the coordinator closes its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    links = [Connection(int(descriptor)) for descriptor in sys.argv[1:]]
    merge_once()
    with suppress(EOFError, ConnectionError), threadpool_limits(limits=1):
        _serve(links)


def _serve(links: "list[Connection[Any, Any]]") -> None:
    first = cast("Connection[Any, Any]", wait(links)[0])
    try:
        store = open_store(first.recv(), serving="worker")
    except LocalError as error:
        first.send(StoreError(str(error)))
        return
    merger = StoreMerger(store)
    threads = [Thread(target=_answer_on, args=(link, merger)) for link in links]
    first.send(None)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


def _answer_on(link: "Connection[Any, Any]", merger: BatchMerger) -> None:
    """Answer one question after another; a link closed early tells the coordinator of a failure."""
    with link, suppress(EOFError, ConnectionError):
        while True:
            link.send(reply_to(link.recv(), merger))


def reply_to(question: Any, merger: BatchMerger) -> list[Outcome] | Exception | None:
    """Return the outcomes of a batch, None for a check that passed, or what is to be raised.

    The question is what ``BatchMerger.merge`` is called with; nothing for a check.
    """
    try:
        if question:
            return merger.merge(*question)
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
