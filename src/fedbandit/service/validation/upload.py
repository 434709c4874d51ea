"""What an upload must be before it is merged. Anything else is refused by the name of its field.

An upload must be possible as what it says: the sum over ``count`` arms x no longer than L,
with rewards no larger than R. Then trace(X^T X) is at most count L^2, a sketch's rows and what it
has shed share that, and |sum of r x| is at most count L R. A small margin is left for rounding.

A moment needs evidence: rewards of at most R give one only where arms were played, and no more than
they can (``evidence``). So an upload moves the estimate only where it also says that arms were
played, and by no more than rewards of R would. A corrected estimate takes from the moment what the
sketch gets wrong at an estimate of bounded length, and rounding may lengthen rows: the bounds allow
for as much (``allowances``), and for one more rounding at each level of relays that a model may
have. Liars can use these allowances too.

A rounded triangle B is X^T X and positive semidefinite matrices F that rounding added, whose sum is
at most shed I. Its moment is the sum of r x and of F t for estimates t, and the sum of t^T F t is
at most p = 48 R^2 count (``GramMemory.moment_error``). So m^T B^-1 m is at most R^2 count + p.

What was shed was lost, and more (``shedding``).

A Gram matrix has no negative eigenvalue but by rounding, and no larger one than ``count`` sums in
float64 explain (``_check_matrix``).

That costs O(l d) for a sketch in float64. Last comes what the recipe's server asks: O(l^2 d) for a
sketch, whose rows must be orthogonal. Whether the sum is sound is checked by ``merge``.
"""

from http import HTTPStatus
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from fedbandit.core.kernels.linalg import Array, inverse_square
from fedbandit.core.kernels.rounding import ETA
from fedbandit.core.memory.checking import check_sums
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.memory import CARRIED
from fedbandit.core.memory.lossy.summary import LossyRows, trace_bound
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import EXACT, Triangle
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.models.model import Served
from fedbandit.service.refusal import Refusal, other_format
from fedbandit.service.validation.allowances import (
    carried_allowance,
    margin,
    moment_allowance,
    rounding_allowance,
)
from fedbandit.service.validation.evidence import (
    UNSEEN,
    evidence,
    is_explained,
    misfit,
)
from fedbandit.service.validation.form import arms_field, check_form
from fedbandit.service.validation.lossy_evidence import check_bound, lossy_evidence
from fedbandit.service.validation.shedding import check_loss, check_shed
from fedbandit.wire import Limits, Sync, check_shadow

_PAIRED = 1e-10  # a tenth of what the core takes, so that sums do not creep beyond that
_SINGLE = 1e-6  # for a moment that was rounded to float32
_LARGEST_ROOT = 1e150
_ROUND_OFF = 2.0**-53  # of one operation in float64
_WORST_ROUND_OFF = 1e-9  # of the trace; more than that is not believed, whatever the count


def check_recipe(served: Served, fingerprint: str, format: int) -> None:
    """Raise Refusal (409) unless the sender has this model's recipe, and a format that it knows."""
    if format not in served.accepted:
        raise other_format(format)
    if fingerprint not in served.accepted[format]:
        expected = served.fingerprints[format]
        fix = "Join again: the model has another recipe."
        message = complaint("fingerprint", got=fingerprint, expected=expected, fix=fix)
        raise Refusal(HTTPStatus.CONFLICT, "fingerprint", message)


def check_sync(served: Served, sync: Sync) -> None:
    """Raise Refusal (409) or InvalidMessage unless this model can merge the upload."""
    check_recipe(served, sync.fingerprint, sync.format)
    if sync.shadow is not None:
        check_shadow(sync.shadow)
    if sync.upload.agent != 0:
        raise misfit("upload.agent", sync.upload.agent, "0")
    with np.errstate(all="ignore"):  # what overflows compares as too large
        _check_statistics(served, sync.upload.statistics)
        check_summary(served.recipe, sync.upload.statistics)


def check_summary(recipe: Recipe, statistics: Statistics) -> None:
    """Raise InvalidMessage unless the recipe's server takes this summary.

    Cost O(l^2 d) for a sketch, whose rows must be orthogonal, and O(d^2) for a Gram matrix.
    """
    try:
        recipe.parts.memory.check(statistics)
    except InvalidMessage as error:
        raise InvalidMessage(str(error), field=arms_field(statistics.summary)) from error


class _Weighed(NamedTuple):
    """What the trace is at least, |moment|, m^T A^-1 m, and the least eigenvalue of A."""

    mass: float
    length: float
    needed: float
    floor: float


