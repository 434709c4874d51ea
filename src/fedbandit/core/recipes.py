"""The comparison table as code: every algorithm is a choice of parts."""

from collections.abc import Callable, Mapping
from functools import partial
from math import log
from typing import Final, Literal, get_args

from fedbandit.core.checks import one_of, real, whole
from fedbandit.core.memory.gram_memory import Determinant, GramMemory
from fedbandit.core.memory.narrow import WIDTHS, Width
from fedbandit.core.memory.sizing import TOLERANCE, Sizing, largest_size, lean_budget
from fedbandit.core.memory.sketch_memory import Estimate, SketchMemory
from fedbandit.core.parts.choice import Uniform
from fedbandit.core.parts.parts import Parts
from fedbandit.core.parts.radius import Constant, Federated, Radius, SelfNormalised, Uncompensated
from fedbandit.core.parts.reply import ToAll, ToOwed
from fedbandit.core.parts.trigger import Growth, GrowthTimesWait
from fedbandit.core.recipe import Recipe, nearest_names, recipe
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter, complaint

ROOM: Final = 4.0
"""How many times S the corrected estimate's reference may be long, where no radius rests on S."""

PaperRadius = float | Literal["paper"]
TightRadius = float | Literal["paper", "tight"]


class Fsclb:
    """``FSCLB(...)`` as the paper has it, ``FSCLB.lean(...)`` as we would run it."""

    @recipe(name="FSCLB")
    def __call__(
        self,
        *,
        dimension: int,
        sketch_size: int | Literal["auto"],
        agents: int,
        alpha: float = 1.0,
        ridge: float = 1.0,
        radius: TightRadius = 0.5,
        cadence: Literal["paper", "buffered"] = "paper",
        buffer: int | None = None,
        estimate: Estimate = "paper",
        wire: Width = "float64",
        budget: int | None = None,
        server_size: int | None = None,
        bounds: Bounds = Bounds(),
    ) -> Parts:
        """Federated Sketch Contextual Linear Bandits: agents send sketches, when it matters.

        Decides on the last download in O(K l d), uploads O(l d) numbers once the determinant of
        what it holds has grown by 1 + alpha. ``radius`` is a constant, ``"paper"`` (eq. 1) or
        ``"tight"``.

        ``cadence="paper"`` sheds at every observation past the sketch's size; ``"buffered"`` keeps
        up to ``buffer`` rows (default 4 l, or 3 d where that exceeds d) and sheds when they are
        full or sent (with more than d rows, only when sent): that sheds less, costs less and keeps
        every guarantee.

        Beyond the paper (docs/beyond.md): ``estimate="averaged"`` reads theta with the average lost
        mass in place of shed; ``"corrected"`` also takes from the moment what the sketch gets wrong
        at the estimate of the time, which removes most of the loss. ``wire`` is how rows travel:
        float64, float32, float16, bfloat16 or int8, the rounding added to what is shed.
        ``sketch_size="auto"`` lets the server choose the size from what is shed, so that no message
        exceeds ``budget`` bytes, but for at most 33 of sums of rewards. ``server_size`` is the size
        of the sketch that the server keeps for itself, at least that of messages: twice as large
        with "auto", else the same.
        """
        one_of("estimate", estimate, get_args(Estimate))
        one_of("wire", wire, WIDTHS)
        size, sizing = _sizes(sketch_size, budget, dimension=dimension, width=wire)
        memory = SketchMemory(
            dimension,
            real("ridge", ridge),
            size,
            buffer=_buffer(cadence, buffer, size, dimension),
            estimate=estimate,
            width=wire,
            sizing=sizing,
            longest=(1.0 if isinstance(radius, str) else ROOM) * bounds.parameter_norm,
            server_size=_server_size(server_size, size, sizing, dimension),
        )
        real("alpha", alpha)
        _check_papers(radius, estimate)
        federated = partial(
            Federated,
            dimension=dimension,
            agents=agents,
            alpha=alpha,
            ridge=ridge,
            bounds=bounds,
            corrected=estimate == "corrected",
            rounded=estimate == "paper" and wire != "float64",
        )
        theory = {"paper": federated(form="paper"), "tight": federated(form="tight")}
        return Parts(memory=memory, radius=_radius(radius, theory), trigger=Growth(alpha))

    @nearest_names("FSCLB.lean")
    def lean(
        self,
        *,
        dimension: int,
        agents: int,
        sketch_size: int | Literal["auto"] = "auto",
        alpha: float = 1.0,
        ridge: float = 1.0,
        radius: float | Literal["tight"] = 0.5,
        budget: int | None = None,
        server_size: int | None = None,
        bounds: Bounds = Bounds(),
    ) -> Recipe:
        """FSCLB as we would run it: a thirtieth of FedLinUCB's bytes, less regret than the paper's.

        ``cadence="buffered"``, ``estimate="corrected"``, ``wire="int8"``, and a size that chooses
        itself within ``budget`` bytes a message: unless stated, rows take a fortieth of a d x d
        matrix in float64. The server keeps twice the size of a message. Ours, not the paper's;
        docs/departures.md lists the differences.
        """
        whole("dimension", dimension, least=1)
        if sketch_size == "auto":
            budget = lean_budget(dimension) if budget is None else budget
        elif server_size is None:
            server_size = min(2 * _sketch_size(sketch_size, dimension), dimension + 1)
        return self(
            dimension=dimension,
            sketch_size=sketch_size,
            agents=agents,
            alpha=alpha,
            ridge=ridge,
            radius=radius,
            cadence="buffered",
            estimate="corrected",
            wire="int8",
            budget=budget,
            server_size=server_size,
            bounds=bounds,
        )

    def __repr__(self) -> str:
        return "<recipe FSCLB>"

    def __reduce__(self) -> str:
        return "FSCLB"  # pickled as functions are: by name


