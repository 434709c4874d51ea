"""What is written is read again; what is broken is skipped and counted."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from fedbandit.errors import DataError, InvalidParameter, OutputError
from fedbandit.logs import Event, LogTo, LogWriter, read
from tests.logs.made_logs import decided, events, same, write


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made)


@given(events())
@settings(max_examples=20, deadline=None)
def test_events_come_back_as_they_were(given: list[Event]) -> None:
    with TemporaryDirectory() as place:
        write(Path(place), given)
        reader = read(place)
        found = list(reader)
    assert len(found) == len(given) == reader.tally.events
    assert all(map(same, given, found))
    assert not reader.tally.skipped
    assert all(event.agent == "till" for event in found)


@given(events(), st.floats(0.0, 1.0))
@settings(max_examples=25, deadline=None)
def test_a_log_cut_anywhere_has_all_whole_records(given: list[Event], share: float) -> None:
    with TemporaryDirectory() as place:
        write(Path(place), given)
        (file,) = Path(place).glob("*.ndjson")
        whole = file.read_bytes()
        cut = max(1, round(share * len(whole)))
        file.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        if not lines and cut < len(whole.splitlines()[0]):
            with pytest.raises(DataError, match="expected lines of JSON"):
                list(read(place))
            return
        reader = read(place)
        rewards = max(0, lines - 1 - len(given))
        at_least = list(reader)
        # a line without its end may be whole all the same
        assert rewards <= len(at_least) <= rewards + 1
        assert reader.tally.skipped["a torn line at the end"] <= 1


def test_a_writer_goes_on_after_a_torn_line(place: Path) -> None:
    log = LogWriter(place)
    log.decided(decided("a"))
    log.close()
    (file,) = place.glob("*.ndjson")
    with open(file, "ab") as torn:
        torn.write(b'{"kind":"decision","id":"b","cho')
    again = LogWriter(place)
    again.rewarded("a", 1.0)
    again.close()
    reader = read(place)
    assert [event.id for event in reader] == ["a"]
    assert reader.tally.skipped == {"a line that cannot be read": 1}


def test_what_makes_no_sense_is_left_out_and_counted_by_its_reason(place: Path) -> None:
    log = LogWriter(place)
    log.decided(decided("good"))
    log.decided(decided("good"))
    log.decided(decided("never", probability=0.0))
    log.decided(decided("beyond", chosen=7))
    log.decided(decided("silent"))
    for name in ("good", "good", "never", "beyond", "foreign"):
        log.rewarded(name, 1.0)
    log.close()
    reader = read(place)
    assert [event.id for event in reader] == ["good"]
    assert reader.tally.skipped == {
        "a decision's id came twice": 1,
        "a chosen arm whose logged probability is 0": 1,
        "a chosen arm that is not among the arms": 1,
        "a second reward": 1,
        "the reward of a decision that is left out": 2,
        "a reward for a decision of another log": 1,
        "no reward": 1,
    }
    assert "decisions-000001.ndjson, line 3, id good" in "".join(reader.tally.sentences())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"kind":"decision","id":"x","chosen":0,"probability":1,"arms":[[NaN]]}',
            "cannot be read",
        ),
        ('{"kind":"decision","id":"x","chosen":0,"probability":1,"arms":[[1],[1,2]]}', "lengths"),
        ('{"kind":"decision","id":"x","chosen":0,"probability":1,"arms":[[1e999]]}', "cannot be"),
        (
            '{"kind":"decision","id":"x","chosen":0,"probability":1.5,"arms":[[1]]}',
            "outside 0 to 1",
        ),
        ('{"kind":"decision","id":"x","chosen":0,"probability":1}', "no arms and no actions"),
        (
            '{"kind":"decision","id":"x","chosen":0,"probability":1,"arms":[[1],[2]],"own":[2,-1]}',
            "probabilities of the agent's own",
        ),
        ('{"kind":"unheard of"}', "cannot be read"),
    ],
)
def test_a_bad_line_does_not_hide_the_good_ones(place: Path, line: str, reason: str) -> None:
    log = LogWriter(place)
    log.decided(decided("a"))
    log.close()
    (file,) = place.glob("*.ndjson")
    file.write_text(file.read_text() + line + '\n{"kind":"reward","id":"a","reward":2}\n')
    reader = read(place)
    assert [event.reward for event in reader] == [2.0]
    assert len(reader.tally.skipped) == 1
    assert reason in next(iter(reader.tally.skipped))


def test_a_log_is_bounded_and_keeps_the_latest(place: Path) -> None:
    log = LogWriter(LogTo(place, file_bytes=4096, total_bytes=12288))
    for number in range(1000):
        log.decided(decided(f"{number}"))
        log.rewarded(f"{number}", 1.0)
    log.close()
    total = sum(path.stat().st_size for path in place.iterdir())
    assert 4096 < total <= 12288 + 4096
    reader = read(place)
    kept = [int(event.id) for event in reader]
    assert kept == list(range(kept[0], 1000))
    assert kept[0] > 0


def test_files_become_parquet_and_read_the_same(place: Path) -> None:
    lines, columns = place / "lines", place / "columns"
    for directory, parquet in ((lines, False), (columns, True)):
        log = LogWriter(LogTo(directory, file_bytes=4096, parquet=parquet), agent="till")
        for number in range(100):
            log.decided(decided(f"{number}", chosen=number % 2))
            log.rewarded(f"{number}", float(number))
        log.close()
    assert {path.suffix for path in columns.iterdir()} == {".parquet", ".ndjson", ""}
    assert all(map(same, read(lines), read(columns)))
    assert read(columns).head == read(columns).head is not None


def test_deferred_decisions_count_once_they_are_activated(place: Path) -> None:
    log = LogWriter(place)
    for name in ("shown", "never"):
        log.decided(structs.replace(decided(name), deferred=True))
    log.activated("shown")
    log.close()
    reader = read(place, default_reward=0.0)
    assert [(event.id, event.reward) for event in reader] == [("shown", 0.0)]
    assert reader.tally.skipped == {"deferred and never activated": 1}


def test_memory_is_bounded_by_the_window(place: Path) -> None:
    log = LogWriter(place)
    for number in range(50):
        log.decided(decided(f"{number}"))
    for number in range(50):
        log.rewarded(f"{number}", 1.0)
    log.close()
    reader = read(place, window=10)
    assert [int(event.id) for event in reader] == list(range(40, 50))
    assert reader.tally.skipped["no reward"] == 40
    assert reader.tally.skipped["a second reward"] == 10
    assert reader.tally.skipped["a reward for a decision of another log"] == 30


def test_pandas_and_polars_read_it(place: Path) -> None:
    log = LogWriter(place)
    log.decided(decided("a"))
    log.rewarded("a", 1.0)
    log.close()
    (file,) = place.glob("*.ndjson")
    frame = pd.read_json(file, lines=True)
    joined = frame[frame.kind == "decision"].merge(frame[frame.kind == "reward"], on="id")
    assert joined.reward_y.tolist() == [1.0]
    assert pl.read_ndjson(file)["kind"].to_list() == ["log", "decision", "reward"]


def test_one_process_writes_and_the_second_is_told(place: Path) -> None:
    log = LogWriter(place)
    with pytest.raises(OutputError, match="written by another process"):
        LogWriter(place)
    log.close()
    LogWriter(place).close()


def test_bounds_and_files_of_the_wrong_kind_are_refused_by_name(place: Path) -> None:
    with pytest.raises(InvalidParameter, match="total_bytes"):
        LogTo(place, total_bytes=5000)
    with pytest.raises(DataError, match="a directory without a log"):
        read(place)
    with pytest.raises(DataError, match=r"gone\.ndjson: cannot be read"):
        read(place / "gone.ndjson")
    (place / "some.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"some\.csv: got a file that begins with b'a,b'"):
        list(read(place / "some.csv"))
    (place / "wrong.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"wrong\.parquet: not a log"):
        list(read(place / "wrong.parquet"))
    newer = {"kind": "log", "format": 99}
    (place / "newer.ndjson").write_text(json.dumps(newer) + "\n")
    with pytest.raises(DataError, match="got format 99"):
        read(place / "newer.ndjson")
    (place / "ours.ndjson").write_text(json.dumps({"kind": "log", "format": 1}) + "\n")
    with pytest.raises(DataError, match=r"newer\.ndjson: got format 99"):
        list(read([place / "ours.ndjson", place / "newer.ndjson"]))
    with pytest.raises(InvalidParameter, match="default_reward: got nan"):
        read(place / "ours.ndjson", default_reward=float("nan"))
