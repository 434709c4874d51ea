"""What was found of each sketch size, before and after playing it, and the size to take."""

from dataclasses import dataclass
from typing import Literal

from fedbandit.errors import InvalidParameter, complaint
from fedbandit.lab.analysis.recommendation import Measured, Recommendation
from fedbandit.lab.analysis.statistics import Estimate

LEAN, LITERAL, WHOLE, FLOOR = "FSCLB.lean", "FSCLB", "FedLinUCB", "Random"

SketchSize = int | Literal["auto"] | None


@dataclass(frozen=True)
class Prospect:
    """What is known of a size before it is played.

    ``tail`` is the share of the trace past the l - 1 directions that it keeps, ``epsilon`` the
    paper's epsilon_l, and the others are bytes of a full message: FSCLB's and FSCLB.lean's.
    """

    sketch_size: int
    tail: float
    epsilon: float
    bytes_float64: int
    bytes_lean: int


@dataclass(frozen=True)
class Advice:
    """Everything that was found, and the recommended size.

    ``eigenvalues`` are those of the arms that FedLinUCB played in the first trial, largest first.
    ``whole_bytes`` is FedLinUCB's message. ``lead`` is Random's regret less FedLinUCB's.
    """

    setting: str
    dimension: int
    rounds: int
    trials: int
    radius: float
    tuned: bool
    tolerance: float
    eigenvalues: tuple[float, ...]
    whole_bytes: int
    prospects: tuple[Prospect, ...]
    measured: tuple[Measured, ...]
    lead: Estimate
    recommendation: Recommendation

    def of(self, recipe: str, sketch_size: SketchSize = None) -> Measured:
        """Return the measurements of that recipe with that size."""
        for each in self.measured:
            if (each.recipe, each.sketch_size) == (recipe, sketch_size):
                return each
        expected = ", ".join(label(each.recipe, each.sketch_size) for each in self.measured)
        raise InvalidParameter(
            complaint(
                "Advice.of",
                got=label(recipe, sketch_size),
                expected=f"one of {expected}",
                fix="Measure it: name the size in sizes.",
            )
        )


def label(recipe: str, sketch_size: SketchSize) -> str:
    """Name a recipe with its size, as tables and figures do."""
    return recipe if sketch_size is None else f"{recipe} l={sketch_size}"