FSCLB: Final = Fsclb()


@recipe(cost_only=("determinant",))
def FedLinUCB(
    *,
    dimension: int,
    agents: int,
    alpha: float = 1.0,
    ridge: float = 1.0,
    radius: PaperRadius = 0.5,
    determinant: Determinant = "when-needed",
    bounds: Bounds = Bounds(),
) -> Parts:
    """FedLinUCB (He et al. 2022): FSCLB's protocol with the whole d x d matrix.

    ``determinant="every-round"`` computes the trigger as published, in O(d^3) a round;
    ``"rank-one"`` in O(d^2); ``"when-needed"`` in O(d), and in full only when a bound on it reaches
    the threshold. Decisions are the same.
    """
    one_of("determinant", determinant, ["when-needed", "rank-one", "every-round"])
    memory = GramMemory(dimension, real("ridge", ridge), determinant)
    real("alpha", alpha)
    paper = Federated(dimension=dimension, agents=agents, alpha=alpha, ridge=ridge, bounds=bounds)
    return Parts(memory=memory, radius=_radius(radius, {"paper": paper}), trigger=Growth(alpha))


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
) -> Parts:
    """Async-LinUCB (Li and Wang 2022): the server also answers others, once it owes them enough.

    An agent uploads once the determinant of its data has grown by ``upload_growth`` (gamma_U), and
    is sent everything once the server's has grown by ``download_growth`` (gamma_D) past what the
    agent holds. It decides on its own data and its downloads.
    """
    for name, value in (("upload_growth", upload_growth), ("download_growth", download_growth)):
        _at_least_one(name, value)
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
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
) -> Parts:
    """DisLinUCB (Wang et al. 2020): all sync once one agent's growth times its wait exceeds D.

    ``wait`` is D, or says what D is to match: ``"regret"``, T / (M d log T), or
    ``"communication"``, T / (d log T), with T = bounds.horizon.
    """
    if isinstance(wait, str):
        one_of("wait", wait, ["regret", "communication"])
        sharing = agents if wait == "regret" else 1
        wait = bounds.horizon / (sharing * dimension * log(max(bounds.horizon, 2)))
    real("wait", wait)
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
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
) -> Parts:
    """LinUCB / OFUL (Abbasi-Yadkori et al. 2011): learners that never talk."""
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
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
) -> Parts:
    """One LinUCB learner that sees every agent's data at once: what no federation can beat.

    ``fleet()`` returns the same learner for every agent. It counts no communication.
    """
    return Parts(
        memory=GramMemory(dimension, real("ridge", ridge)),
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
) -> Parts:
    """SOFUL (Kuzborskij et al. 2019): OFUL on a Frequent Directions sketch; learners never talk."""
    size = _sketch_size(sketch_size, dimension)
    paper = Uncompensated(dimension=dimension, sketch_size=size, ridge=ridge, bounds=bounds)
    return Parts(
        memory=SketchMemory(dimension, real("ridge", ridge), size, compensated=False),
        radius=_radius(radius, {"paper": paper}),
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
) -> Parts:
    """CBSCFD (Chen et al. 2020): SOFUL with a sketch that gives back what it has shed."""
    return Parts(
        memory=SketchMemory(dimension, real("ridge", ridge), _sketch_size(sketch_size, dimension)),
        radius=_self_normalised(radius, dimension, ridge, bounds),
        own_data=True,
    )


