"""What rows with a bound for each coordinate say about their moment, and how far to trust them."""

from math import sqrt

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.rounding import ETA, step_for
from fedbandit.core.memory.lossy.fitted import UPLOAD, Fitted, least_trace, rounding_length
from fedbandit.core.memory.lossy.summary import LossyRows, explained_by
from fedbandit.service.validation.evidence import UNSEEN, misfit

_UP = 2.0 ** (1 / 8) * (1.0 + 1e-5)  # a bound is rounded up to the next of eight levels
_LOOSE = 1e-6
_FINEST = 2.0**-29  # a step is at least this share of the largest entry
_MOST_TIMES = 1e290  # the bounds: a loss beside so little, divided by it, is no number


def lossy_evidence(summary: LossyRows | Fitted, moment: Array) -> tuple[float, float, float, float]:
    """Return what the trace of X^T X is at least, |moment|, m^T A^-1 m, and 0.

    A is w S^T S + diag(c) >= X^T X, and a little more for rounding. How far corrections move the
    moment is bounded in the norm of A itself (``carried_allowance``), so no eigenvalue of A is
    asked for.
    """
    trace, length = least_trace(summary), sqrt(float(moment @ moment))
    return trace, length, explained_by(summary, moment, unseen=UNSEEN), 0.0


def relayed_allowance(summary: Fitted, levels: int) -> float:
    """Return the share by which so many levels of relays may have enlarged the trace.

    The charge of an upload is at most ``UPLOAD`` times its trace, which limits the step and so what
    rounding adds to rows that lost nothing. Merging makes rows longer to have one weight for all.
    """
    return float(((1.0 + ETA) * (1.0 + _lengthened(summary.dimension))) ** levels - 1.0)


def _lengthened(d: int) -> float:
    """Return the share of an upload's trace that rounding may add to it, or take from it."""
    slip = 0.5 * step_for(UPLOAD, d, d) * d
    return 2.0 * slip + slip * slip


def check_bound(summary: LossyRows | Fitted, ridge: float, levels: int = 0) -> None:
    """Raise InvalidMessage unless honest cutting and rounding can have made this bound.

    Before rounding sum c <= d lost and lost <= sum c (``lossy.summary``). Rounding changes lost by
    as much as the rows' squares, and adds at most ``UPLOAD`` times the ridge to each c, which is
    then rounded up. Its step is no larger than that allows. An upload that waited may have been
    rounded twice. With ``levels`` of relays below, it is a sum of uploads. Rounding each has added
    at most ``UPLOAD`` times its trace to each c, has changed what it lost by ``_lengthened``, and
    making rows longer has taken a share of the trace, eta, from what was lost.
    """
    trace, slip = float(np.vdot(summary.rows, summary.rows)), rounding_length(summary)
    changed = 2.0 * sqrt(trace) * slip + slip * slip
    d, total, rounds = summary.dimension, float(summary.bound.sum()), isinstance(summary, Fitted)
    heaviest, loose = (1.0 + ETA) ** 2 if rounds else 1.0, 1.0 + (1 + levels) * _LOOSE
    if not summary.weight <= heaviest * loose:
        expected = f"at most {heaviest:g}: an upload is rounded twice at most"
        raise misfit("upload.summary.weight", summary.weight, expected)
    if 0.0 < total < summary.lost / _MOST_TIMES:
        raise misfit(
            "upload.summary.lost", summary.lost, f"at most {_MOST_TIMES:g} times {total:g}"
        )
    relayed = levels * rounds * (trace + summary.lost)
    slips = relayed * _lengthened(d)
    added = 2.0 * rounds * UPLOAD * ridge + relayed * (2.0 * UPLOAD + ETA) + slips
    most = heaviest * d * (summary.lost + 2.0 * changed + added)
    if not total <= (_UP ** (2 + levels) if rounds else loose) * most:
        expected = f"at most {most:g} in all: {d} coordinates times what was lost"
        raise misfit("upload.summary.bound", f"{total:g} in all", expected)
    if not summary.lost <= loose * total + 2.0 * changed + slips + (1 + levels) * UNSEEN * trace:
        raise misfit("upload.summary.lost", summary.lost, f"at most the bounds, {total:g} in all")
    if isinstance(summary, Fitted) and len(summary.codes):
        largest = float(np.abs(summary.rows).max())
        coarsest = max(step_for(UPLOAD * ridge, 1, d), _FINEST * largest)
        if not summary.step <= loose * coarsest:
            raise misfit("upload.summary.step", summary.step, f"at most {coarsest:g}")
