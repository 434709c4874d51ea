"""Records are whole or not there."""

from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.errors import OutputError
from fedbandit.lab import SCHEMA, Task, read_runs
from fedbandit.lab.runs.output import sole_writer, writable_directory
from fedbandit.lab.runs.records import Records, open_records, record, whole_runs
from tests.lab.tiny import task, tasks


@dataclass(frozen=True)
class Written:
    """A record on disk, and what it is made of."""

    records: Records
    task: Task
    table: pa.Table = field(repr=False)
    content: bytes = field(repr=False)

    @property
    def path(self) -> Path:
        return self.records.path(self.task.key)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return open_records(tmp_path / "new" / "out")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One for all examples of a property: each writes the file anew."""
    records = open_records(tmp_path_factory.mktemp("records"))
    table = _put(records, task())
    return Written(records, task(), table, records.path(task().key).read_bytes())


def test_record_is_the_trace_at_its_checkpoints() -> None:
    one = task(rounds=430)
    trace = fb.simulate(one.recipe, one.world, rounds=430)
    table = record(one, trace)
    rounds = table["round"].to_pylist()
    assert table.schema.equals(SCHEMA)
    assert rounds[-1] == 430
    for name, per_round in (("reward", trace.rewards), ("seconds", trace.seconds)):
        sums = list(accumulate(per_round.tolist()))
        np.testing.assert_allclose(table[name].to_numpy(), [sums[t - 1] for t in rounds])
    for name in ("regret", "uploads", "scalars", "bytes"):
        assert table[name].to_pylist() == [getattr(trace, name)[t - 1] for t in rounds]
    for name in ("key", "setting", "algorithm", "radius", "trial", "rounds"):
        assert table[name].unique().to_pylist() == [getattr(one, name)]


def test_what_is_written_is_read(records: Records) -> None:
    table = _put(records, task())
    read = records.read(task())
    assert read is not None
    assert read.equals(table)
    assert [path.name for path in records.runs.iterdir()] == [f"{task().key}.parquet"]


@given(share=st.floats(0, 1, exclude_max=True))
def test_record_cut_anywhere_is_dropped(written: Written, share: float) -> None:
    written.path.write_bytes(written.content[: int(share * len(written.content))])
    assert written.records.read(written.task) is None
    with pytest.warns(UserWarning, match=written.path.name):
        assert read_runs(written.records.directory).num_rows == 0
    assert written.records.settle([written.task]) == (written.task,)
    assert not written.path.exists()


@given(share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_record_with_a_wrong_byte_never_gives_other_numbers(
    written: Written, share: float, flip: int
) -> None:
    content = bytearray(written.content)
    content[int(share * len(content))] ^= flip
    written.path.write_bytes(content)
    read = written.records.read(written.task)
    assert read is None or read.equals(written.table)


def test_record_of_another_task_under_this_name_is_dropped(records: Records) -> None:
    one, other = tasks(2)
    _put(records, one)
    records.path(one.key).rename(records.path(other.key))
    assert records.read(other) is None


def test_settling_sets_other_tasks_aside_and_fetches_them_back(records: Records) -> None:
    old, kept, new = tasks(3)
    tables = {each.key: _put(records, each) for each in (old, kept)}
    assert records.settle([kept, new]) == (new,)
    assert [path.stem for path in records.runs.iterdir()] == [kept.key]
    assert read_runs(records.directory).equals(tables[kept.key])
    assert records.settle([old]) == ()
    assert records.read_all([old]).equals(tables[old.key])
    assert records.settle([old, kept]) == ()


def test_settling_deletes_leftovers_and_leaves_strangers(records: Records) -> None:
    stranger, note = records.runs / "mine.parquet", records.runs / "README"
    for path in (stranger, note, records.runs / ".part-123"):
        path.write_text("not a record", encoding="utf-8")
    torn = records.path("0" * 32)
    torn.write_text("PAR1", encoding="utf-8")
    assert records.settle([task()]) == (task(),)
    assert set(records.runs.iterdir()) == {stranger, note}


def test_pandas_and_polars_open_the_directory(records: Records) -> None:
    for each in tasks(2):
        _put(records, each)
    (records.runs / ".part-123").write_text("half a record", encoding="utf-8")
    frame = pd.read_parquet(records.runs)
    other = pl.read_parquet(f"{records.runs}/*.parquet")
    assert list(frame.columns) == other.columns == SCHEMA.names
    assert len(frame) == len(other) == 100
    final = frame[frame["round"] == frame["rounds"]]
    assert final["regret"].sum() == pytest.approx(
        other.filter(pl.col("round") == pl.col("rounds"))["regret"].sum()
    )


def test_reading_all_runs_sorts_them(records: Records) -> None:
    for each in reversed(tasks(3)):
        _put(records, each)
    table = read_runs(records.directory)
    assert table["trial"].to_pylist() == [trial for trial in range(3) for _ in range(50)]
    assert table["round"].to_pylist() == list(range(1, 51)) * 3
    assert read_runs(records.directory / "nowhere").equals(SCHEMA.empty_table())


def test_what_cannot_be_read_is_told_from_what_can(records: Records) -> None:
    one, other = tasks(2)
    table = _put(records, one)
    torn = records.path(other.key)
    torn.write_bytes(b"PAR1")
    assert whole_runs(records.directory) == (table, [torn])
    torn.unlink()
    assert whole_runs(str(records.directory)) == (table, [])


def test_plot_says_what_it_leaves_out(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    plot = ["plot", str(records.directory), "--format", "png"]
    for each in (*tasks(2), task(algorithm="other")):
        _put(records, each)
    records.path("0" * 32).write_bytes(b"PAR1")
    assert main(plot) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"left out: 1 of 4 files in {str(records.runs)!r}, not whole records",
        "not finished: easy / other (radius 0.3) has 1 of 2 trials",
    ]
    for path in records.runs.iterdir():
        path.write_bytes(b"PAR1")
    assert main(plot) == 2
    assert "all 4 files in" in capsys.readouterr().err


@pytest.mark.parametrize("below", [False, True])
def test_file_in_the_way_is_an_output_error(tmp_path: Path, below: bool) -> None:
    file = tmp_path / "file"
    file.write_text("in the way", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        open_records(file / "out" if below else file)
    assert file.read_text(encoding="utf-8") == "in the way"


def test_writable_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    made = writable_directory(tmp_path / "a" / "b")
    assert made.is_dir()
    assert list(made.iterdir()) == []


def test_record_that_cannot_be_written_is_an_output_error(records: Records) -> None:
    records.runs.rmdir()
    with pytest.raises(OutputError, match="cannot be written"):
        _put(records, task())


def test_directory_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        sole_writer(tmp_path),
        pytest.raises(OutputError, match="another run is writing"),
        sole_writer(tmp_path),
    ):
        pytest.fail("two writers at once")
    with sole_writer(tmp_path):
        pass


def test_lock_in_the_way_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with (
        pytest.raises(OutputError, match=r"\.lock' cannot be written"),
        sole_writer(tmp_path),
    ):
        pytest.fail("nothing is held")


def test_file_in_the_way_of_earlier_runs_is_an_output_error(records: Records) -> None:
    old, new = tasks(2)
    _put(records, old)
    records.earlier.touch()
    with pytest.raises(OutputError, match="earlier' cannot be written"):
        records.settle([new])
    assert records.read(old) is not None


def test_directory_in_the_way_of_a_record_is_an_output_error(records: Records) -> None:
    records.path(task().key).mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        records.settle([task()])


def _put(records: Records, each: Task) -> pa.Table:
    table = record(each, fb.simulate(each.recipe, each.world, rounds=each.rounds))
    records.write(each.key, table)
    return table