@recipe()
def Random(*, dimension: int, agents: int = 1, seed: int = 0) -> Parts:
    """Pick uniformly, learn nothing: the floor. The picks depend on seed, agent and round alone."""
    whole("seed", seed, least=0)
    return Parts(memory=SketchMemory(dimension, ridge=1.0, size=2), choice=Uniform(seed))


RECIPES: Final[dict[str, Callable[..., Recipe]]] = {
    "FSCLB": FSCLB,
    "FSCLB.lean": FSCLB.lean,
    "FedLinUCB": FedLinUCB,
    "AsyncLinUCB": AsyncLinUCB,
    "DisLinUCB": DisLinUCB,
    "LinUCB": LinUCB,
    "Centralised": Centralised,
    "SOFUL": SOFUL,
    "CBSCFD": CBSCFD,
    "Random": Random,
}
"""Every recipe by its name."""


def _radius(asked: float | str, theory: Mapping[str, Radius]) -> Radius:
    if isinstance(asked, str):
        one_of("radius", asked, theory)
        return theory[asked]
    return Constant(real("radius", asked, zero=True))


def _check_papers(radius: float | str, estimate: str) -> None:
    """Refuse the paper's radius for an estimate that is not the paper's."""
    if radius == "paper" and estimate != "paper":
        expected = f"'tight' or a number with estimate={estimate!r}: eq. 1 is for the paper's own"
        fix = "Say radius='tight', or estimate='paper'."
        raise InvalidParameter(complaint("radius", got="'paper'", expected=expected, fix=fix))


def _self_normalised(asked: float | str, dimension: int, ridge: float, bounds: Bounds) -> Radius:
    paper = SelfNormalised(dimension=dimension, ridge=ridge, bounds=bounds)
    return _radius(asked, {"paper": paper})


def _sketch_size(size: int, dimension: int) -> int:
    why = "a sketch keeps one row less than its size; size d + 1 sheds nothing"
    return whole("sketch_size", size, least=2, most=dimension + 1, why=why)


def _sizes(
    size: int | str, budget: int | None, *, dimension: int, width: str
) -> tuple[int, Sizing | None]:
    """Return the largest sketch size, and the rule by which it changes, if it does."""
    if size == "auto":
        most = dimension + 1
        if budget is not None:
            whole("budget", budget, least=1)
            most = largest_size(budget, dimension=dimension, width=width)
        return most, Sizing(most, TOLERANCE)
    if budget is not None:
        fix = "Say sketch_size='auto', or leave budget out."
        expected = "none with a fixed sketch_size"
        raise InvalidParameter(complaint("budget", got=budget, expected=expected, fix=fix))
    if isinstance(size, str):
        expected, fix = "a whole number or 'auto'", "Give one of the two."
        raise InvalidParameter(complaint("sketch_size", got=repr(size), expected=expected, fix=fix))
    return _sketch_size(size, dimension), None


def _server_size(asked: int | None, size: int, sizing: Sizing | None, dimension: int) -> int | None:
    if asked is not None:
        why = "a server keeps at least what it sends, and d rows hold everything"
        return whole("server_size", asked, least=size, most=dimension + 1, why=why)
    return None if sizing is None else min(2 * size, dimension + 1)


def _buffer(cadence: str, buffer: int | None, size: int, dimension: int) -> int | None:
    one_of("cadence", cadence, ["paper", "buffered"])
    if cadence == "buffered":
        roomy = 4 * size if 4 * size <= dimension else 3 * dimension
        return roomy if buffer is None else whole("buffer", buffer, least=size)
    if buffer is not None:
        fix = "Say cadence='buffered', or leave buffer out."
        raise InvalidParameter(
            complaint("buffer", got=buffer, expected="none with cadence='paper'", fix=fix)
        )
    return None


def _at_least_one(name: str, value: float) -> None:
    if real(name, value) < 1.0:
        fix = "A ratio of 1 talks after every observation."
        raise InvalidParameter(complaint(name, got=value, expected="a ratio >= 1", fix=fix))