def _check_statistics(served: Served, statistics: Statistics) -> None:
    """Raise InvalidMessage unless arms and rewards within the limits can have given these sums."""
    limits, count = served.model.limits, statistics.count
    if not 1 <= count <= limits.count:
        raise misfit("upload.count", count, f"a number from 1 to {limits.count}")
    try:
        check_sums(statistics, served.recipe.dimension)
    except InvalidMessage as error:
        raise InvalidMessage(str(error), field=f"upload.{error.field}") from error
    _check_rewards(statistics.rewards, limits, margin(served))
    check_form(served, statistics.summary)
    weighed, moved = _weighed(statistics), moment_allowance(served, statistics)
    largest = _largest_trace(served, statistics)
    _check_trace(served, statistics.summary, weighed.mass, largest)
    _check_length(weighed.length, largest / limits.arm_norm * limits.reward + moved)
    _check_explained(served, statistics, weighed, moved)


def _largest_trace(served: Served, statistics: Statistics) -> float:
    """Return count L^2, enlarged by what rounding may have added."""
    single = (1 + served.model.relays) * _SINGLE * isinstance(statistics.summary, Fitted)
    share = margin(served) + single + rounding_allowance(served, statistics.summary)
    return float(share * statistics.count * served.model.limits.arm_norm**2)


def _check_trace(served: Served, summary: Any, mass: float, most: float) -> None:
    """Raise InvalidMessage unless the trace, with what was shed or lost, is at most ``most``."""
    if not mass <= most:
        expected = f"at most {most:g}: count times the square of the longest arm"
        raise misfit("upload.summary", f"a trace and shed of {mass:g}", expected)
    match summary:
        case Sketch() | Narrow():
            check_shed(served, summary, mass, most)
            check_loss(served, summary, mass, most)
        case Triangle():
            rounding = 2.0 * rounding_allowance(served, summary) * mass
            if not summary.shed <= rounding:
                expected = f"at most {rounding:g}: what rounding can add"
                raise misfit("upload.summary.shed", summary.shed, expected)
        case LossyRows() | Fitted():
            check_bound(summary, served.recipe.parts.memory.ridge, served.model.relays)


def _check_length(length: float, most: float) -> None:
    """Raise InvalidMessage unless |sum of r x| is at most ``most``."""
    if not length <= most:
        expected = f"at most {most:g}: count times the longest arm times the largest reward"
        raise misfit("upload.moment", f"a length of {length:g}", expected)


def _check_explained(
    served: Served, statistics: Statistics, weighed: _Weighed, moved: float
) -> None:
    """Raise InvalidMessage unless the summary's arms and rewards of at most R give the moment.

    ``moved`` is what corrections may have moved the moment by.
    """
    summary, levels = statistics.summary, served.model.relays
    loose = margin(served) + (1 + levels) * _SINGLE
    most = _most_rewards(statistics, served.model.limits, loose)
    if isinstance(summary, Gram | Triangle):
        pulled = moved * moved / summary.shed if summary.shed else 0.0
        _check_matrix(statistics, sqrt(most * most + loose * pulled), levels)
        return
    if isinstance(summary, Fitted):
        most *= (1.0 + CARRIED * ETA) ** levels
    if weighed.floor > 0.0:
        most += moved / sqrt(weighed.floor)
    else:
        most += carried_allowance(served, statistics)
    if _is_rounded(summary):
        trace = trace_bound(summary) if isinstance(summary, Fitted) else weighed.mass
        most += _float32_allowance(weighed.length, trace, most, levels)
    if not weighed.needed <= _square(most):
        raise _unexplained(f"{sqrt(weighed.needed):g}", most)


def _square(most: float) -> float:
    """Return a square that is finite: what takes more is explained by nothing."""
    return min(most, _LARGEST_ROOT) ** 2


def _float32_allowance(length: float, trace: float, most: float, levels: int) -> float:
    """Return what rounding a moment to float32 may add to the rewards that it needs."""
    if not UNSEEN * trace > 0.0:
        return 0.0
    return 2.0**-23 * (length / sqrt(UNSEEN * trace) + levels * most / sqrt(UNSEEN))


def _is_rounded(summary: object) -> bool:
    """Say whether a summary is rounded, and so the moment beside it."""
    exact = isinstance(summary, Triangle) and summary.width == EXACT
    return isinstance(summary, Narrow | Fitted | Triangle) and not exact


