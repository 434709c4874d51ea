"""What an upload must be before it is merged. Anything else is refused by the name of its field.

An upload must be possible as what it says: the sum over ``count`` arms x no longer than L,
with rewards no larger than R. Then trace(X^T X) is at most count L^2, a sketch's rows and what it
has shed share that, and |sum of r x| is at most count L R. A small margin is left for rounding.

A moment needs evidence: rewards of at most R give one only where arms were played, and no more than
they can (``evidence``). So an upload moves the estimate only where it also says that arms were
played, and by no more than rewards of R would. A corrected estimate takes from the moment what the
sketch gets wrong at an estimate of bounded length, and rounding may lengthen rows: the bounds make
room for as much (``Memory.moment_error``, ``room_for_rounding``). What a relay sends was rounded
by its agents, then merged, and rounded again: where a model may have relays, there is room for
that (``Model.relays``), and liars have it too.

A rounded triangle B is X^T X and positive semidefinite matrices F that rounding added, whose sum is
at most shed I. Its moment is the sum of r x and of F t for estimates t, and the sum of t^T F t is
at most p = 48 R^2 count (``GramMemory.moment_error``). So m^T B^-1 m is at most R^2 count + p.

What was shed was lost: every shrink of a sketch of size l takes what it sheds from l squares at
least, so rows and l times what was shed share count L^2 as well (``_least_lost``).

A Gram matrix has no negative eigenvalue but by rounding, and no larger one than ``count`` sums in
float64 explain (``_check_matrix``).

That costs O(l d) for a sketch in float64. Last comes what the recipe's server asks: O(l^2 d) for a
sketch, whose rows must be orthogonal. Whether the sum is sound is checked by ``merge``.
"""

from http import HTTPStatus
from math import isfinite, sqrt

import numpy as np

from fedbandit.core.kernels.linalg import Array, inverse_square
from fedbandit.core.kernels.rounding import ETA
from fedbandit.core.memory.checking import check_sums
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.memory import CARRIED
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import EXACT, Triangle
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.merging.merge import at_fault
from fedbandit.service.models.model import Served
from fedbandit.service.refusal import Refusal, other_format
from fedbandit.service.relay.room import carried_at, loose_at, moved_at, room_at
from fedbandit.service.validation.evidence import (
    UNSEEN,
    evidence,
    is_explained,
    misfit,
)
from fedbandit.service.validation.form import check_form
from fedbandit.service.validation.lossy_evidence import check_bound, lossy_evidence
from fedbandit.wire import Limits, Sync, check_shadow

_PAIRED = 1e-10  # a tenth of what the core takes, so that sums do not creep beyond that
_SINGLE = 1e-6  # for a moment that was rounded to float32
_TRIMMED = 1.03  # narrow senders leave out rows below a hundredth of what is shed, twice at most
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
        raise InvalidMessage(str(error), field=at_fault(statistics)) from error


def _check_statistics(served: Served, statistics: Statistics) -> None:
    limits, summary, count = served.model.limits, statistics.summary, statistics.count
    if not 1 <= count <= limits.count:
        raise misfit("upload.count", count, f"a number from 1 to {limits.count}")
    try:
        check_sums(statistics, served.recipe.dimension)
    except InvalidMessage as error:
        raise InvalidMessage(str(error), field=f"upload.{error.field}") from error
    levels, loose = served.model.relays, loose_at(served)
    _check_rewards(statistics.rewards, limits, loose)
    check_form(served, summary)
    mass, length, needed, floor = _weighed(statistics)
    moved = moved_at(served, statistics)
    room, single = room_at(served, summary), (1 + levels) * _SINGLE
    most = (loose + single * isinstance(summary, Fitted) + room) * count * limits.arm_norm**2
    if not mass <= most:
        expected = f"at most {most:g}: count times the square of the longest arm"
        raise misfit("upload.summary", f"a trace and shed of {mass:g}", expected)
    if isinstance(summary, Sketch | Narrow):
        _check_shed(served, summary, mass, most)
        _check_loss(served, summary, mass, most)
    elif isinstance(summary, Triangle) and not summary.shed <= 2.0 * room * mass:
        expected = f"at most {2.0 * room * mass:g}: what rounding can add"
        raise misfit("upload.summary.shed", summary.shed, expected)
    elif isinstance(summary, LossyRows | Fitted):
        check_bound(summary, served.recipe.parts.memory.ridge, levels)
    most = most / limits.arm_norm * limits.reward + moved
    if not length <= most:
        expected = f"at most {most:g}: count times the longest arm times the largest reward"
        raise misfit("upload.moment", f"a length of {length:g}", expected)
    most = _most_rewards(statistics, limits, loose + single)
    if isinstance(summary, Gram | Triangle):
        pulled = moved * moved / summary.shed if summary.shed else 0.0
        _check_matrix(statistics, sqrt(most * most + (loose + single) * pulled), levels)
        return
    most *= (1.0 + CARRIED * ETA) ** levels if isinstance(summary, Fitted) else 1.0
    most += moved / sqrt(floor) if floor > 0.0 else carried_at(served, statistics)
    if _is_rounded(summary) and UNSEEN * mass > 0.0:
        most += 2.0**-23 * (length / sqrt(UNSEEN * mass) + levels * most / sqrt(UNSEEN))
    if not needed <= most**2:
        raise _unexplained(f"{sqrt(needed):g}", most)


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
    if not rewards.total**2 <= loose * n * rewards.squares <= loose * (n * most) ** 2:
        expected = f"from the square of their mean times {n} to {n * most**2:g}"
        raise misfit("upload.more.rewards", f"a sum of squares of {rewards.squares:g}", expected)


