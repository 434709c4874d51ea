"""Load a data set by its name: from the package, from OpenML or from a file."""

import os
from pathlib import Path
from typing import get_args

from fedbandit.core.checks import one_of
from fedbandit.errors import DataError, InvalidParameter, complaint, unknown
from fedbandit.worlds.recorded.bundled import BUNDLED, load_bundled
from fedbandit.worlds.recorded.categories import Categories
from fedbandit.worlds.recorded.dataset import Dataset
from fedbandit.worlds.recorded.files import EXTENSIONS, TABLES, load_file

OPENML = "openml:"
"""Prefix of the names of OpenML's data sets, in upper or lower case."""


def load_dataset(
    source: str | os.PathLike[str],
    *,
    target_column: str | None = None,
    categories: Categories = "refuse",
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Return the data set called ``source``.

    - ``"satimage"``, ``"mfeat-zernike"``: inside the package.
    - ``"openml:22"``: downloaded by its number and kept in ``cache`` (the directory named by the
      variable FEDBANDIT_CACHE, or else the user's cache directory).
    - a path ending in ``.csv``, ``.parquet`` or ``.npz``: read from there; ``target_column`` names
      the column with the labels of a CSV or Parquet file. It may be left out where it is clear, as
      with one column called target or label. ``categories``: columns of text are refused, or
      become a column for each value ("one-hot"), or 32 columns by hashing ("hashed").
    """
    one_of("categories", categories, get_args(Categories))
    if not isinstance(source, str | os.PathLike):
        raise InvalidParameter(
            complaint(
                "data set",
                got=repr(source),
                expected="a name such as 'satimage' or 'openml:22', or a path",
                fix="Give it as text.",
            )
        )
    path = _expanded(Path(source))
    if target_column is not None and path.suffix.lower() not in TABLES:
        raise InvalidParameter(
            complaint(
                "target_column",
                got=f"{target_column!r} for {os.fspath(source)!r}",
                expected=f"a target column only for files ending in {' or '.join(TABLES)}",
                fix="Leave target_column out.",
            )
        )
    if isinstance(source, str) and source.lower().startswith(OPENML):
        from fedbandit.worlds.recorded.openml import load_openml  # brings in the network

        return load_openml(_number(source), cache=None if cache is None else Path(cache))
    if is_path(source):
        return load_file(path, target_column=target_column, categories=categories)
    if (name := os.fspath(source)) not in BUNDLED:
        files = f"a path ending in {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}"
        raise unknown("data set", name, (*BUNDLED, f"{OPENML}ID", files))
    return load_bundled(name)


def is_path(source: str | os.PathLike[str]) -> bool:
    """Whether this names a file, not a data set of the package or of OpenML."""
    path = Path(source)
    named = path.suffix != "" or len(path.parts) > 1
    return named and not os.fspath(source).lower().startswith(OPENML)


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # ~name of an unknown user
        message = complaint(
            f"data file {path}", got=str(error), expected="a data file", fix="Check the path."
        )
        raise DataError(message) from error


def _number(source: str) -> int:
    text = source[len(OPENML) :]
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise DataError(
            complaint(
                "OpenML data set",
                got=repr(source),
                expected="openml: and the number of a data set, as in openml:182",
                fix="Look the number up in the address of the data set's page.",
            )
        )
    return int(text)
