"""Only what is missing is made, in whatever number of processes, and whatever happened before."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedbandit.errors import InvalidParameter, LocalError, OutputError, UnknownName
from fedbandit.lab import Results, parse_spec, read_runs, run, run_spec
from tests.lab.gated import gated_tasks
from tests.lab.tiny import (
    ROOT,
    SPEC,
    Broken,
    task,
    tasks,
    without_seconds,
    world,
    write_spec,
)


class Heard:
    """Writes down what progress is told."""

    def __init__(self) -> None:
        self.total: Mapping[str, int] = {}
        self.done: Mapping[str, int] = {}
        self.made: Counter[str] = Counter()
        self.ended = False

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        self.total, self.done = dict(total), dict(done)

    def advance(self, algorithm: str, rounds: int) -> None:
        self.made[algorithm] += rounds

    def end(self) -> None:
        self.ended = True


class Threads:
    """A world that looks at the thread pools while it is played."""

    dimension, agents = 4, 2
    params: Mapping[str, object] = {}

    def rounds(self, n: int) -> Any:
        for pool in threadpool_info():
            if pool["num_threads"] != 1:
                raise AssertionError(pool)
        return world().rounds(n)


class Deadly:
    """A world that takes its process with it."""

    dimension, agents = 4, 2
    params: Mapping[str, object] = {}

    def rounds(self, n: int) -> Any:
        os._exit(n)


def test_number_of_processes_changes_no_result(tmp_path: Path) -> None:
    alone = run_spec(parse_spec(SPEC), out=tmp_path / "one", jobs=1)
    together = run_spec(parse_spec(SPEC), out=tmp_path / "two", jobs=2)
    assert alone.computed == together.computed == 12
    assert alone.table.num_rows == 12 * 50
    assert alone.table.drop_columns(["seconds"]).equals(together.table.drop_columns(["seconds"]))


def test_every_run_has_one_blas_thread(tmp_path: Path) -> None:
    looking = [task(trial=trial, world=Threads()) for trial in range(2)]
    with threadpool_limits(2):
        assert run(looking, out=tmp_path / "here", jobs=1).computed == 2
        assert run(looking, out=tmp_path / "there", jobs=2).computed == 2


def test_same_call_again_makes_and_touches_nothing(tmp_path: Path) -> None:
    first = run(tasks(3), out=tmp_path, jobs=1)
    before = _times(tmp_path)
    again = run(tasks(3), out=tmp_path, jobs=1)
    assert (first.computed, again.computed) == (3, 0)
    assert again.table.equals(first.table)
    assert _times(tmp_path) == before


def test_more_trials_make_only_the_new_ones(tmp_path: Path) -> None:
    run(tasks(2), out=tmp_path, jobs=1)
    before = _times(tmp_path)
    more = run(tasks(5), out=tmp_path, jobs=1)
    assert more.computed == 3
    assert before.items() <= _times(tmp_path).items()
    assert _same(more, run(tasks(5), out=tmp_path / "fresh", jobs=1))


def test_fewer_trials_show_only_those(tmp_path: Path) -> None:
    run(tasks(3), out=tmp_path, jobs=1)
    fewer = run(tasks(1), out=tmp_path, jobs=1)
    assert fewer.computed == 0
    assert fewer.table["trial"].unique().to_pylist() == [0]
    assert read_runs(tmp_path)["trial"].unique().to_pylist() == [0]
    assert run(tasks(3), out=tmp_path, jobs=1).computed == 0


def test_place_may_be_given_as_text(tmp_path: Path) -> None:
    assert run(tasks(1), out=str(tmp_path / "out"), jobs=1).directory == tmp_path / "out"
    assert run_spec(parse_spec(SPEC), out=str(tmp_path / "spec"), jobs=1).computed == 12


def test_directory_in_the_way_of_the_summary_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").mkdir()
    with pytest.raises(OutputError, match=r"summary\.csv' cannot be written"):
        run_spec(parse_spec(SPEC), out=tmp_path, jobs=1)


def test_tasks_given_twice_are_made_once(tmp_path: Path) -> None:
    assert run([task(), task()], out=tmp_path, jobs=1).table.num_rows == 50


def test_torn_record_is_made_again(tmp_path: Path) -> None:
    whole = run(tasks(2), out=tmp_path, jobs=1)
    torn = tmp_path / "runs" / f"{task().key}.parquet"
    torn.write_bytes(torn.read_bytes()[:-100])
    (tmp_path / "runs" / ".part-7").write_bytes(b"PAR1")
    again = run(tasks(2), out=tmp_path, jobs=1)
    assert again.computed == 1
    assert _same(again, whole)
    assert not (tmp_path / "runs" / ".part-7").exists()


def test_changed_spec_never_returns_old_results(tmp_path: Path) -> None:
    def of(**changes: Any) -> Results:
        return run_spec(parse_spec({**SPEC, **changes}), out=tmp_path, jobs=1)

    first = of()
    sketch = {**SPEC["recipes"]["sketch"], "radius": 0.9}
    changed = of(recipes={**SPEC["recipes"], "sketch": sketch})
    assert changed.computed == 6
    assert len(list((tmp_path / "runs").iterdir())) == 12
    assert set(changed.table["radius"].to_pylist()) == {"0.9", "none"}
    assert "0.3" not in (tmp_path / "summary.csv").read_text(encoding="utf-8")
    assert of(seed=8).computed == 12
    assert of(rounds=51).computed == 12
    assert of().table.equals(first.table)


def test_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    started = _start("-c", f"from tests.lab.gated import run_gated; run_gated({str(tmp_path)!r})")
    _wait_for_runs(out, at_least=3)
    started.kill()
    started.communicate()
    before = _times(out)
    gate.touch()
    finished = run(gated_tasks(gate), out=out, jobs=1)
    assert (len(before), finished.computed) == (3, 3)
    assert before.items() <= _times(out).items()
    assert _same(finished, run(gated_tasks(gate), out=tmp_path / "fresh", jobs=1))


def test_interrupt_is_answered_with_one_line_and_130(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.toml", rounds=20_000, trials=8)
    started = _start("-m", "fedbandit.cli", "run", spec, "--out", tmp_path / "out", "--jobs", "2")
    _wait_for_runs(tmp_path / "out", at_least=1)
    os.killpg(started.pid, signal.SIGINT)  # what a terminal does: workers are told as well
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130
    assert out == ""
    assert err == "fedbandit: interrupted; the same command continues from here\n"


@pytest.mark.parametrize(("error", "jobs"), [(ZeroDivisionError, 1), (OutputError, 2)])
def test_error_stops_the_run_and_names_it(
    tmp_path: Path, error: type[Exception], jobs: int
) -> None:
    bad = task(setting="torn", trial=4, world=Broken(error))
    with pytest.raises(error, match="the tape is torn") as caught:
        run([*tasks(2), bad], out=tmp_path, jobs=jobs)
    assert caught.value.__notes__ == [
        "This happened in the run torn / sketch (radius 0.3), trial 4."
    ]
    kept = run(tasks(2), out=tmp_path, jobs=1)
    assert kept.table.num_rows == 100


def test_lost_worker_is_told_from_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"killed from outside.*fewer --jobs"):
        run([*tasks(2), task(world=Deadly())], out=tmp_path, jobs=2)


def test_progress_hears_of_everything_and_of_the_end(tmp_path: Path) -> None:
    run(tasks(1), out=tmp_path, jobs=1)
    heard = Heard()
    run([*tasks(3), task(algorithm="other")], out=tmp_path, jobs=1, progress=heard)
    assert heard.total == {"sketch": 150, "other": 50}
    assert heard.done == {"sketch": 50, "other": 0}
    assert heard.made == {"sketch": 100, "other": 50}
    assert heard.ended


def test_progress_ends_when_a_run_fails(tmp_path: Path) -> None:
    heard = Heard()
    with pytest.raises(ValueError, match="torn"):
        run([task(world=Broken(ValueError))], out=tmp_path, jobs=1, progress=heard)
    assert heard.ended


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5])
def test_jobs_that_cannot_be_are_refused(tmp_path: Path, jobs: Any) -> None:
    with pytest.raises(InvalidParameter, match="jobs must be a whole number of at least 1"):
        run(tasks(1), out=tmp_path / "out", jobs=jobs)
    assert not (tmp_path / "out").exists()


def test_nothing_runs_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        run([task(world=Broken(AssertionError))], out=tmp_path / "file", jobs=1)


def _same(one: Results, other: Results) -> bool:
    return bool(without_seconds(one.table).equals(without_seconds(other.table)))


def _times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("*.parquet")}


def _start(*arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _wait_for_runs(out: Path, *, at_least: int) -> None:
    for _ in range(3000):
        if len(list((out / "runs").glob("*.parquet"))) >= at_least:
            return
        time.sleep(0.01)
    pytest.fail("no run was finished in half a minute")


@dataclass(frozen=True)
class KillsOnce:
    """A world that kills the process that plays it, the first time."""

    mark: str
    seed: int = 0
    dimension: int = 4
    agents: int = 2

    @property
    def params(self) -> dict[str, object]:
        return {"seed": self.seed}

    def rounds(self, n: int) -> Any:
        if self.seed == 1 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from world(seed=self.seed).rounds(n)


def test_a_killed_worker_costs_its_own_runs_alone(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    given = [task(trial=seed, world=KillsOnce(mark, seed)) for seed in range(6)]
    results = run(given, out=tmp_path / "out", jobs=2)
    assert Path(mark).exists()
    again = run(given, out=tmp_path / "alone", jobs=1)
    assert without_seconds(results.table).equals(without_seconds(again.table))


def test_an_address_is_for_clusters(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="Choose backend dask or ray"):
        run(tasks(1), out=tmp_path, address="tcp://127.0.0.1:1")
    with pytest.raises(UnknownName, match="'ray'"):
        run(tasks(1), out=tmp_path, backend="rya")  # type: ignore[arg-type]
