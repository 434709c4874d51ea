"""What an upload says about its own moment: how large its rewards must have been at least.

For arms X and rewards r the moment is m = X^T r, and the smallest rewards that give it have the sum
of squares m^T (X^T X)^-1 m. With an upper bound A >= X^T X, as a sketch's rows and what it has shed
give one, m^T A^-1 m is at most that. So it is at most count R^2 if no reward exceeds R. This takes
in the direction of the moment, and every part of it: what lies where no arm was played counts most.

The compiled pass is for sketches in float64, which every upload of FSCLB has.
"""

from math import inf, sqrt

import numpy as np

from fedbandit.core.kernels.compiler import kernel_or
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidMessage, complaint

_TINY = float(np.finfo(np.float64).tiny)
UNSEEN = 1e-9
"""The share of the trace by which A is enlarged: rounding may have hidden that much of X^T X."""


def evidence_numpy(
    rows: Array, squares: Array, moment: Array, shed: float
) -> tuple[float, float, float, bool]:
    """Return the same by numpy."""
    trace, length = float(squares.sum()), sqrt(float(moment @ moment))
    short = bool(rows[squares < _TINY].any())
    if not length:
        return trace, 0.0, 0.0, short
    floor = shed + UNSEEN * (trace + shed)
    long = squares >= _TINY
    inside = (rows[long] @ (moment / length)) ** 2 / squares[long]
    left = max(0.0, 1.0 - float(inside.sum()))
    needed = float((inside / (squares[long] + floor)).sum())
    if left > 0.0:
        needed += left / floor if floor > 0.0 else inf
    return trace, length, length * needed * length, short


@kernel_or(evidence_numpy)
def evidence(
    rows: Array, squares: Array, moment: Array, shed: float
) -> tuple[float, float, float, bool]:
    """Return a sketch's trace, a moment's length, and m^T A^-1 m. Cost O(l d).

    The rows S (k x d) are orthogonal, and A is S^T S + (shed + 1e-9 (trace + shed)) I. The fourth
    says whether a row that is not 0 is too short to be squared; such rows are left out.
    """
    trace, square, short = 0.0, 0.0, False
    for k in range(len(moment)):
        square += moment[k] * moment[k]
    for i in range(len(rows)):
        trace += squares[i]
    length = np.sqrt(square)
    direction = moment / length if length > 0.0 else np.zeros(len(moment))
    floor = shed + UNSEEN * (trace + shed)
    inside, needed = 0.0, 0.0
    for i in range(len(rows)):
        row = rows[i]
        if squares[i] < _TINY:
            for k in range(len(row)):
                short = short or row[k] != 0.0
            continue
        part = 0.0
        for k in range(len(row)):
            part += row[k] * direction[k]
        part = part * part / squares[i]
        inside += part
        needed += part / (squares[i] + floor)
    if length > 0.0 and inside < 1.0:
        needed += (1.0 - inside) / floor if floor > 0.0 else np.inf
    return trace, length, length * needed * length, short


def is_explained(matrix: Array, moment: Array, *, most: float, slack: float = UNSEEN) -> bool:
    """Say whether m^T (G + slack trace(G) I)^-1 m is at most ``most``. Cost O(d^3).

    That is so, and the matrix in the middle positive definite, if and only if
    [[G + ..., m], [m^T, most]] is, which one Cholesky factorisation shows. G and m are scaled
    first, so that nothing overflows.
    """
    trace, d = float(matrix.trace()), len(matrix)
    if trace <= 0.0 or most <= 0.0:
        return not moment.any()
    bordered = np.empty((d + 1, d + 1))
    bordered[:d, :d] = matrix / trace + slack * np.eye(d)
    bordered[:d, d] = bordered[d, :d] = moment / sqrt(trace) / sqrt(most)
    bordered[d, d] = 1.0
    try:
        np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        return False
    return True


_LOOK = "Look at the limits of the model and at what the agent was fed."


def misfit(field: str, got: object, expected: str, *, fix: str = _LOOK) -> InvalidMessage:
    """Return the error for a field with a value that no observations within the limits give."""
    return InvalidMessage(complaint(field, got=got, expected=expected, fix=fix), field=field)
