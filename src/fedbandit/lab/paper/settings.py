"""The paper's experiments as values: four settings, and the algorithms that are compared in them.

The paper leaves the ridge, the noise, how arms and parameter are drawn and the radius unsaid; what
stands here is our choice, shown in every report.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fedbandit.core.recipe import Recipe
from fedbandit.core.recipes import RECIPES
from fedbandit.core.theory import Bounds
from fedbandit.lab.runs.task import NamedWorld
from fedbandit.worlds import Classification, Synthetic

AGENTS = 10
ALPHA = 1.0
RIDGE = 1.0
NOISE = 0.1
DELTA = 0.01
TRIALS = 20
ROUNDS = 20_000

Radius = float | Literal["paper"]


@dataclass(frozen=True)
class Setting:
    """One experiment: where arms come from, and how large a sketch is kept of them.

    ``data`` names a bundled data set of ``arms`` classes, or is None for simulated arms.
    ``noise`` is the sub-Gaussian bound R that the theoretical radius is given.
    """

    name: str
    dimension: int
    sketch_size: int
    arms: int
    noise: float
    data: str | None = None

    @property
    def family(self) -> str:
        """Which of the paper's two groups of figures it belongs to."""
        return "simulation" if self.data is None else "real"

    @property
    def source(self) -> str:
        """Where its arms come from, in words."""
        if self.data is None:
            return "Gaussian vectors of unit length; parameter uniform on the unit sphere"
        return f"data set {self.data}: an instance of each class, standardised, unit length"

    def target(self, seed: int) -> int | None:
        """Return the class that pays in the trial with this seed: all classes take their turn."""
        return None if self.data is None else seed % self.arms

    def world(self, seed: int) -> NamedWorld:
        """Return the tape of one trial."""
        target = self.target(seed)
        if self.data is None or target is None:
            return Synthetic(
                dimension=self.dimension, arms=self.arms, agents=AGENTS, noise=NOISE, seed=seed
            )
        return Classification(data=self.data, target=target, agents=AGENTS, seed=seed)

    def bounds(self, rounds: int) -> Bounds:
        """Return what the theoretical radius is told; S = 1 is an assumption for the data sets."""
        return Bounds(
            noise=self.noise, parameter_norm=1.0, arm_norm=1.0, horizon=rounds, delta=DELTA
        )


SETTINGS = (
    Setting("synthetic d=50", dimension=50, sketch_size=20, arms=10, noise=NOISE),
    Setting("synthetic d=100", dimension=100, sketch_size=40, arms=10, noise=NOISE),
    Setting("satimage", dimension=37, sketch_size=12, arms=6, noise=0.5, data="satimage"),
    Setting(
        "mfeat-zernike", dimension=48, sketch_size=20, arms=10, noise=0.5, data="mfeat-zernike"
    ),
)


@dataclass(frozen=True)
class Algorithm:
    """A line of the comparison.

    ``extra`` are parameters of its own; ``tuned_as`` names the algorithm whose radius it shares,
    and is empty for one that has no radius.
    """

    name: str
    recipe: str
    tuned_as: str
    extra: tuple[tuple[str, str], ...] = ()

    def build(self, setting: Setting, *, radius: Radius, rounds: int, seed: int) -> Recipe:
        """Return the recipe for a setting; ``seed`` matters to Random alone."""
        params: dict[str, object] = {"dimension": setting.dimension, "agents": AGENTS}
        if not self.tuned_as:
            return RECIPES[self.recipe](**params, seed=seed)
        params |= {"ridge": RIDGE, "radius": radius, "bounds": setting.bounds(rounds)}
        if self.recipe in ("FSCLB", "FedLinUCB"):
            params["alpha"] = ALPHA
        if self.recipe in ("FSCLB", "SOFUL", "CBSCFD"):
            params["sketch_size"] = setting.sketch_size
        return RECIPES[self.recipe](**params, **dict(self.extra))


def _own(name: str) -> Algorithm:
    return Algorithm(name, recipe=name, tuned_as=name)


FSCLB = "FSCLB"
BEST = "FedLinUCB"
PUBLISHED = "FedLinUCB (published)"
RANDOM = "Random"

PAPER_ALGORITHMS = (
    _own(FSCLB),
    Algorithm(BEST, BEST, tuned_as=BEST, extra=(("determinant", "when-needed"),)),
    Algorithm(PUBLISHED, BEST, tuned_as=BEST, extra=(("determinant", "every-round"),)),
    Algorithm(RANDOM, RANDOM, tuned_as=""),
)
OTHER_ALGORITHMS = tuple(
    _own(name) for name in ("AsyncLinUCB", "DisLinUCB", "LinUCB", "Centralised", "SOFUL", "CBSCFD")
)


def assumptions(algorithms: Iterable[Algorithm]) -> dict[str, str]:
    """Return in words what all settings share, and what the paper leaves open."""
    shared = {
        "Agents": f"M = {AGENTS}; the active one is uniform at random every round",
        "Trigger": f"alpha = {ALPHA:g}",
        "Ridge": f"lambda = {RIDGE:g}",
        "Synthetic rewards": f"mean plus Gaussian noise of standard deviation {NOISE:g}",
        "Data set rewards": "1 for the target class, 0 for the others, without noise",
        "Tapes": "all algorithms of a trial see the same agents, arms and noise",
        "FedLinUCB": "best form: the determinant only when a bound on it reaches the threshold",
        PUBLISHED: "the determinant from scratch every round; the same decisions",
        "Theoretical radius": f"S = 1, L = 1, delta = {DELTA:g}, T = the rounds, R as above. S = 1 "
        "is true of the synthetic settings and an assumption for the data sets",
    }
    if any(each.name == "AsyncLinUCB" for each in algorithms):
        shared |= {
            "AsyncLinUCB": "gamma_U = gamma_D = 2, the growth that alpha = 1 asks for",
            "DisLinUCB": "D = T / (M d log T), which matches regret",
            "SOFUL, CBSCFD": "the setting's sketch size; like LinUCB, learners that never talk",
            "Centralised": "one learner that sees everything; its communication is not counted",
        }
    return shared
