"""Closed files of a log as Parquet, one row a record; context and actions as JSON text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fedbandit.errors import DataError, OutputError
from fedbandit.logs.files import lines_of
from fedbandit.logs.records import Record, record_in

_ROWS = 10_000  # records that are in memory at once
_NUMBERS = pa.list_(pa.float64())
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("id", pa.string()),
        ("time", pa.float64()),
        ("agent", pa.string()),
        ("version", pa.int64()),
        ("chosen", pa.int64()),
        ("probability", pa.float64()),
        ("reward", pa.float64()),
        ("default", pa.bool_()),
        ("deferred", pa.bool_()),
        ("arms", pa.list_(_NUMBERS)),
        ("own", _NUMBERS),
        ("means", _NUMBERS),
        ("context", pa.string()),
        ("actions", pa.string()),
        ("head", pa.string()),
    ]
)
_AS_TEXT = ("context", "actions")


def to_parquet(source: Path, target: Path) -> int:
    """Write the records of a line file as Parquet; return how many lines could not be read."""
    draft, unread = target.with_suffix(".new"), 0
    rows: list[dict[str, Any]] = []
    try:
        with pq.ParquetWriter(draft, SCHEMA, compression="zstd") as out:
            for _, line, _ in lines_of(source):
                try:
                    rows.append(_row(record_in(line)))
                except msgspec.DecodeError:
                    unread += 1
                if len(rows) >= _ROWS:
                    out.write_table(pa.Table.from_pylist(rows, SCHEMA))
                    rows = []
            out.write_table(pa.Table.from_pylist(rows, SCHEMA))
        os.replace(draft, target)
    except OSError as error:
        fix = "Free some space."
        raise OutputError(f"Cannot write {target}: {error.strerror or error}. {fix}") from error
    return unread


def records_in(path: Path) -> Iterator[Record]:
    """Yield the records of a Parquet file of a log."""
    try:
        with pq.ParquetFile(path) as file:
            if not {"kind", "id"} <= set(file.schema_arrow.names):
                raise _no_log(path, f"columns {', '.join(file.schema_arrow.names[:8])}")
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    yield _record(row)
    except (pa.ArrowException, msgspec.ValidationError) as error:
        raise _no_log(path, str(error)) from error


def _row(record: Record) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    if plain["kind"] == "log":
        return {"kind": "log", "head": msgspec.json.encode(plain).decode()}
    for name in _AS_TEXT:
        if name in plain:
            plain[name] = msgspec.json.encode(plain[name]).decode()
    return plain


def _record(row: dict[str, Any]) -> Record:
    if row["kind"] == "log":
        return record_in(row["head"].encode())
    given = {name: value for name, value in row.items() if value is not None and name != "head"}
    for name in _AS_TEXT:
        if name in given:
            given[name] = msgspec.json.decode(given[name])
    record: Record = msgspec.convert(given, Record)
    return record


def _no_log(path: Path, got: str) -> DataError:
    fix = "Give a file that an agent has written, or convert it first: fedbandit log convert."
    return DataError(f"{path}: not a log: got {got}. {fix}")
