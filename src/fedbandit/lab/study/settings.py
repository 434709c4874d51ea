"""The paper's four settings as values, and what an algorithm that is compared in them is.

The paper does not say the ridge, the noise, how arms and parameter are drawn, or the radius; the
values here are our choice, and every report shows them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.recipe import Recipe
from fedbandit.core.theory import Bounds
from fedbandit.lab.runs.task import NamedWorld
from fedbandit.worlds import Classification, Synthetic

AGENTS = 10
ALPHA = 1.0
RIDGE = 1.0
NOISE = 0.1
DELTA = 0.01

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
        """Return the class that pays in the trial with this seed; the classes take turns."""
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
        """Return the bounds of the theoretical radius; S = 1 is assumed for the data sets."""
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
    """One algorithm of a comparison.

    ``tuned_as`` names the algorithm whose radius it shares: itself if it has one of its own, empty
    if it has no radius. ``extra`` returns the parameters of its own in a setting.
    """

    name: str
    recipe: str
    tuned_as: str
    extra: Callable[[Setting], Mapping[str, Any]] = lambda _: {}

    def build(self, setting: Setting, *, radius: Radius, rounds: int, seed: int) -> Recipe:
        """Return the recipe for a setting; only Random uses ``seed``."""
        params: dict[str, Any] = {"dimension": setting.dimension, "agents": AGENTS}
        if not self.tuned_as:
            return RECIPES[self.recipe](**params, seed=seed)
        params |= {"ridge": RIDGE, "radius": radius, "bounds": setting.bounds(rounds)}
        if self.recipe in ("FSCLB", "FedLinUCB"):
            params["alpha"] = ALPHA
        if self.recipe in ("FSCLB", "SOFUL", "CBSCFD"):
            params["sketch_size"] = setting.sketch_size
        return RECIPES[self.recipe](**params, **self.extra(setting))