def _check_rewards(rewards: Rewards, limits: Limits, loose: float) -> None:
    """Raise InvalidMessage unless rewards of that size can have these sums.

    With n rewards of at most R in size, |sum r| <= n R, and (sum r)^2 / n <= sum r^2 <= n R^2.
    """
    n, most = rewards.count, loose * limits.reward
    if not n and (rewards.total or rewards.squares):
        raise misfit("upload.more.rewards", "sums over no rewards", "0")
    if not abs(rewards.total) <= n * most:
        expected = f"at most {n * most:g} in size: that many of the largest reward"
        raise misfit("upload.more.rewards", f"a sum of {rewards.total:g}", expected)
    squares, largest = loose * n * rewards.squares, n * most
    if not rewards.total * rewards.total <= squares <= loose * largest * largest:
        expected = f"from the square of their mean times {n} to {largest * most:g}"
        raise misfit("upload.more.rewards", f"a sum of squares of {rewards.squares:g}", expected)


def _weighed(statistics: Statistics) -> _Weighed:
    """Return what the trace is at least, |moment|, m^T A^-1 m, and the least eigenvalue of A.

    In the norm |y| = sqrt(y^T A^-1 y), the moment is at most as long as its rewards are together.
    What a correction or rounding to float32 moved it by, at most e, comes on top: e / sqrt(f), with
    f the least eigenvalue of A where that can be. A matrix is asked by ``_check_matrix``.
    """
    summary, moment = statistics.summary, statistics.moment
    match summary:
        case Gram() | Triangle():
            trace, length = float(summary.matrix.trace()), sqrt(float(moment @ moment))
            weighed = _Weighed(trace, length, 0.0, 0.0)
        case Sketch() | Narrow():
            weighed = _Weighed(*_sketch_evidence(summary, moment))
        case LossyRows() | Fitted():
            weighed = _Weighed(*lossy_evidence(summary, moment))
        case _:
            raise TypeError(f"no evidence in a {type(summary).__name__}")
    if not isfinite(weighed.mass):
        raise misfit(arms_field(summary), f"a trace of {weighed.mass}", "a finite one")
    return weighed


def _most_rewards(statistics: Statistics, limits: Limits, loose: float) -> float:
    """Return the most that the root of the sum of squared rewards can be: as told, or by R."""
    squares = limits.reward**2 * statistics.count
    if statistics.rewards.count == statistics.count:
        squares = min(squares, statistics.rewards.squares)
    return sqrt(loose * squares)


def _sketch_evidence(sketch: Sketch | Narrow, moment: Array) -> tuple[float, float, float, float]:
    """Return trace + shed, |moment|, m^T A^-1 m, and the least eigenvalue of A."""
    trace, length, needed, short = evidence(sketch.rows, sketch.squares, moment, sketch.shed)
    if short:
        raise misfit("upload.summary.rows", "a row too short to square", "none")
    mass = trace + sketch.shed
    floor = sketch.shed + UNSEEN * mass
    if isinstance(sketch, Narrow) and floor > 0.0:  # its rows need not be orthogonal
        needed = inverse_square(sketch.rows, np.full(len(moment), floor), moment)
    return mass, length, needed, floor


def _unexplained(got: str, most: float) -> InvalidMessage:
    said = f"one that takes rewards of {got} (root of the sum of squares)"
    expected = f"at most {most:g}: what the arms in the summary and their rewards can give"
    return misfit("upload.moment", said, expected)


def _is_paired(matrix: Array, levels: int) -> bool:
    """Say whether no entry is larger than its two diagonal ones allow, but for rounding."""
    roots = np.sqrt(matrix.diagonal())
    return bool((np.abs(matrix) <= (1.0 + (1 + levels) * _PAIRED) * np.outer(roots, roots)).all())


def _check_matrix(statistics: Statistics, most: float, levels: int) -> None:
    """Raise InvalidMessage unless this can be a sum of x x^T that explains the moment. Cost O(d^3).

    ``most`` is the root of the sum of squared rewards. Negative eigenvalues are taken for rounding
    as far as ``count`` sums in float64 explain: adding up n products makes a relative error of at
    most n 2^-53 in each entry of the sum of |x| |x|^T, whose norm is at most the trace; factorising
    adds a few d of these. One factorisation tells of most honest uploads that both is well; where
    it fails, each is asked for on its own terms.
    """
    matrix, moment = statistics.summary.matrix, statistics.moment
    rounding = (statistics.count + 4 * len(matrix) + 16) * _ROUND_OFF
    rounding = min(rounding, _WORST_ROUND_OFF)
    paired = _is_paired(matrix, levels)
    if paired and is_explained(matrix, moment, most=_square(most), slack=rounding):
        return
    if not (paired and is_explained(matrix, np.zeros_like(moment), most=1.0, slack=rounding)):
        raise misfit(arms_field(statistics.summary), "an indefinite matrix", "a sum of x x^T")
    if _is_rounded(statistics.summary):
        length, trace = sqrt(float(moment @ moment)), float(matrix.trace())
        most += _float32_allowance(length, trace, most, levels)
    if not is_explained(matrix, moment, most=_square(most)):
        raise _unexplained("more", most)
