"""Data sets in local files: CSV, Parquet and NPZ."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fedbandit.errors import DataError, complaint, missing_extra, unknown
from fedbandit.worlds.dataset import Dataset, check_finite

TABLES = (".csv", ".parquet")
"""Extensions of files that are tables with named columns."""

EXTENSIONS = (*TABLES, ".npz")
"""Extensions of all files that can be read."""


def load_file(path: Path, *, target_column: str | None = None) -> Dataset:
    """Read a data set from a file, by its extension.

    A CSV (with a header line) or a Parquet file holds numeric features and one column of labels,
    named by ``target_column`` or else the last. An NPZ file holds features ``X`` (n x p) and
    labels ``y`` (n).
    """
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise _unusable(
            path,
            got=f"the extension {extension!r}",
            expected=f"one of {', '.join(EXTENSIONS)}",
            fix="Convert the file, or make a Dataset in Python.",
        )
    if not path.is_file():
        raise _unusable(
            path, got="no such file", expected="a data file", fix="Check the path and its spelling."
        )
    if extension == ".npz":
        return _load_arrays(path)
    return _load_table(path, target_column)


def _load_arrays(path: Path) -> Dataset:
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            found = dict(content) if isinstance(content, NpzFile) else {}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise _unreadable(path, error) from error
    if not {"X", "y"} <= found.keys():
        raise _unusable(
            path,
            got=f"arrays {', '.join(sorted(found)) or 'none'}",
            expected="features 'X' (n x p) and labels 'y' (n)",
            fix="Save it with numpy.savez(path, X=..., y=...).",
        )
    return Dataset.from_labels(path.name, found["X"], np.ravel(found["y"]).tolist())


def _load_table(path: Path, target_column: str | None) -> Dataset:
    names, table = _read_table(path)
    _check_header(path, names)
    if table.num_rows == 0:
        raise _unusable(path, got="no rows", expected="a row per instance", fix="Add rows.")
    if target_column is None:
        target = len(names) - 1
    elif target_column in names:
        target = names.index(target_column)
    else:
        raise unknown(f"target column of {path.name}", target_column, names)
    inputs = [index for index in range(len(names)) if index != target]
    features = _numbers(path, table, inputs)
    check_finite(f"data file {path}", features, [names[index] for index in inputs])
    return Dataset.from_labels(path.name, features, table.column(target).to_pylist())


def _read_table(path: Path) -> tuple[list[str], Any]:
    """Return the names of the columns, which may not decode either, and the table."""
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "lab", f"reading {path.name}") from error
    readers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda file: csv.read_csv(
            file, convert_options=csv.ConvertOptions(strings_can_be_null=True)
        ),
        ".parquet": parquet.read_table,
    }
    try:
        table = readers[path.suffix.lower()](path)
        return table.column_names, table
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _numbers(path: Path, table: Any, columns: Sequence[int]) -> NDArray[np.float64]:
    """Return the chosen columns side by side; a missing value is NaN."""
    from pyarrow import types

    matrix = np.empty((table.num_rows, len(columns)))
    for place, index in enumerate(columns):
        column = table.column(index)
        kind = column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise _unusable(
                path,
                got=f"column {table.column_names[index]!r} of type {kind}",
                expected="numbers in every column but the labels'",
                fix="Drop it or encode it as numbers, or name the label column (target_column).",
            )
        matrix[:, place] = column.cast("float64", safe=False).to_numpy()
    return matrix


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Raise if the first line is a row that would be lost: numbers that do not just count."""
    counted = [str(index) for index in range(len(names))]
    if path.suffix.lower() == ".csv" and names != counted and all(map(_is_number, names)):
        raise _unusable(
            path,
            got=f"a first line of numbers ({', '.join(names[:3])}, ...)",
            expected="a header line that names the columns",
            fix="Add one.",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unreadable(path: Path, error: Exception) -> DataError:
    return _unusable(
        path,
        got=f"a file that does not read ({error})",
        expected=f"a sound {path.suffix.lower()} file without pickled objects",
        fix="Write the file again.",
    )


def _unusable(path: Path, *, got: str, expected: str, fix: str) -> DataError:
    return DataError(complaint(f"data file {path}", got=got, expected=expected, fix=fix))
