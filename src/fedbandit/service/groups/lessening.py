"""V as it is told in place of the whole's (``certainty``), as a summary of the model's own kind."""

from typing import Any

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.server import Server
from fedbandit.service.groups.certainty import Excess, Fair
from fedbandit.service.groups.sums import positive

_FAINT = 0.02  # of the ridge: more than one group can make up of a feature that nobody else has
_TINY, _ROUNDING = 1e-300, 1e-14


def is_told_anew(whole: Server, part: Fair) -> bool:
    """Say whether agents are told another V than the whole's.

    Of sketches always: what one lost when it was merged cannot be told apart by group.
    """
    return part.told is not None and (isinstance(whole.summary, Sketch) or part.cut)


def lessened(memory: Any, summary: Any, part: Fair, own: Excess | None = None) -> Any:
    """Return a summary with the V of ``part``, no more than the whole's ``summary`` has.

    Nothing is subtracted from the whole's: that may be so much larger that no digits are left.
    ``own``: what is told beside. Cost O(d^3).
    """
    if part.told is None:
        raise ValueError("no V is told")
    seen = part.told - memory.ridge * np.eye(len(part.told))
    seen = seen if own is None else seen + own.matrix
    match summary:
        case Gram():
            return Gram(_definite(positive(seen)), summary.shed)
        case LossyGram():
            kept, bound, lost = _lossy(memory, summary, seen, part)
            return LossyGram(_definite(kept), bound, lost, summary.weight)
        case LossyRows():
            kept, bound, lost = _lossy(memory, summary, seen, part)
            return LossyRows(_longest(kept, len(summary.rows))[0], bound, lost, summary.weight)
        case Sketch():
            rows, shed = _longest(seen, summary.size - 1)
            smaller = summary.scaled(min(1.0, shed / max(summary.shed, _TINY)))
            shed = shed if memory.compensated else summary.shed
            return Sketch(rows, shed, summary.size, smaller.lost)
    raise TypeError(f"no less of a {type(summary).__name__}")


def _lossy(
    memory: LossyMemory, summary: LossyGram | LossyRows, seen: Array, part: Fair
) -> tuple[Array, Array, float]:
    """Return S^T S, bound and lost: bounds of groups are told as far as their diagonals are.

    So a bound that a liar claims takes no rows of others away. Features of which next to nothing is
    told were not seen: a message has a bound of about the ridge for every feature that was.
    """
    seen_at_all = seen.diagonal() > _FAINT * memory.ridge
    seen = np.where(np.outer(seen_at_all, seen_at_all), seen, 0.0)
    told = np.zeros(len(seen)) if part.bound is None else part.bound
    bound = np.clip(np.minimum(told, summary.bound), 0.0, np.maximum(seen.diagonal(), 0.0))
    lost = summary.lost * float(bound.sum()) / max(float(summary.bound.sum()), _TINY)
    lost = min(part.lost, float(bound.sum())) if memory.corrected else lost
    return positive((seen - np.diag(bound)) / summary.weight), bound, lost


def _definite(matrix: Array) -> Array:
    """Return the matrix, a hair more than semidefinite: agents refuse what is less by rounding.

    Features of which there is no more than that are 0.
    """
    diagonal, hair = matrix.diagonal(), _ROUNDING * float(matrix.trace())
    some = diagonal > hair
    kept = np.where(np.outer(some, some), matrix, 0.0)
    return np.asarray(kept + np.diag(np.where(some, hair, 0.0)))


def _longest(matrix: Array, most: int) -> tuple[Array, float]:
    """Return at most so many orthogonal rows S, and s: matrix <= S^T S + s I."""
    values, vectors = np.linalg.eigh(matrix)
    rest = max(float(values[-most - 1]), 0.0) if most < len(values) else 0.0
    kept = values[-most:] > rest
    squares = values[-most:][kept] - rest
    return np.sqrt(squares)[:, None] * vectors.T[-most:][kept], rest
