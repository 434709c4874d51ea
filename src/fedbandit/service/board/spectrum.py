"""The spectrum of what a model has learned, and what its summary has shed."""

from typing import Any, Final

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.summary import Gram, Sketch

LARGEST: Final = 1500
"""Dimensions beyond which the spectrum of a whole matrix takes too long to show."""
SHOWN: Final = 100
"""Directions that are shown."""
NOISE: Final = 1e-12
"""Share of the largest value below which one is the eigensolver's rounding."""


def spectrum_of(summary: object) -> dict[str, Any]:
    """Return the squares of the directions of a summary, the largest first, and what it shed.

    ``values``: how much was observed along each direction, the eigenvalues of S^T S; the first
    ``SHOWN``, or none if that takes too long. ``shed``: what any direction may lack at most.
    ``lost``: what all lack together, as a share of the trace; None if that is not known.
    """
    match summary:
        case Sketch():
            values, shed, lost = np.asarray(summary.squares), summary.shed, summary.lost
        case LossyRows():
            rows = summary.rows
            values = _of_matrix(rows @ rows.T)
            shed, lost = float(summary.bound.max(initial=0.0)), summary.lost
        case LossyGram():
            values = _of_matrix(summary.matrix)
            shed, lost = float(summary.bound.max(initial=0.0)), summary.lost
        case Gram():
            values, shed, lost = _of_matrix(summary.matrix), 0.0, 0.0
        case _:
            values, shed, lost = np.zeros(0), 0.0, None
    ordered = np.sort(np.maximum(values, 0.0))[::-1]
    ordered = np.where(ordered > NOISE * ordered.max(initial=0.0), ordered, 0.0)
    trace = float(ordered.sum())
    known = lost is not None and trace + lost > 0.0
    return {
        "values": ordered[:SHOWN].tolist(),
        "directions": int((ordered > 0.0).sum()),
        "shed": float(shed),
        "lost": lost / (trace + lost) if known and lost is not None else None,
        "kind": "matrix" if isinstance(summary, Gram | LossyGram) else "sketch",
    }


def _of_matrix(matrix: Array) -> Array:
    if not 0 < len(matrix) <= LARGEST:
        return np.zeros(0)
    return np.asarray(np.linalg.eigvalsh(matrix), dtype=np.float64)
