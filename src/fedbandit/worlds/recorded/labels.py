"""Turn labels, which are numbers or text, into class indices."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedbandit.errors import DataError, complaint

_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,99})(\.0*)?")
"""Numbers that name a class in one way only: neither 01 nor 1E2. 100 digits: int has a limit."""


def encode(who: str, labels: Sequence[object]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the class index of every label, and the names of the classes in order.

    Text that is a whole number counts as one ("7", "7." and 7.0 are class 7), so that numbered
    classes sort as numbers in files of every kind. Other text names a class as it stands:
    "01" and "1E2" are neither class 1 nor class 100.
    """
    keys = [_key(who, label, row) for row, label in enumerate(labels)]
    numbers = {key for key in keys if isinstance(key, int)}
    words = {key for key in keys if isinstance(key, str)}
    ordered = sorted(numbers) if not words else sorted(words | set(map(str, numbers)))
    classes = tuple(map(str, ordered))
    index = {name: code for code, name in enumerate(classes)}
    return np.array([index[str(key)] for key in keys], dtype=np.int64), classes


def _key(who: str, label: object, row: int) -> int | str:
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value:
        return _whole_or_text(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise DataError(
        complaint(
            who,
            got=f"the label {value!r} in row {row}",
            expected="a whole number or text that names the row's class",
            fix=_remedy(value),
        )
    )


def _whole_or_text(text: str) -> int | str:
    whole = _WHOLE.fullmatch(text.strip())
    return int(whole[1]) if whole else text


def _remedy(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return "This looks like a measurement: choose another label column, or bin it into classes."
    return "Drop the rows without a label, or choose another label column."