def _least_lost(served: Served, sketch: Sketch | Narrow, most: float) -> float:
    """Return what of the trace a sender must have lost at least to have shed this much.

    A shrink to fewer than l rows takes delta from each of l squares and adds delta to what is shed.
    So a sketch of the fixed size l has lost l times what it shed. With "auto" the size may have
    grown since (a larger download came while rows were pending), so that 2, the smallest size, is
    all that is certain. Narrow senders shed for rounding too, a share of ``most`` at the most, and
    for faint rows.
    """
    size = 2 if served.params.get("sketch_size") == "auto" else sketch.size
    shrunk = max(0.0, sketch.shed - room_at(served, sketch) * most)
    trimmed = _TRIMMED ** (1 + served.model.relays)
    return size * (shrunk if isinstance(sketch, Sketch) else shrunk / trimmed)


def _check_shed(served: Served, sketch: Sketch | Narrow, mass: float, most: float) -> None:
    """Raise InvalidMessage unless rows and what must have been lost share count L^2."""
    lost, trace = _least_lost(served, sketch, most), mass - sketch.shed
    if not trace + lost <= most:
        expected = f"at most {sketch.shed * (most - trace) / lost:g}: shrinking loses more than it"
        raise misfit("upload.summary.shed", sketch.shed, f"{expected} sheds")
    room = room_at(served, sketch) * most + (1 + served.model.relays) * UNSEEN * mass
    if sketch.lost is not None and not lost <= loose_at(served) * sketch.lost + room:
        expected = f"at most {sketch.shed * (sketch.lost + room) / lost:g}, by what was lost"
        raise misfit("upload.summary.shed", sketch.shed, expected)


def _check_loss(served: Served, sketch: Sketch | Narrow, mass: float, most: float) -> None:
    """Raise InvalidMessage unless what was lost and what was shed can be of one history.

    Every step that sheds delta loses at least delta of the trace, and at most delta in each of d
    directions; rounding adds a little to either.
    """
    if sketch.lost is None:
        return
    trace, field, times = mass - sketch.shed, "upload.summary.lost", 1 + served.model.relays
    if not trace + sketch.lost <= most:
        expected = f"at most {most - trace:g}: what count and the longest arm leave beside the rows"
        raise misfit(field, sketch.lost, expected)
    if not sketch.lost <= (1.0 + times * _SINGLE) * sketch.dimension * sketch.shed + (
        times * UNSEEN * mass
    ):
        expected = f"at most d times what was shed, {sketch.dimension * sketch.shed:g}"
        raise misfit(field, sketch.lost, expected)
    rounding = (room_at(served, sketch) + times * UNSEEN) * (trace + sketch.lost)
    if not sketch.shed <= sketch.lost + rounding:
        expected = f"no more than was lost, {sketch.lost:g}"
        raise misfit("upload.summary.shed", sketch.shed, expected)


def _weighed(statistics: Statistics) -> tuple[float, float, float, float]:
    """Return what the trace is at least, |moment|, m^T A^-1 m, and the least eigenvalue of A.

    In the norm |y| = sqrt(y^T A^-1 y), the moment is at most as long as its rewards are together.
    What a correction or rounding to float32 moved it by, at most e, comes on top: e / sqrt(f), with
    f the least eigenvalue of A where that can be. A matrix is asked by ``_check_matrix``.
    """
    summary, moment = statistics.summary, statistics.moment
    match summary:
        case Gram() | Triangle():
            weighed = float(summary.matrix.trace()), sqrt(float(moment @ moment)), 0.0, 0.0
        case Sketch() | Narrow():
            weighed = _sketch_evidence(summary, moment)
        case LossyRows() | Fitted():
            weighed = lossy_evidence(summary, moment)
        case _:
            raise TypeError(f"no evidence in a {type(summary).__name__}")
    if not isfinite(weighed[0]):
        field = at_fault(statistics)
        raise misfit(field, f"a trace of {weighed[0]}", "a finite one")
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
    if paired and is_explained(matrix, moment, most=most**2, slack=rounding):
        return
    if not (paired and is_explained(matrix, np.zeros_like(moment), most=1.0, slack=rounding)):
        raise misfit(at_fault(statistics), "an indefinite matrix", "a sum of x x^T")
    trace = float(matrix.trace())
    trifle = UNSEEN * trace
    if _is_rounded(statistics.summary) and trifle > 0.0:  # a moment in float32 may be a little off
        length = sqrt(float(moment @ moment))
        most += 2.0**-23 * (length / sqrt(trifle) + levels * most / sqrt(UNSEEN))
    if not is_explained(matrix, moment, most=most**2):
        raise _unexplained("more", most)
