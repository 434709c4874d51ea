"""Whether what a sketch says that it has shed and lost can be of one history of shrinking.

Every shrink of a sketch of size l takes what it sheds from l squares at least. So rows and l times
what was shed share count L^2.
"""

from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Sketch
from fedbandit.service.models.model import Served
from fedbandit.service.validation.allowances import margin, rounding_allowance
from fedbandit.service.validation.evidence import UNSEEN, misfit

_TRIMMED = 1.03  # narrow senders leave out rows below a hundredth of what is shed, twice at most
_ROUNDED_LOST = 1e-6  # what was lost is rounded to float32


def _least_lost(served: Served, sketch: Sketch | Narrow, most: float) -> float:
    """Return what of the trace a sender must have lost at least to have shed this much.

    A shrink to fewer than l rows takes delta from each of l squares and adds delta to what is shed.
    So a sketch of the fixed size l has lost l times what it shed. With "auto" the size may have
    grown since (a larger download came while rows were pending), so that 2, the smallest size, is
    all that is certain. Narrow senders shed for rounding too, a share of ``most`` at the most, and
    for faint rows.
    """
    size = 2 if served.params.get("sketch_size") == "auto" else sketch.size
    shrunk = max(0.0, sketch.shed - rounding_allowance(served, sketch) * most)
    trimmed = _TRIMMED ** (1 + served.model.relays)
    return size * (shrunk if isinstance(sketch, Sketch) else shrunk / trimmed)


def check_shed(served: Served, sketch: Sketch | Narrow, mass: float, most: float) -> None:
    """Raise InvalidMessage unless rows and what must have been lost share count L^2."""
    lost, trace = _least_lost(served, sketch, most), mass - sketch.shed
    if not trace + lost <= most:
        expected = f"at most {sketch.shed * (most - trace) / lost:g}: shrinking loses more than it"
        raise misfit("upload.summary.shed", sketch.shed, f"{expected} sheds")
    slack = rounding_allowance(served, sketch) * most + (1 + served.model.relays) * UNSEEN * mass
    if sketch.lost is not None and not lost <= margin(served) * sketch.lost + slack:
        expected = f"at most {sketch.shed * (sketch.lost + slack) / lost:g}, by what was lost"
        raise misfit("upload.summary.shed", sketch.shed, expected)


def check_loss(served: Served, sketch: Sketch | Narrow, mass: float, most: float) -> None:
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
    if not sketch.lost <= (1.0 + times * _ROUNDED_LOST) * sketch.dimension * sketch.shed + (
        times * UNSEEN * mass
    ):
        expected = f"at most d times what was shed, {sketch.dimension * sketch.shed:g}"
        raise misfit(field, sketch.lost, expected)
    rounding = (rounding_allowance(served, sketch) + times * UNSEEN) * (trace + sketch.lost)
    if not sketch.shed <= sketch.lost + rounding:
        expected = f"no more than was lost, {sketch.lost:g}"
        raise misfit("upload.summary.shed", sketch.shed, expected)
