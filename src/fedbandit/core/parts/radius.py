"""Rules for the confidence radius beta, which weighs an arm's uncertainty in its score."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, Protocol

import numpy as np

from fedbandit.core import theory
from fedbandit.core.checks import one_of, real
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Reading
from fedbandit.core.statistics import Rewards
from fedbandit.core.theory import Bounds

_FEWEST = 1e-9  # directions that data has shown: a smaller number may be rounding


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The observations that an agent decides on, besides their V.

    ``theta`` is the estimate from them, ``moment`` sum r x, ``count`` their number, ``rewards`` the
    sums over r.
    """

    theta: Array
    moment: Array
    count: int
    rewards: Rewards


class Radius(Protocol):
    """A rule for beta, applied whenever the data that an agent decides on changes."""

    def __call__(self, reading: Reading, evidence: Evidence, /) -> float:
        """Return beta for a V and the observations behind it."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant beta, as published experiments use it."""

    value: float

    def __call__(self, _reading: Reading, _evidence: Evidence, /) -> float:
        """Return the constant."""
        return self.value


@dataclass(frozen=True, slots=True)
class Empirical:
    """``radius="auto"``: beta in units of what the rewards themselves show.

    It has the form of OFUL's radius, a multiple of the noise plus sqrt(lambda) times a bound on
    theta, with both measured:

        beta = sigma + 2 sqrt(lambda) tau
        sigma^2 = (sum r^2 - theta . sum r x) / n
        tau^2 = |theta|^2 / (directions that data has shown)

    sigma is the noise that theta leaves unexplained. tau is how large theta is along a typical
    direction, so that an arm that was never seen is credited with two deviations of what directions
    turned out to be worth. Both are the estimates of a Bayesian whose prior for theta is normal,
    with noise sigma and deviation tau. beta is proportional to the rewards: multiply all of them by
    10, and the same arms are played. Until a reward differs from 0 there is no scale; any beta
    above 0 then plays the same arms, and it is 1.

    No guarantee comes with it: docs/beyond.md has what was measured. Where a sketch has lost part
    of X^T X, sigma is only roughly the noise, since theta . sum r x then lacks a part as well.
    """

    ridge: float

    def __call__(self, reading: Reading, evidence: Evidence, /) -> float:
        """Return sigma + 2 sqrt(ridge) tau; 1 if that is 0."""
        theta, rewards = evidence.theta, evidence.rewards
        explained = float(theta @ evidence.moment) / max(1, evidence.count)
        noise = sqrt(max(0.0, rewards.squares / max(1, rewards.count) - explained))
        shown = max(_FEWEST, reading.shown_directions(self.ridge))
        size = float(np.linalg.norm(theta)) * sqrt(self.ridge / shown)
        return noise + 2.0 * size or 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated:
    """FSCLB's eq. 1 (``theory.radius``), and FedLinUCB's radius, which is eq. 1 with shed = 0.

    FedLinUCB with rounded messages has the form "tight", corrected: see ``GramMemory``.
    ``rounded``: rows were rounded for sending, and theta is solved for with shed. Rounding may have
    made rows longer, by at most what was added to shed for it (see ``Narrow``), so V - X^T X is at
    most (lambda + 2 shed) I rather than (lambda + shed) I.
    """

    dimension: int
    agents: int
    alpha: float
    ridge: float
    bounds: Bounds
    form: Literal["paper", "tight"] = "paper"
    corrected: bool = False
    rounded: bool = False

    def __call__(self, reading: Reading, _evidence: Evidence, /) -> float:
        """Return ``theory.radius`` for what has been shed, times the reading's inflation."""
        return reading.inflation * theory.radius(
            dimension=self.dimension,
            agents=self.agents,
            alpha=self.alpha,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=(1 + self.rounded) * reading.shed,
            form=self.form,
            corrected=self.corrected,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfNormalised:
    """OFUL's radius, from det V; used by LinUCB, CBSCFD, Async-LinUCB and DisLinUCB."""

    dimension: int
    ridge: float
    bounds: Bounds

    def __call__(self, reading: Reading, _evidence: Evidence, /) -> float:
        """Return ``theory.self_normalised_radius`` for the reading."""
        return theory.self_normalised_radius(
            logdet=reading.logdet,
            dimension=self.dimension,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=reading.shed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompensated:
    """SOFUL's radius, for a sketch whose V leaves out what was shed."""

    dimension: int
    sketch_size: int
    ridge: float
    bounds: Bounds

    def __call__(self, reading: Reading, evidence: Evidence, /) -> float:
        """Return ``theory.soful_radius`` after as many observations."""
        return theory.soful_radius(
            count=evidence.count,
            dimension=self.dimension,
            sketch_size=self.sketch_size,
            ridge=self.ridge,
            bounds=self.bounds,
            shed=reading.shed,
        )


def chosen_radius(asked: float | str, rules: Mapping[str, Radius]) -> Radius:
    """Return the radius that a recipe was asked for: a number, or a word for one of the rules."""
    if isinstance(asked, str):
        one_of("radius", asked, rules)
        return rules[asked]
    return Constant(real("radius", asked, zero=True))
