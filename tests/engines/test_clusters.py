"""Runs made on dask and ray are those that are made here, also if a worker is killed on the way."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedbandit.errors import LocalError
from fedbandit.lab import Results, parse_spec, read_spec, run
from tests.lab.tiny import Broken, task, without_seconds

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]

CONTENT: dict[str, Any] = {
    "rounds": 3000,
    "trials": 6,
    "worlds": {"easy": {"kind": "synthetic", "dimension": 20, "arms": 10, "agents": 4}},
    "recipes": {
        "sketch": {"kind": "FSCLB", "sketch_size": [5, 10], "radius": 0.3},
        "floor": {"kind": "Random"},
    },
}
OWN = """
class Last:
    def choose(self, arms):
        return len(arms) - 1

    def observe(self, arm, reward):
        pass
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    out = tmp_path_factory.mktemp("here")
    return without_seconds(run(parse_spec(CONTENT), out=out, jobs=1).table)


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = import_module("distributed")  # here, since the other suites collect this file
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as started:
        yield started


class Killing:
    """A progress display that kills a worker after the first run that has come back."""

    def __init__(self, pid: int) -> None:
        self.pid, self.killed = pid, False

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        assert sum(total.values()) > sum(done.values())

    def advance(self, algorithm: str, rounds: int) -> None:
        assert algorithm
        assert rounds == 3000
        if not self.killed:
            os.kill(self.pid, signal.SIGKILL)
            self.killed = True

    def end(self) -> None: ...


def on_dask(out: Path, cluster: Any, **more: Any) -> Results:
    address = cluster.scheduler_address
    return run(parse_spec(CONTENT), out=out, backend="dask", address=address, **more)


def test_dask_makes_the_same_records(tmp_path: Path, cluster: Any, here: pa.Table) -> None:
    results = on_dask(tmp_path, cluster)
    assert results.computed == 18
    assert without_seconds(results.table).equals(here)
    assert on_dask(tmp_path, cluster).computed == 0


def test_short_a_dask_worker_that_is_killed_changes_no_number(
    tmp_path: Path, cluster: Any, here: pa.Table
) -> None:
    killing = Killing(next(iter(cluster.workers.values())).pid)
    results = on_dask(tmp_path, cluster, progress=killing)
    assert killing.killed
    assert without_seconds(results.table).equals(here)


def test_short_ray_makes_the_same_records(tmp_path: Path, here: pa.Table) -> None:
    results = run(parse_spec(CONTENT), out=tmp_path, backend="ray", jobs=2)
    assert without_seconds(results.table).equals(here)


def test_an_algorithm_of_ones_own_travels(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "travelling.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "spec.toml").write_text(
        "rounds = 50\ntrials = 2\n"
        '[worlds.w]\nkind = "synthetic"\ndimension = 4\narms = 3\nagents = 2\n'
        '[recipes.last]\nkind = "travelling:Last"\n',
        encoding="utf-8",
    )
    spec = read_spec(tmp_path / "spec.toml")
    alone = run(spec, out=tmp_path / "alone", jobs=1)
    address = cluster.scheduler_address
    options: list[dict[str, Any]] = [
        {"backend": "dask", "address": address},
        {"backend": "ray", "jobs": 2},
    ]
    for more in options:
        there = run(spec, out=tmp_path / more["backend"], **more)
        assert without_seconds(there.table).equals(without_seconds(alone.table))


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_error_on_a_worker_is_told(tmp_path: Path, backend: str) -> None:
    broken = task(world=Broken(LocalError))
    with pytest.raises(LocalError, match="the tape is torn"):
        run([broken], out=tmp_path, backend=backend, jobs=1)  # type: ignore[arg-type]
