"""The algorithms that FSCLB is compared with, each a function that turns parameters into parts.

What all of them share is documented once, at ``FSCLB``: dimension, agents, ridge, radius,
bounds, choice, features.
"""

from math import inf, log
from typing import Literal

from fedbandit.core.algorithms.fsclb import checked_sketch_size
from fedbandit.core.checks import one_of, real, whole
from fedbandit.core.memory.gram_memory import Determinant, GramMemory
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.memory.triangle import GRAM_WIRES, GramWire
from fedbandit.core.parts.choice import Uniform
from fedbandit.core.parts.drawn import AnyChoice, choice_of
from fedbandit.core.parts.parts import Parts
from fedbandit.core.parts.radius import (
    Empirical,
    Federated,
    Radius,
    SelfNormalised,
    Uncompensated,
    chosen_radius,
)
from fedbandit.core.parts.reply import ToAll, ToOwed
from fedbandit.core.parts.trigger import Growth, GrowthTimesWait
from fedbandit.core.recipe import recipe
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter
from fedbandit.features.spec import AnyFeatures, features_from

PaperRadius = float | Literal["paper"]


@recipe(cost_only=("determinant",))
def FedLinUCB(
    *,
    dimension: int,
    agents: int,
    alpha: float = 1.0,
    ridge: float = 1.0,
    radius: PaperRadius | Literal["auto"] = 0.5,
    determinant: Determinant = "when-needed",
    wire: GramWire = "full",
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """FedLinUCB (He et al. 2022): the protocol of FSCLB with the whole d x d matrix, no sketch.

    An agent chooses among K arms in O(K d^2), with what it last downloaded, and uploads d^2 + d
    numbers once its new observations make det(V), the determinant of the matrix that it decides
    with, grow by more than a factor of 1 + alpha.

    ``determinant`` is how that growth is computed; decisions are the same. ``"every-round"``: as
    published, in O(d^3) a round. ``"rank-one"``: in O(d^2). ``"when-needed"``: a bound on it, in
    O(d), and the growth itself only when the bound reaches the threshold.

    ``wire`` is how the matrix is sent. ``"full"``, as published: d^2 numbers in float64. The others
    send its upper triangle, d (d + 1) / 2 numbers: ``"float64"`` with the same decisions to the
    last bit; ``"float32"``, ``"float16"`` or ``"int8"`` rounded. Rounding only ever adds to the
    matrix, so V >= ridge I + X^T X holds for every width, and the error is carried to the moment as
    FSCLB does with ``estimate="corrected"`` (``GramMemory`` has the proof).

    The other parameters are those of ``FSCLB``; ``radius="paper"`` is eq. 1 with nothing shed,
    ``"auto"`` is measured (``Empirical``). For rounded widths the bias of ``"paper"`` is that of
    ``theory.radius(form="tight", corrected=True)``, which bounds what rounding does to the
    estimate; S of ``bounds`` limits theta' there. Its factor for the noise assumes that no agent's
    V exceeds the server's, which a rounded download can break.
    """
    one_of("determinant", determinant, ["when-needed", "rank-one", "every-round"])
    one_of("wire", wire, GRAM_WIRES)
    longest = bounds.parameter_norm if radius == "paper" else inf
    memory = GramMemory(dimension, real("ridge", ridge), determinant, wire, longest)
    real("alpha", alpha)
    paper = Federated(
        dimension=dimension,
        agents=agents,
        alpha=alpha,
        ridge=ridge,
        bounds=bounds,
        form="tight" if memory.rounds else "paper",
        corrected=memory.rounds,
    )
    rules: dict[str, Radius] = {"auto": Empirical(ridge), "paper": paper}
    return Parts(
        memory=memory,
        choice=choice_of(choice),
        features=features_from(features),
        radius=chosen_radius(radius, rules),
        trigger=Growth(alpha),
    )


@recipe()
def AsyncLinUCB(
    *,
    dimension: int,
    agents: int,
    upload_growth: float = 2.0,
    download_growth: float = 2.0,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """Async-LinUCB (Li and Wang 2022): uploads and downloads have a trigger each.

    An agent uploads once its new observations make det(V) grow by more than the factor
    ``upload_growth`` (gamma_U). After every upload the server sends everything to each agent whose
    det(V) would grow by more than ``download_growth`` (gamma_D). An agent decides on its own data
    and its downloads, in O(K d^2); an observation costs O(d^2).

    The other parameters are those of ``FSCLB``; ``radius="paper"`` is the self-normalised radius
    (``theory.self_normalised_radius``).
    """
    for name, value in (("upload_growth", upload_growth), ("download_growth", download_growth)):
        _at_least_one(name, value)
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
        choice=choice_of(choice),
        features=features_from(features),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        trigger=Growth(upload_growth - 1.0),
        reply=ToOwed(download_growth),
        own_data=True,
    )


@recipe()
def DisLinUCB(
    *,
    dimension: int,
    agents: int,
    wait: float | Literal["regret", "communication"] = "regret",
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """DisLinUCB (Wang et al. 2020): all agents synchronise once one has waited long enough.

    Once the growth of log det(V) of an agent times its observations since the last synchronisation
    exceeds D, the server collects an upload of every agent and sends everything to all of them.
    Agents decide on their own data and their downloads, in O(K d^2).

    ``wait`` is D. ``"regret"`` sets D = T / (M d log T), which favours low regret, and
    ``"communication"`` D = T / (d log T), which favours few messages, with T = bounds.horizon. The
    other parameters are those of ``FSCLB``; ``radius="paper"`` is the self-normalised radius
    (``theory.self_normalised_radius``).
    """
    if isinstance(wait, str):
        one_of("wait", wait, ["regret", "communication"])
        sharing = agents if wait == "regret" else 1
        wait = bounds.horizon / (sharing * dimension * log(max(bounds.horizon, 2)))
    real("wait", wait)
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
        choice=choice_of(choice),
        features=features_from(features),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        trigger=GrowthTimesWait(wait),
        reply=ToAll(),
        own_data=True,
    )


@recipe()
def LinUCB(
    *,
    dimension: int,
    agents: int = 1,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """LinUCB, or OFUL (Abbasi-Yadkori et al. 2011): every agent learns alone; nothing is sent.

    A decision costs O(K d^2), an observation O(d^2). Parameters are those of ``FSCLB``;
    ``radius="paper"`` is OFUL's (``theory.self_normalised_radius``).
    """
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
        choice=choice_of(choice),
        features=features_from(features),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        own_data=True,
    )


@recipe()
def Centralised(
    *,
    dimension: int,
    agents: int = 1,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """One LinUCB learner that sees every agent's data at once: the reference for regret.

    ``fleet()`` returns the same learner for every agent. No communication is counted. Parameters
    are those of ``LinUCB``.
    """
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
        choice=choice_of(choice),
        features=features_from(features),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        own_data=True,
        shared=True,
    )


@recipe()
def SOFUL(
    *,
    dimension: int,
    sketch_size: int,
    agents: int = 1,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """SOFUL (Kuzborskij et al. 2019): LinUCB on a Frequent Directions sketch; nothing is sent.

    A decision costs O(K l d). Parameters are those of ``FSCLB``; ``radius="paper"`` is SOFUL's
    (``theory.soful_radius``).
    """
    size = checked_sketch_size(sketch_size, dimension)
    paper = Uncompensated(dimension=dimension, sketch_size=size, ridge=ridge, bounds=bounds)
    return Parts(
        memory=SketchMemory(dimension, real("ridge", ridge), size, compensated=False),
        choice=choice_of(choice),
        features=features_from(features),
        radius=chosen_radius(radius, {"paper": paper}),
        own_data=True,
    )


@recipe()
def CBSCFD(
    *,
    dimension: int,
    sketch_size: int,
    agents: int = 1,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    bounds: Bounds = Bounds(),
    choice: AnyChoice = "ucb",
    features: AnyFeatures = None,
) -> Parts:
    """CBSCFD (Chen et al. 2020): SOFUL that adds what the sketch has shed to the ridge.

    A decision costs O(K l d). Parameters are those of ``FSCLB``; ``radius="paper"`` is the
    self-normalised radius (``theory.self_normalised_radius``).
    """
    return Parts(
        memory=SketchMemory(
            dimension, real("ridge", ridge), checked_sketch_size(sketch_size, dimension)
        ),
        choice=choice_of(choice),
        features=features_from(features),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        own_data=True,
    )


@recipe()
def Random(*, dimension: int, agents: int = 1, seed: int = 0) -> Parts:
    """Choose arms uniformly at random and learn nothing: the baseline.

    Choices depend on ``seed``, the agent and the number of the decision alone.
    """
    whole("seed", seed, least=0)
    return Parts(memory=SketchMemory(dimension, ridge=1.0, size=2), choice=Uniform(seed))


def _self_normalised(asked: float | str, dimension: int, ridge: float, bounds: Bounds) -> Radius:
    paper = SelfNormalised(dimension=dimension, ridge=ridge, bounds=bounds)
    return chosen_radius(asked, {"paper": paper})


def _at_least_one(name: str, value: float) -> None:
    if real(name, value) < 1.0:
        raise InvalidParameter(
            f"{name} must be a factor of at least 1; got {value!r}. "
            "With 1 messages follow every observation; the default is 2."
        )
