"""How far one upload may move the estimate: no further than its observations could as a matrix.

An agent of a corrected estimate tells G, which stands for X^T X where theta is solved for, and a
moment from which (X^T X - G) theta' was subtracted. Validation cannot know that correction, and so
allows for the largest (``Memory.moment_error``). A liar who says that it has lost everything,
evenly, would get 5 n R of moment for n / d of G: an estimate of 5 d R, where rewards are at most R.

Observations that are told in full have m^T G^-1 m <= n R^2. A moment beyond that is shortened here
until it holds, and nothing is refused. Then G and m are what n observations within the limits can
be, whatever was lost: |m| <= n L R, and theta from them predicts no more than R on average. What
honest agents send is mostly less than that by far: m is about G theta', and theta' predicts
rewards.

G is enlarged for rounding in coordinates that were played, as far as the bound says there was some.
"""

from dataclasses import replace
from math import sqrt
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array, inverse_square, missing
from fedbandit.core.memory.checking import room_for_rounding
from fedbandit.core.memory.gram_memory import GramMemory
from fedbandit.core.memory.lossy.fitted import UPLOAD, Fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.narrow import Narrow, short_vector
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.memory.triangle import Triangle
from fedbandit.core.messages import Upload
from fedbandit.core.statistics import Statistics
from fedbandit.service.models.model import Served
from fedbandit.service.validation.evidence import UNSEEN, is_explained

_SPARE: Final = 1.0 + 1e-3  # how much longer than that a moment may be: rounding, mostly
_ROUNDED: Final = 2.5  # times what rounding adds to a bound: twice, and to the next level


def restrained(served: Served, upload: Upload) -> Upload:
    """Return the upload, its moment shortened to what its observations could move.

    An upload that is shortened counts as one whose correction was cut.
    """
    statistics = upload.statistics
    most = served.model.limits.reward * sqrt(statistics.count)
    with np.errstate(all="ignore"):  # what overflows is not below any bound
        length = _rewards_needed(served, statistics, _SPARE * most)
    if length <= _SPARE * most:
        return upload
    moment = statistics.moment * (most / length)
    if isinstance(statistics.summary, Narrow | Fitted | Triangle):
        moment = short_vector(moment)
    told = replace(statistics, moment=moment, cut=max(1, statistics.cut))
    return replace(upload, statistics=told)


def _rewards_needed(served: Served, statistics: Statistics, most: float) -> float:
    """Return the root of m^T G^-1 m; 0 if ``check_sync`` has bounded it already."""
    memory, summary, moment = served.recipe.parts.memory, statistics.summary, statistics.moment
    levels = served.model.relays
    match memory:
        case LossyMemory(corrected=True):
            rows = sqrt(summary.weight) * summary.rows
            trace = float(np.vdot(rows, rows)) + summary.lost
            rounding = _ROUNDED * UPLOAD * (memory.ridge + levels * trace)
            lacking = missing(summary.bound, summary.lost) + np.minimum(summary.bound, rounding)
        case SketchMemory(estimate="corrected"):
            rows, lost = summary.rows, summary.lost or 0.0
            trace = float(np.vdot(rows, rows)) + lost
            rounding = min(summary.shed, (1 + levels) * room_for_rounding(summary) * trace)
            lacking = np.full(len(moment), lost / len(moment) + rounding)
        case GramMemory(rounds=True):
            return _needed_by(summary.matrix, moment, most)
        case _:
            return 0.0
    floor = lacking + UNSEEN * trace
    return sqrt(inverse_square(rows, floor, moment)) if floor.all() else 0.0


def _needed_by(matrix: Array, moment: Array, most: float) -> float:
    """Return the root of m^T G^-1 m for a whole matrix, 0 if it is at most ``most``. O(d^3)."""
    if is_explained(matrix, moment, most=most * most):
        return 0.0
    raised = matrix + UNSEEN * float(matrix.trace()) * np.eye(len(matrix))
    return sqrt(max(0.0, float(moment @ np.linalg.solve(raised, moment))))
