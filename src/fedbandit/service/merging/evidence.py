"""What a sketch says about its own moment, in one pass; compiled, since every upload needs it."""

from math import sqrt

import numpy as np

from fedbandit.core.kernels.compiler import kernel_or
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidMessage, complaint

_TINY = float(np.finfo(np.float64).tiny)


def evidence_numpy(rows: Array, squares: Array, moment: Array) -> tuple[float, float, float, bool]:
    """Return the same by numpy."""
    length = sqrt(float(moment @ moment))
    parts = rows @ (moment / length) if length else np.zeros(0)
    short = bool(rows[squares < _TINY].any())
    return float(squares.sum()), length, float(parts @ parts), short


@kernel_or(evidence_numpy)
def evidence(rows: Array, squares: Array, moment: Array) -> tuple[float, float, float, bool]:
    """Return a sketch's trace, a moment's length, how much of the one lies along the other.

    With u the moment's direction and S the rows, the third is |S u|^2, or 0 without a direction.
    The fourth says whether a row that is not 0 is too short to be squared. Cost O(l d).
    """
    trace, square, along, short = 0.0, 0.0, 0.0, False
    for k in range(len(moment)):
        square += moment[k] * moment[k]
    length = np.sqrt(square)
    direction = moment / length if length > 0.0 else np.zeros(len(moment))
    for i in range(len(rows)):
        row = rows[i]
        part = 0.0
        for k in range(len(row)):
            part += row[k] * direction[k]
        along += part * part
        trace += squares[i]
        if squares[i] < _TINY:
            for k in range(len(row)):
                short = short or row[k] != 0.0
    return trace, length, along, short


def misfit(field: str, got: object, expected: str) -> InvalidMessage:
    """Return the error for a field with a value that no observations within the limits give."""
    fix = "Look at the limits of the model and at what the agent was fed."
    return InvalidMessage(complaint(field, got=got, expected=expected, fix=fix), field=field)
