"""Make the runs that are missing, in parallel, one BLAS thread each."""

import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from joblib import cpu_count, delayed
from threadpoolctl import threadpool_limits

from fedbandit.core.checks import one_of, whole
from fedbandit.core.kernels import compiler
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, LocalError, missing_extra
from fedbandit.lab.runs.columns import parameter_values
from fedbandit.lab.runs.engines import BACKENDS, MOST_LOSSES, Backend, on_cluster
from fedbandit.lab.runs.output import sole_writer
from fedbandit.lab.runs.progress import Progress
from fedbandit.lab.runs.records import Records, open_records, record
from fedbandit.lab.runs.task import Task
from fedbandit.lab.runs.workers import interrupts_held, pool
from fedbandit.simulation import simulate, warm_up
from fedbandit.worlds.replay import replayable
from fedbandit.worlds.round import World

_TOGETHER = 8  # tasks on one tape that a worker gets at a time


@dataclass(frozen=True)
class Results:
    """The finished runs of some tasks.

    ``table`` has the records of exactly ``tasks``, in their order, one row per checkpoint, with the
    columns of :data:`fedbandit.lab.SCHEMA`: labels, every parameter, and measures, which are totals
    from the first round on. ``computed`` runs were made by this call; the others were there
    already.
    """

    directory: Path
    tasks: tuple[Task, ...] = field(repr=False)
    table: pa.Table = field(repr=False)
    computed: int

    def frame(self, *, last: bool = False) -> Any:
        """Return the table for pandas, with a column for every parameter that a run has.

        ``last``: only what was reached after the last round, so a row for each run. Needs pandas.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise missing_extra("pandas", "dev", "Results.frame") from error
        frame = self.table.to_pandas()
        if last:
            frame = frame[frame["round"] == frame["rounds"]].reset_index(drop=True)
        known = {text: parameter_values(text or "") for text in frame["parameters"].unique()}
        own = {name for values in known.values() for name in values} - set(frame.columns)
        for name in sorted(own):
            frame[name] = [known[text].get(name) for text in frame["parameters"]]
        empty = [name for name in frame.columns if frame[name].isna().all()]
        return pd.DataFrame(frame.drop(columns=[*empty, "parameters"]))


def run_tasks(
    tasks: Sequence[Task],
    *,
    out: str | Path,
    jobs: int | None = None,
    progress: Progress | None = None,
    backend: Backend = "loky",
    address: str | None = None,
) -> Results:
    """Finish the tasks: read those that are stored below ``out``, make and store the others.

    A run is stored when it is finished, so an interruption loses at most the runs under way.
    ``OUT/runs`` then holds exactly these tasks; records of others are moved to ``OUT/earlier``.
    ``jobs`` processes work at once (default: the usable CPUs); their number changes no result,
    since every run has one BLAS thread and a tape of its own. ``backend``: "loky" is processes of
    this machine; "dask" and "ray" are clusters, which run at ``address`` or are started here. A
    worker that dies costs its own runs alone: they are made again.
    """
    one_of("backend", backend, BACKENDS)
    if address is not None and backend == "loky":
        raise InvalidParameter("address: loky works on this machine. Choose backend dask or ray.")
    workers = cpu_count() if jobs is None else whole("jobs", jobs, least=1)
    records = open_records(out)
    tasks = tuple({task.key: task for task in tasks}.values())
    with sole_writer(records.directory):
        missing = records.settle(tasks)
        maker = _make if backend == "loky" else partial(_make_on_cluster, backend, address)
        _compile_once(missing)
        with (
            _shown(progress, tasks, missing) as display,
            closing(maker(missing, records, min(workers, len(missing)))) as finished,
        ):
            for task in finished:
                if display is not None:
                    display.advance(task.algorithm, task.rounds)
        return Results(records.directory, tasks, records.read_all(tasks), len(missing))


def _compile_once(tasks: Sequence[Task]) -> None:
    """Compile the kernels once and leave them on disk, so that no worker has to."""
    recipes = [task.recipe for task in tasks if isinstance(task.recipe, Recipe)]
    for recipe in {type(recipe.parts.memory): recipe for recipe in recipes}.values():
        warm_up(recipe)


def _make(tasks: Sequence[Task], records: Records, workers: int) -> Generator[Task, None, None]:
    """Yield every task when its record is on disk, in the order in which they finish.

    If a worker dies, what is not on disk yet is given to new ones, a few times.
    """
    if workers <= 1:
        for group in _sharing_a_world(tasks):
            yield from _make_group(group, records)
        return
    left, losses = {task.key: task for task in tasks}, 0
    while left:
        try:
            for task in _make_on_loky(list(left.values()), records, workers):
                del left[task.key]
                yield task
        except BrokenProcessPool as error:
            losses += 1
            if losses > MOST_LOSSES:
                raise _worker_lost() from error
            for task in [each for each in left.values() if records.read(each) is not None]:
                del left[task.key]
                yield task


def _make_on_loky(
    tasks: Sequence[Task], records: Records, workers: int
) -> Generator[Task, None, None]:
    groups = _sharing_a_world(tasks)
    with interrupts_held():
        finished = pool(workers, as_finished=True)(
            delayed(_make_in_worker)(index, group, records) for index, group in enumerate(groups)
        )
    try:
        for index in finished:
            yield from groups[index]
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns that work is dropped, which is intended
            finished.close()


def _make_on_cluster(
    backend: Backend, address: str | None, tasks: Sequence[Task], records: Records, workers: int
) -> Generator[Task, None, None]:
    """Yield every task when its record has come back and is on disk."""
    by_key = {task.key: task for task in tasks}
    groups = _sharing_a_world(tasks)
    if not groups:
        return
    made = on_cluster(backend, _tables, groups, workers=max(workers, 1), address=address)
    for tables in made:
        for key, content in tables:
            with pa.ipc.open_stream(content) as stream:
                records.write(key, stream.read_all())
            yield by_key[key]


def _tables(group: Sequence[Task]) -> list[tuple[str, bytes]]:
    """Make tasks that share a world; return the key and the record of each, as bytes of Arrow."""
    found = []
    for task, table in _played(group):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        found.append((task.key, sink.getvalue().to_pybytes()))
    return found


def _sharing_a_world(tasks: Sequence[Task]) -> list[list[Task]]:
    """Group tasks that play the same rounds of the same world, a few to a group."""
    by_tape: dict[tuple[int, int], list[Task]] = {}
    for task in tasks:
        by_tape.setdefault((id(task.world), task.rounds), []).append(task)
    return [
        group[start : start + _TOGETHER]
        for group in by_tape.values()
        for start in range(0, len(group), _TOGETHER)
    ]


def _make_in_worker(index: int, group: Sequence[Task], records: Records) -> int:
    """Make a group and return its index, which is cheaper to send back than its tasks."""
    for _ in _make_group(group, records):
        pass
    return index


def _make_group(group: Sequence[Task], records: Records) -> Iterator[Task]:
    """Make and store tasks that share a world."""
    for task, table in _played(group):
        with _named(task):
            records.write(task.key, table)
        yield task


def _played(group: Sequence[Task]) -> Iterator[tuple[Task, pa.Table]]:
    """Play tasks that share a world, whose tape is drawn once if it is short enough to keep."""
    compiler.load()  # a BLAS that is loaded later would not be limited
    world: World | None = None
    for task in group:
        with _named(task), threadpool_limits(limits=1):
            if world is None:
                world = replayable(task.world, task.rounds) if len(group) > 1 else task.world
            table = record(task, simulate(task.recipe, world, rounds=task.rounds))
        yield task, table


@contextmanager
def _named(task: Task) -> Iterator[None]:
    """Add the name of the run to any error; the note survives the way back from a worker."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"This happened in the run {task}.")
        raise


@contextmanager
def _shown(
    progress: Progress | None, tasks: Sequence[Task], missing: Sequence[Task]
) -> Iterator[Progress | None]:
    if progress is None or not missing:
        yield None
        return
    total = _rounds_per_algorithm(tasks)
    left = _rounds_per_algorithm(missing)
    progress.begin(total=total, done={name: total[name] - left[name] for name in total})
    try:
        yield progress
    finally:
        progress.end()


def _rounds_per_algorithm(tasks: Iterable[Task]) -> Counter[str]:
    rounds: Counter[str] = Counter()
    for task in tasks:
        rounds[task.algorithm] += task.rounds
    return rounds


def _worker_lost() -> LocalError:
    return LocalError(
        "run: worker processes were killed from outside several times, perhaps for lack of memory. "
        "Run the same command again with fewer --jobs: finished runs are kept."
    )
