"""The papers' formulas as functions: spectral error, confidence radii, bounds on regret.

Symbols: d dimension, l sketch size, M agents, T rounds (horizon), lambda ridge, alpha the growth
that triggers an upload, and R, S, L, delta of ``Bounds``. ``shed`` bounds what a sketch has dropped
of X^T X (the paper's rho and Delta; see ``Sketch``). FSCLB is from "Scaling Federated Linear
Contextual Bandits via Sketching" (Yang, Xie, Liu, Lian), "the paper" in all docstrings. Every
function costs O(1), but for ``epsilon_l``.
"""

from dataclasses import asdict, dataclass
from math import log, log1p, log2, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.core.checks import fraction, one_of, real, whole
from fedbandit.errors import InvalidParameter, complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The constants that theory takes as known: R, S, L, T and delta.

    ``noise`` (R): rewards are R-sub-Gaussian around their mean. ``parameter_norm`` (S) bounds
    |theta*|, ``arm_norm`` (L) bounds |x| of every arm. ``horizon`` (T) is the number of rounds,
    ``delta`` the probability with which the confidence bounds may fail. They matter for radii from
    theory (``radius="paper"`` or ``"tight"``), for DisLinUCB's ``wait`` (T), and for
    ``estimate="corrected"``, which limits the length of an estimate by S.
    """

    noise: float = 0.1
    parameter_norm: float = 1.0
    arm_norm: float = 1.0
    horizon: int = 20_000
    delta: float = 0.01

    def __post_init__(self) -> None:
        real("noise", self.noise)
        real("parameter_norm", self.parameter_norm)
        real("arm_norm", self.arm_norm)
        whole("horizon", self.horizon, least=1)
        fraction("delta", self.delta)

    @property
    def params(self) -> dict[str, float]:
        """The five numbers by name."""
        return asdict(self)


def epsilon_l(eigenvalues: ArrayLike, *, sketch_size: int, ridge: float) -> float:
    """Return the spectral error epsilon_l of FSCLB's Theorem 5.1.

    It is the minimum over k < l of (sum of all but the k largest eigenvalues) / (lambda (l - k)).
    ``eigenvalues`` are those of X^T X, in any order. No sketch of size l sheds more than lambda
    times this, in whatever order it was merged. It is 0 if l exceeds the rank. Cost O(d log d + l).

    The paper's index range (lambda_{d-k} to lambda_d) reads as the k + 1 smallest; the Frequent
    Directions bound sums everything past the k largest, and so does this.
    """
    whole("sketch_size", sketch_size, least=2)
    real("ridge", ridge)
    spectrum = np.sort(np.maximum(np.asarray(eigenvalues, dtype=np.float64), 0.0))
    if spectrum.ndim != 1 or not np.isfinite(spectrum).all():
        got, fix = f"an array of shape {spectrum.shape}", "Give numpy.linalg.eigvalsh(X.T @ X)."
        expected = "a vector of finite eigenvalues"
        raise InvalidParameter(complaint("eigenvalues", got=got, expected=expected, fix=fix))
    tails = np.concatenate([np.cumsum(spectrum)[::-1], np.zeros(sketch_size)])
    k = np.arange(sketch_size)
    return float((tails[:sketch_size] / (ridge * (sketch_size - k))).min())


def radius(
    *,
    dimension: int,
    agents: int,
    alpha: float,
    ridge: float,
    bounds: Bounds,
    shed: float = 0.0,
    form: Literal["paper", "tight"] = "paper",
    corrected: bool = False,
) -> float:
    """Return the confidence radius beta of FSCLB, eq. 1; with shed = 0 it is FedLinUCB's.

    beta = M~ (R sqrt(d log((1 + T L^2 / (a~ lambda)) / delta)) + sqrt(lambda) S) + bias,
    M~ = sqrt(1 + M alpha) + M sqrt(2 alpha), a~ = min(alpha, 1).

    ``form="paper"``: the bias is (sqrt(lambda) + sqrt(shed / lambda)) S, which over-estimates for
    lambda <= 1 and is not justified for lambda > 1. ``"tight"`` is what the bounds of a sketch,
    S^T S <= X^T X <= S^T S + shed I, give: E = V - X^T X, the part of V that was not observed,
    satisfies 0 <= E <= (lambda + shed) I and E <= V, so that the bias |E theta*|_{V^-1} is at most
    sqrt(lambda + shed) S.

    ``corrected``: for estimate="corrected" (see SketchMemory) theta* - theta' takes the place of
    theta*, with |theta'| <= S, so the bias at most doubles. If theta is computed with a smaller
    ridge c' than the c = lambda + shed of the widths, the caller has to multiply the radius by
    c / c' (``Reading.inflation``): with V' >= V c' / c,

        |<x, V'^-1 y>| <= |x|_{V'^-1} |y|_{V'^-1} <= (c / c') |x|_{V^-1} |y|_{V^-1}.
    """
    one_of("form", form, ["paper", "tight"])
    real("alpha", alpha)
    real("ridge", ridge)
    real("shed", shed, zero=True)
    spread = sqrt(1 + agents * alpha) + agents * sqrt(2 * alpha)
    odds = (1 + bounds.horizon * bounds.arm_norm**2 / (min(alpha, 1.0) * ridge)) / bounds.delta
    noise = bounds.noise * sqrt(dimension * log(odds)) + sqrt(ridge) * bounds.parameter_norm
    bias = sqrt(ridge + shed) if form == "tight" else sqrt(ridge) + sqrt(shed / ridge)
    return spread * noise + (1 + corrected) * bias * bounds.parameter_norm


def self_normalised_radius(
    *, logdet: float, dimension: int, ridge: float, bounds: Bounds, shed: float = 0.0
) -> float:
    """Return OFUL's radius R sqrt(log(det V / lambda^d) + 2 log(1/delta)) + sqrt(lambda + shed) S.

    Abbasi-Yadkori et al. 2011, Theorem 2, for V = lambda I + X^T X and shed = 0. ``logdet`` is
    log det V. With shed it covers CBSCFD, whose V = (lambda + shed) I + S^T S is larger: the proof
    is the same, with the bias of ``radius(form="tight")``. Async-LinUCB and DisLinUCB use it for
    the matrix that they decide with.
    """
    information = max(logdet - dimension * log(ridge), 0.0) - 2 * log(bounds.delta)
    return bounds.noise * sqrt(information) + sqrt(ridge + shed) * bounds.parameter_norm


def soful_radius(
    *, count: int, dimension: int, sketch_size: int, ridge: float, bounds: Bounds, shed: float
) -> float:
    """Return SOFUL's radius (Kuzborskij et al. 2019, Theorem 1), for V = lambda I + S^T S.

    R sqrt(l log(1 + t L^2 / (l lambda)) + 2 log(1/delta) + d log(1 + shed/lambda))
    sqrt(1 + shed/lambda) + S sqrt(lambda) (1 + shed/lambda), after t = ``count`` observations.
    """
    lost = shed / ridge
    information = sketch_size * log1p(count * bounds.arm_norm**2 / (sketch_size * ridge))
    information += dimension * log1p(lost) - 2 * log(bounds.delta)
    noise = bounds.noise * sqrt(information * (1 + lost))
    return noise + bounds.parameter_norm * sqrt(ridge) * (1 + lost)


def regret_bound(
    *,
    dimension: int,
    sketch_size: int,
    agents: int,
    alpha: float,
    ridge: float,
    bounds: Bounds,
    radius: float,
    spectral_error: float,
) -> float:
    """Return the bound of FSCLB's Theorem 5.1 on the regret after T rounds.

    2 d S L M log(1 + T L^2/lambda) + 2 beta sqrt(2 (1 + M alpha))
    sqrt(2 l T log(1 + T L^2 / (l lambda)) + 2 d T log(1 + epsilon_l)), with epsilon_l =
    ``spectral_error``. The theorem's own beta has a constant R_1 that the paper does not state, so
    the caller gives ``radius``, for example the largest beta that was used.
    """
    real("alpha", alpha)
    real("ridge", ridge)
    d, T = dimension, bounds.horizon
    energy = T * bounds.arm_norm**2 / ridge
    scale = bounds.parameter_norm * bounds.arm_norm
    switching = 2 * d * scale * agents * log1p(energy)
    width = 2 * sketch_size * T * log1p(energy / sketch_size) + 2 * d * T * log1p(spectral_error)
    return switching + 2 * radius * sqrt(2 * (1 + agents * alpha)) * sqrt(width)


def communication_bound(
    *,
    dimension: int,
    agents: int,
    alpha: float,
    ridge: float,
    bounds: Bounds,
    spectral_error: float,
) -> float:
    """Return the bound of FSCLB's Theorem 5.1 on the number of uploads in T rounds.

    2 d (M + 1/alpha) log2((1 + epsilon)(1 + T L^2 / (lambda d))), with epsilon =
    ``spectral_error``. The paper writes log and epsilon_l. Its proof counts doublings of a
    determinant, so the logarithm is to base 2, and it needs epsilon = shed/lambda of the server at
    the end, which is at most epsilon_l.
    """
    real("alpha", alpha)
    real("ridge", ridge)
    energy = bounds.horizon * bounds.arm_norm**2 / (ridge * dimension)
    return 2 * dimension * (agents + 1 / alpha) * log2((1 + spectral_error) * (1 + energy))
