"""Clusters that make runs: dask and ray. Each run comes back as bytes; the caller stores it.

Work is sent as bytes of cloudpickle, so that workers need neither the module of an algorithm of
one's own nor data files. A worker that dies costs the work it had: dask and ray give that to
another one.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import cloudpickle

from fedbandit.errors import LocalError, missing_extra
from fedbandit.lab.runs.task import source_digest

Backend = Literal["loky", "dask", "ray"]
BACKENDS: tuple[Backend, ...] = ("loky", "dask", "ray")
MOST_LOSSES = 3
"""How many workers may die over one piece of work before it is given up."""

Work = Callable[[Any], Any]


def on_cluster(
    backend: Backend, work: Work, pieces: Sequence[Any], *, workers: int, address: str | None
) -> Iterator[Any]:
    """Yield what ``work`` returns for each piece, as they finish."""
    sent = [cloudpickle.dumps((source_digest(), work, piece)) for piece in pieces]
    return ENGINES[backend](sent, workers, address)


def done_by_worker(sent: bytes) -> Any:
    """Do one piece of work; called on a worker."""
    digest, work, piece = cloudpickle.loads(sent)
    if digest != source_digest():
        raise LocalError(
            "run: a worker has another version of fedbandit, whose numbers may differ. "
            "Install the same version on all machines."
        )
    return work(piece)


def _on_dask(sent: Sequence[bytes], workers: int, address: str | None) -> Iterator[Any]:
    with _extra("dask", "distributed"):
        import distributed
    cluster = None if address else _local_dask(distributed, workers)
    client = distributed.Client(address or cluster)
    try:
        futures = [
            client.submit(done_by_worker, each, pure=False, key=f"fedbandit-{os.getpid()}-{index}")
            for index, each in enumerate(sent)
        ]
        for future in distributed.as_completed(futures):
            yield future.result()
            future.release()
    except distributed.scheduler.KilledWorker as error:
        raise _given_up("dask") from error
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def _local_dask(distributed: Any, workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )


def _on_ray(sent: Sequence[bytes], workers: int, address: str | None) -> Iterator[Any]:
    with _extra("ray", "ray"):
        import ray
    local = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    ray.init(address=address, log_to_driver=False, **({} if address else local))
    try:
        remote = ray.remote(done_by_worker).options(max_retries=MOST_LOSSES, num_cpus=1)
        left = [remote.remote(each) for each in sent]
        while left:
            finished, left = ray.wait(left, num_returns=1)
            yield _ray_result(ray, finished[0])
    except ray.exceptions.WorkerCrashedError as error:
        raise _given_up("ray") from error
    finally:
        ray.shutdown()


def _ray_result(ray: Any, reference: Any) -> Any:
    """Return a result; an error as it was raised on the worker."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


ENGINES: Mapping[str, Callable[[Sequence[bytes], int, str | None], Iterator[Any]]] = {
    "dask": _on_dask,
    "ray": _on_ray,
}


@contextmanager
def _extra(extra: str, package: str) -> Iterator[None]:
    """Say which extra to install if a package cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(package, extra, f"fedbandit run --backend {extra}") from error


def _given_up(backend: str) -> LocalError:
    return LocalError(
        f"run: {MOST_LOSSES} or more workers of {backend} died over the same runs, perhaps for "
        "lack of memory. Run the same command again on larger workers: finished runs are kept."
    )
