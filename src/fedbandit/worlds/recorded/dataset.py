"""Rows of features with a class each, from which a classification world is made."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.core.checks import whole
from fedbandit.errors import DataError, complaint, unknown
from fedbandit.worlds.recorded.labels import encode


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features (n x p) and the class of every row, as an index into the names of the classes.

    Checked when made: at least two classes, each with a row, and more rows than classes; every
    feature a finite number. Both arrays are copied and cannot be written. Two data sets are equal
    when their name, content and class names are. ``feature_names`` and ``label_name`` are those of
    a file's columns, for people.
    """

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    label_name: str = ""

    def __post_init__(self) -> None:
        features = _matrix(self._who, self.features)
        labels = _indices(self._who, self.labels, rows=len(features))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "classes", tuple(map(str, self.classes)))
        self._check_classes()

    @classmethod
    def from_labels(cls, name: str, features: ArrayLike, labels: Sequence[object]) -> Self:
        """Make a data set from labels that are whole numbers or text, one a row.

        Classes are sorted, as numbers when all of them are (so 10 follows 9), otherwise as text.
        """
        codes, classes = encode(f"data set {name!r}", labels)
        return cls(name, np.asarray(features), codes, classes)

    @cached_property
    def digest(self) -> str:
        """Hex sha256 of shape, features (float64) and labels (int64), row by row, little-endian."""
        content = hashlib.sha256(f"{self.features.shape}".encode())
        content.update(self.features.astype("<f8").tobytes())
        content.update(self.labels.astype("<i8").tobytes())
        return content.hexdigest()

    def index_of(self, target: int | str) -> int:
        """Return the index of a class given by its name (text) or by that index (a number)."""
        if isinstance(target, str):
            if target not in self.classes:
                raise unknown(f"class of {self._who}", target, self.classes)
            return self.classes.index(target)
        last = len(self.classes) - 1
        return whole("target", target, least=0, most=last, why=f"a class of {self._who}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Callable[..., "Dataset"], tuple[object, ...]]:
        """Pickle a bundled data set by name, others by content, which is checked when unpickled."""
        from fedbandit.worlds.recorded.bundled import BUNDLED, load_bundled  # imports this module

        if self.name in BUNDLED and self is load_bundled(self.name):
            return load_bundled, (self.name,)
        named = (self.feature_names, self.label_name)
        return type(self), (self.name, self.features, self.labels, self.classes, *named)

    def __repr__(self) -> str:
        n, p = self.features.shape
        return f"Dataset({self.name!r}, rows={n}, features={p}, classes={len(self.classes)})"

    @property
    def reading(self) -> str:
        """Which rows, columns and classes it has, in a line for people."""
        rows, features = self.features.shape
        read = f"{rows:,} rows, {features} features{_shown(self.feature_names)}"
        labels = f" of {self.label_name!r}" if self.label_name else ""
        return f"{self.name}: {read}, {len(self.classes)} classes{labels}{_shown(self.classes)}"

    @property
    def _identity(self) -> tuple[object, ...]:
        return (self.name, self.digest, self.classes)

    @property
    def _who(self) -> str:
        return f"data set {self.name!r}"

    def _check_classes(self) -> None:
        present = np.unique(self.labels)
        if len(self.classes) < 2:
            got, fix = f"{len(self.classes)} class", "Check which column holds the labels."
        elif repeated := [name for name, times in Counter(self.classes).items() if times > 1]:
            got = f"the class name {repeated[0]!r} twice"
            fix = "Give every class a name of its own, or merge the labels."
        elif not np.array_equal(present, np.arange(len(self.classes))):
            got = f"{len(self.classes)} class names and labels {_some(present.tolist())}"
            fix = "Number the labels 0, 1, ... in the order of the names, leaving none out."
        elif len(self.labels) <= len(self.classes):
            got = f"{len(self.labels)} rows in {len(self.classes)} classes"
            fix = "Give more rows, or check that the label column is not an identifier."
        else:
            return
        expected = "two or more classes by name, a row for each, and more rows than classes"
        raise DataError(complaint(self._who, got=got, expected=expected, fix=fix))


def check_finite(who: str, features: NDArray[np.float64], columns: Sequence[object]) -> None:
    """Raise for the first feature that is missing (NaN) or infinite, naming its column and row."""
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            complaint(
                who,
                got=f"{features[row, column]} in feature column {columns[column]!r}, row {row}, "
                f"and {len(bad) - 1} more like it",
                expected="a finite number in every feature",
                fix="Drop those rows or columns, or fill them in.",
            )
        )


def _matrix(who: str, features: ArrayLike) -> NDArray[np.float64]:
    given = np.asarray(features)
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "buif":
        raise DataError(
            complaint(
                who,
                got=f"features of shape {given.shape} and type {given.dtype}",
                expected="a matrix of numbers with at least one row and one column",
                fix="Give one row per instance and one column per feature, as numbers.",
            )
        )
    matrix = np.array(given, dtype=np.float64, order="C")
    check_finite(who, matrix, range(matrix.shape[1]))
    matrix.setflags(write=False)
    return matrix


def _indices(who: str, labels: ArrayLike, *, rows: int) -> NDArray[np.int64]:
    given = np.asarray(labels)
    if given.shape != (rows,) or given.dtype.kind not in "ui":
        raise DataError(
            complaint(
                who,
                got=f"labels of shape {given.shape} and type {given.dtype}",
                expected=f"{rows} whole numbers, one per row of the features",
                fix="Give one label per row; Dataset.from_labels takes text and other numbers.",
            )
        )
    indices = np.array(given, dtype=np.int64)
    indices.setflags(write=False)
    return indices


def _shown(names: Sequence[str]) -> str:
    if len(names) > 12:
        return f" ({', '.join(names[:3])}, ..., {names[-1]})"
    return f" ({', '.join(names)})" if names else ""


def _some(values: list[int]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return shown + (", ..." if len(values) > 5 else "")
