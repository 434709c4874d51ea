"""By how much rounding and corrections may take an honest upload beyond the plain bounds.

What a relay sends was rounded by its agents, merged, and rounded again, once more at every level of
relays. So each allowance grows with the levels that a model may have (``Model.relays``).
"""

from math import sqrt

from fedbandit.core.memory.checking import room_for_rounding
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.statistics import Statistics
from fedbandit.service.models.model import Served
from fedbandit.service.validation.lossy_evidence import relayed_allowance

_LOOSE = 1e-9


def margin(served: Served) -> float:
    """Return the factor by which bounds are enlarged for rounding.

    An upload that a relay takes may lie on the edge of the relay's own bounds, and the relay rounds
    once more. With the same bounds a coordinator above would refuse what the relay then sends, for
    good, and all uploads behind it would wait.
    """
    return 1.0 + (1 + served.model.relays) * _LOOSE


def rounding_allowance(served: Served, summary: object) -> float:
    """Return the share by which rounding may have enlarged a summary's trace, and the moment.

    Each level of relays below rounds once more.
    """
    levels, once = served.model.relays, room_for_rounding(summary)
    if not levels:
        return once
    if isinstance(summary, Fitted):
        return relayed_allowance(summary, levels)
    return float((1.0 + once) ** (1 + levels) - 1.0)


def moment_allowance(served: Served, statistics: Statistics) -> float:
    """Return how far corrections may have moved the moment, at each level of relays once more.

    That of FSCLB.lean is about the largest bound of one coordinate; of a sum of uploads it is not
    known, and no larger than all bounds together.
    """
    summary, levels = statistics.summary, served.model.relays
    reward, count = served.model.limits.reward, statistics.count
    moved = served.recipe.parts.memory.moment_error(summary, count, reward)
    if levels and moved and isinstance(summary, LossyRows | Fitted):
        moved *= sqrt(float(summary.bound.sum() / summary.bound.max()))
    return moved if isinstance(summary, Sketch | Narrow) else moved * (1 + levels)


def carried_allowance(served: Served, statistics: Statistics) -> float:
    """Return how far corrections may have moved a moment with bounds by coordinate, as rewards.

    That is in the norm of y^T A^-1 y (``lossy_evidence``): c_j rations what a coordinate may be
    moved by. A length alone would let a bound on one coordinate pay for a moment in another.
    """
    memory, levels = served.recipe.parts.memory, served.model.relays
    if not (isinstance(memory, LossyMemory) and statistics.summary.bound.any()):
        return 0.0
    return memory.carried(statistics.count, served.model.limits.reward) * (1 + levels)
