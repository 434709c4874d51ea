"""Data sets in local files: CSV, Parquet and NPZ."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fedbandit.errors import DataError, complaint, missing_extra, unknown
from fedbandit.worlds.recorded.categories import MOST_VALUES, Categories, hashed, one_hot
from fedbandit.worlds.recorded.dataset import Dataset, check_finite
from fedbandit.worlds.recorded.targets import candidates, refuse_index, target_of

TABLES = (".csv", ".parquet")
"""Extensions of files that are tables with named columns."""

EXTENSIONS = (*TABLES, ".npz")
"""Extensions of all files that can be read."""


def load_file(
    path: Path, *, target_column: str | None = None, categories: Categories = "refuse"
) -> Dataset:
    """Read a data set from a file, by its extension.

    A CSV (with a header line) or a Parquet file holds numeric features and one column of labels,
    named by ``target_column``; without it, the labels are found where the columns tell which they
    are (``targets``). ``categories`` says what becomes of features that are text. An NPZ file holds
    features ``X`` (n x p) and labels ``y`` (n).
    """
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise _unusable(
            path,
            got=f"the extension {extension!r}",
            expected=f"one of {', '.join(EXTENSIONS)}",
            fix="Convert the file, or make a Dataset in Python.",
        )
    try:
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise _unusable(path, got=reason, expected="a data file", fix="Check the path.") from error
    if extension == ".npz":
        return _load_arrays(path)
    return _load_table(path, target_column, categories)


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


def _load_table(path: Path, target_column: str | None, categories: Categories) -> Dataset:
    names, table = _read_table(path, target_column)
    who = f"data file {path}"
    if table.num_rows == 0:
        raise _unusable(path, got="no rows", expected="a row per instance", fix="Add rows.")
    refuse_index(who, table)
    if target_column is None:
        target = target_of(who, table)
    elif target_column in names:
        target = names.index(target_column)
    else:
        raise unknown(f"target column of {path.name}", target_column, names)
    inputs = [index for index in range(len(names)) if index != target]
    read, features = _features(path, table, inputs, categories)
    check_finite(who, features, read)
    labels = _measured(_labels(path, table, target).to_pylist())
    data = Dataset.from_labels(path.name, features, labels)
    return replace(data, feature_names=tuple(read), label_name=names[target])


def _labels(path: Path, table: Any, target: int) -> Any:
    """Return the column of labels; of a CSV as text, since as numbers 01 and 1 would be one."""
    if path.suffix.lower() == ".parquet":
        return table.column(target)
    return _read_csv(path, as_text=table.column_names[target]).column(target)


def _read_csv(path: Path, *, as_text: str | None = None) -> Any:
    import pyarrow
    from pyarrow import csv as arrow

    types = {} if as_text is None else {as_text: pyarrow.string()}
    options = arrow.ConvertOptions(strings_can_be_null=True, column_types=types)
    return arrow.read_csv(path, convert_options=options)


def _read_table(path: Path, target_column: str | None) -> tuple[list[str], Any]:
    """Return the names of the columns, which may fail to decode too, and the table."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "lab", f"reading {path.name}") from error
    try:
        if path.suffix.lower() == ".parquet":
            table = parquet.read_table(path)
        else:
            _check_header(path, target_column)
            table = _read_csv(path)
        return table.column_names, table
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, csv.Error) as error:
        raise _unreadable(path, error) from error


def _check_header(path: Path, target_column: str | None) -> None:
    """Raise DataError if the first line does not name columns.

    If features are named by numbers other than 0, 1, 2, ..., the line is data, not a header.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), [""])
    if len(names) == 1 and (other := {";", "\t"} & set(names[0])):
        got, expected = f"columns separated by {other.pop()!r}", "commas between columns"
        fix = "Save it with commas, and with points in decimal numbers."
        raise _unusable(path, got=got, expected=expected, fix=fix)
    label = names[-1] if target_column is None else target_column
    features = [name for name in names if name != label]
    if any(map(_is_number, features)) and features != list(map(str, range(len(features)))):
        raise _unusable(
            path,
            got=f"a first line with numbers ({', '.join(names[:3])}, ...)",
            expected="a header line that names the columns",
            fix="Add one.",
        )


def _features(
    path: Path, table: Any, columns: Sequence[int], categories: Categories
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of the features and their matrix; a missing number is NaN."""
    from pyarrow import types

    names: list[str] = []
    blocks = [np.empty((table.num_rows, 0))]
    for index in columns:
        column, name = table.column(index), table.column_names[index]
        kind = column.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            named = [name], column.cast("float64", safe=False).to_numpy()[:, np.newaxis]
        elif categories == "hashed":
            named = hashed(name, column.to_pylist())
        elif categories == "one-hot" and len(column.unique()) <= MOST_VALUES:
            named = one_hot(name, column.to_pylist())
        else:
            raise _not_numbers(path, table, index)
        names, blocks = [*names, *named[0]], [*blocks, named[1]]
    return names, np.hstack(blocks)


def _not_numbers(path: Path, table: Any, index: int) -> DataError:
    column, name = table.column(index), table.column_names[index]
    return _unusable(
        path,
        got=f"column {name!r} of type {column.type}{_example(column)}",
        expected="numbers, with decimal points, in every column but the labels'",
        fix=f"Name the label column (target_column: {candidates(table)}), drop the column, or set "
        'categories = "one-hot" or "hashed".',
    )


def _measured(labels: list[Any]) -> list[Any]:
    """Turn labels that are text into numbers if all are numbers and some have decimals.

    Those are measurements, not classes, and are refused later; other labels stay text.
    """
    known = [label for label in labels if label is not None]
    if all(isinstance(label, str) and _is_number(label) for label in known):
        numbers = [None if label is None else float(label) for label in labels]
        if not all(number is None or number.is_integer() for number in numbers):
            return numbers
    return labels


def _example(column: Any) -> str:
    """Show the first text in a column that is not a number, if there is any."""
    texts = (value for value in column.to_pylist() if isinstance(value, str))
    odd = next((text for text in texts if not _is_number(text)), None)
    return "" if odd is None else f" ({odd[:40]!r}, say)"


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
