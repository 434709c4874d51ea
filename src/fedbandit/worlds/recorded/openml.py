"""Data sets from OpenML: downloaded on demand, cached, checked against their md5."""

import os
import sys
import warnings
from http.client import HTTPException
from pathlib import Path
from typing import Any

from fedbandit.errors import DataError, OutputError, complaint, missing_extra
from fedbandit.worlds.recorded.bundled import BUNDLED
from fedbandit.worlds.recorded.dataset import Dataset


def load_openml(data_id: int, *, cache: Path | None = None) -> Dataset:
    """Return OpenML's data set of that number, from the cache if it has been loaded before.

    scikit-learn downloads it and compares it with the md5 that OpenML publishes, on every load.
    """
    who = f"openml:{data_id}"
    bunch = _fetch(who, data_id, cache=cache_directory() if cache is None else cache)
    _check(who, bunch)
    return Dataset.from_labels(who, bunch.data, bunch.target.tolist())


def _check(who: str, bunch: Any) -> None:
    """Raise for what scikit-learn reads but a world cannot use.

    Categories would arrive as numbers without meaning; labels of a sparse file are not reliable,
    since scikit-learn leaves those that the file omits (the first class) uninitialised.
    """
    categories = [name for name in bunch.feature_names if name in bunch.categories]
    if categories:
        got = f"feature columns that are categories ({', '.join(categories[:5])})"
    elif hasattr(bunch.data, "toarray"):
        got = "a sparse file"
    elif len(bunch.target_names) != 1:
        got = f"{len(bunch.target_names)} default label columns"
    else:
        return
    expected = "a dense table of numbers with one column of labels"
    fix = "Download it by hand, bring it to that form and pass the path of the file."
    raise DataError(complaint(who, got=got, expected=expected, fix=fix))


def cache_directory() -> Path:
    """Return where downloads are kept: FEDBANDIT_CACHE, else the platform's place for caches."""
    if chosen := os.environ.get("FEDBANDIT_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fedbandit"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "fedbandit"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "fedbandit"


def _fetch(who: str, data_id: int, *, cache: Path) -> Any:
    try:
        from sklearn.datasets import fetch_openml
        from sklearn.externals._arff import ArffException
    except ImportError as error:
        raise missing_extra("scikit-learn", "openml", f"loading {who}") from error
    _make(cache)
    failures = (OSError, ValueError, KeyError, EOFError, HTTPException, ArffException)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A network error occurred")
        warnings.filterwarnings("ignore", "Invalid cache, redownloading")
        try:
            return fetch_openml(
                data_id=data_id, data_home=cache, as_frame=False, parser="liac-arff"
            )
        except failures as error:
            raise _failed(who, error, cache) from error


def _failed(who: str, error: Exception, cache: Path) -> DataError:
    damaged = f", or remove {cache / 'openml'} and try again" if "md5" in str(error) else ""
    return DataError(
        complaint(
            who,
            got=f"{type(error).__name__} ({error})",
            expected="an answer from OpenML that matches its checksum",
            fix=f"Check the number and the network{damaged}. Without a network "
            f"use {', '.join(BUNDLED)}, or download it by hand and pass the path of "
            "a .csv, .parquet or .npz file.",
        )
    )


def _make(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "Set FEDBANDIT_CACHE to another one."
        raise OutputError(f"cache directory {cache} cannot be made ({error}). {fix}") from error
