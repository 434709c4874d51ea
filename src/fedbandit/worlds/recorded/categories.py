"""Columns of text as numbers: one column for each value, or a few places by hashing."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbandit.hashing import name_hash

Categories = Literal["refuse", "one-hot", "hashed"]
HASHED_PLACES = 32
MOST_VALUES = 1000


def one_hot(name: str, values: Sequence[Any]) -> tuple[list[str], NDArray[np.float64]]:
    """Return a column for each value, in sorted order: 1 in the rows that have it; and names."""
    known = sorted({_text(value) for value in values})
    places = {value: place for place, value in enumerate(known)}
    matrix = np.zeros((len(values), len(known)))
    matrix[np.arange(len(values)), [places[_text(value)] for value in values]] = 1.0
    return [f"{name}={value}" for value in known], matrix


def hashed(name: str, values: Sequence[Any]) -> tuple[list[str], NDArray[np.float64]]:
    """Return ``HASHED_PLACES`` columns: each row has 1 or -1 in the place of its value."""
    matrix = np.zeros((len(values), HASHED_PLACES))
    for row, value in enumerate(values):
        mixed = name_hash(f"{name}={_text(value)}")
        matrix[row, (mixed >> 1) % HASHED_PLACES] = 1.0 - 2.0 * (mixed & 1)
    return [f"{name}#{place}" for place in range(HASHED_PLACES)], matrix


def _text(value: object) -> str:
    """Return a value as text; what is missing is a value of its own."""
    return "" if value is None else str(value)
