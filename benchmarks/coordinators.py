"""Several coordinators on one model in PostgreSQL: how far they get, and what the lock has of it.

``python -m benchmarks.coordinators`` starts PostgreSQL, makes a model of d = 100, l = 40, and lets
1, 2 and 3 processes merge batches into it, each as the merge worker of a coordinator does: decode,
check, lock the model's row, merge, write, commit. HTTP is left out, since it takes no lock. For
each it prints uploads a second of all together, and of a process's time how much it waits for the
lock, holds it, and spends outside it. *Apart*: each process merges into a model of its own, which
is what a model kept as one partial state for each coordinator would reach at best.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fedbandit as fb
from benchmarks.load import upload
from fedbandit import wire
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import ModelRef, SyncRequest
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Locked, Store
from fedbandit.service.storage.opening import open_store

RECIPE = fb.FSCLB(dimension=100, sketch_size=40, agents=100)


@dataclass
class Timed:
    """A store that notes how long its locks were waited for and held."""

    store: Store
    waited: float = 0.0
    held: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    @contextmanager
    def lock(self, name: str) -> Iterator[Locked]:
        """Lock a model, and note how long that takes; committing is part of holding it."""
        began = time.perf_counter()
        with self.store.lock(name) as locked:
            got = time.perf_counter()
            yield locked
        self.waited += got - began
        self.held += time.perf_counter() - got


def merge_for(url: str, ref: ModelRef, who: int, batch: int, seconds: float, result: Any) -> None:
    """Merge batches until the time is over; say how many uploads, and where the time went."""
    timed = Timed(open_store(url))
    merger = StoreMerger(timed)
    mark, uploads = wire.fingerprint(RECIPE), [upload(seed) for seed in range(64)]
    sequence, done = 0, 0

    def once() -> int:
        nonlocal sequence
        sequence += 1
        life = [bytes([who, k] * 8) for k in range(batch)]
        syncs = [wire.Sync(mark, life[k], sequence, uploads[k % 64]) for k in range(batch)]
        bodies = [wire.encode_sync(each) for each in syncs]
        merger.merge(ref, [SyncRequest(f"a{who}-{k}", each) for k, each in enumerate(bodies)])
        return batch

    once()
    timed.waited = timed.held = 0.0
    began = time.perf_counter()
    cpu = time.process_time()
    while time.perf_counter() < began + seconds:
        done += once()
    took = time.perf_counter() - began
    result.put((done / took, timed.waited / took, timed.held / took, time.process_time() - cpu))
    timed.store.close()


def measure(
    url: str, processes: int, batch: int, seconds: float, *, apart: bool
) -> tuple[float, ...]:
    """Return uploads a second, and the shares of time waited, held, and on the CPU."""
    store = open_store(url, create=True)
    for each in store.models():
        store.delete(each.name)
    refs = []
    for number in range(processes if apart else 1):
        model, state = new_model(f"load-{number}", RECIPE)
        store.create(model, state)
        refs.append(ModelRef(model.name, model.incarnation))
    store.close()
    result: Any = multiprocessing.Queue()
    workers = [
        multiprocessing.Process(
            target=merge_for, args=(url, refs[who % len(refs)], who, batch, seconds, result)
        )
        for who in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [result.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    rate = sum(each[0] for each in found)
    shares = [sum(each[k] for each in found) / processes for k in (1, 2)]
    return rate, *shares, sum(each[3] for each in found) / processes / seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tests.service.stores import postgres_server

    with postgres_server() as server:
        url = server.get_uri()
        print("| uploads in a batch | coordinators | uploads/s | waits | holds the lock | CPU |")
        print("|---|---|---|---|---|---|")
        kinds = [(1, False), (2, False), (3, False), (2, True), (3, True)]
        for batch in (1, 16):
            for processes, apart in kinds:
                turns = [
                    measure(url, processes, batch, given.seconds, apart=apart)
                    for _ in range(given.turns)
                ]
                rate, waits, holds, cpu = sorted(turns)[len(turns) // 2]
                print(
                    f"| {batch} | {processes}{', apart' if apart else ''} | {rate:.0f} "
                    f"| {100 * waits:.0f} % | {100 * holds:.0f} % | {100 * cpu:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
