"""FSCLB, the paper's algorithm, and ``FSCLB.lean``, our way to run it."""

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any, Final, Literal, cast, get_args

from fedbandit.core.checks import one_of, real, whole
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.narrow import WIDTHS, Width
from fedbandit.core.memory.sizing import ALL_ROWS, TOLERANCE, Sizing, largest_size, lean_budget
from fedbandit.core.memory.sketch_memory import Estimate, SketchMemory
from fedbandit.core.parts.drawn import AnyChoice, choice_of
from fedbandit.core.parts.parts import Parts
from fedbandit.core.parts.radius import Empirical, Federated, Radius, chosen_radius
from fedbandit.core.parts.trigger import Growth
from fedbandit.core.recipe import Recipe, nearest_names, recipe
from fedbandit.core.theory import Bounds
from fedbandit.errors import InvalidParameter
from fedbandit.features.spec import AnyFeatures, features_from

ROOM: Final = 4.0
"""Limit on the length of the corrected estimate's theta', in multiples of S = parameter_norm.

It applies to constant radii and "auto". A radius from theory needs |theta'| <= S.
"""

TightRadius = float | Literal["auto", "paper", "tight"]
Wire = Width | Literal["fitted"]
WIRES: Final[tuple[Wire, ...]] = (*WIDTHS, "fitted")
Compensation = Literal["uniform", "coordinates"]
Rows = Literal["shrunk", "whole"]
LEAN_ALPHA: Final = 0.8


def _implied(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the buffer and the server's size that a recipe has if they are left out."""
    d, budget, width = params["dimension"], params["budget"], params["wire"]
    size, sizing = _sizes(params["sketch_size"], budget, dimension=d, width=width)
    if params["compensation"] == "coordinates":
        room = _roomy_buffer(params["cadence"], None, size, d)
        return {"buffer": room, "server_size": _roomy_server(None, size, room, d)}
    server_size = _server_size(None, size, sizing, d) or size
    return {"buffer": _buffer(params["cadence"], None, size, d), "server_size": server_size}


_LEAN: Final[Mapping[str, Any]] = {
    "cadence": "buffered",
    "buffer": None,
    "estimate": "corrected",
    "wire": "fitted",
    "compensation": "coordinates",
}


def _labelled(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the label of what ``FSCLB.lean`` builds, and what it sets by itself."""
    automatic = params["sketch_size"] == "auto"
    unlike = any(params[name] != value for name, value in _LEAN.items())
    if unlike or (automatic and params["budget"] is None):
        return None
    budget = lean_budget(params["dimension"]) if automatic else None
    chosen = {"sketch_size": "auto", "radius": "auto", "alpha": LEAN_ALPHA, "rows": "whole"}
    return "FSCLB.lean", {**_LEAN, **chosen, "budget": budget}


class Fsclb:
    """FSCLB, the paper's algorithm: agents send the server sketches of what they observed.

    ``FSCLB(...)`` builds the algorithm as published; its parameters also switch on each of our
    extensions. ``FSCLB.lean(...)`` builds our variant that sends few bytes. Both return a
    ``Recipe``, which builds the agents and the server.
    """

    @recipe(name="FSCLB", implied=_implied, labelled=_labelled)
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
        wire: Wire = "float64",
        budget: int | None = None,
        server_size: int | None = None,
        bounds: Bounds = Bounds(),
        compensation: Compensation = "uniform",
        rows: Rows = "shrunk",
        choice: AnyChoice = "ucb",
        features: AnyFeatures = None,
    ) -> Parts:
        """Federated Sketch Contextual Linear Bandits (paper, Algs. 1 and 2).

        An agent chooses among K arms in O(K l d), with what it last downloaded. It uploads a sketch
        of its new observations, O(l d) numbers, once they make det(V), the determinant of the
        matrix that it decides with, grow by more than a factor of 1 + alpha. The server merges the
        sketch and answers with a sketch of everything.

        - ``dimension`` (d): number of features of an arm. ``agents`` (M): number of agents.
        - ``sketch_size`` (l), 2 to d + 1: a sketch keeps at most l - 1 rows. Small sketches are
          cheap and *shed* more: the part of X^T X that does not fit is dropped, and a bound on it
          is kept and sent along. d + 1 sheds nothing. The paper uses about 0.4 d.
        - ``alpha``: the larger, the fewer uploads, on older data.
        - ``ridge`` (lambda): added to the diagonal of X^T X.
        - ``radius`` (beta): the weight of an arm's uncertainty in its score, that is how much is
          explored. A constant, in units of reward; or ``"auto"``, from the noise and the size of
          theta as measured (``Empirical``), for rewards of any scale; or ``"paper"``, eq. 1; or
          ``"tight"``, eq. 1 with a smaller bias (``theory.radius``). Radii from theory explore far
          more than is good for the reward.
        - ``bounds``: the constants R, S, L, T and delta for radii from theory (``Bounds``). S, its
          ``parameter_norm``, also limits theta' of ``estimate="corrected"``.

        - ``choice``: which arm is played. ``"ucb"``, as published: the arm of the largest score.
          ``"thompson"``: the best for a theta drawn at random, with beta as its scale
          (``Thompson``). ``fb.Mixed(epsilon)``: any arm with probability epsilon
          (docs/choices.md).
        - ``features``: how named features become arms, for all agents alike (``fb.Features``,
          docs/features.md). None: arms are given as numbers, or names are hashed as they come.

        Ours, with the paper's as default (docs/beyond.md has what each of them does to regret):

        - ``cadence="paper"`` shrinks the sketch at every observation once it has l rows.
          ``"buffered"`` keeps up to ``buffer`` rows (default 4 l, or 3 d if 4 l exceeds d) and
          shrinks when they are full or sent; with more than d rows, only when sent. That sheds
          less and costs less, and every guarantee holds.
        - ``estimate="averaged"`` solves for theta with the average that the sketch has lost, in
          place of the worst case that it has shed. ``"corrected"`` also subtracts the sketch's
          error, times the estimate theta' of that time, from sum r x. That removes most of the
          loss.
        - ``compensation``: how V makes up for what sketches have lost. ``"uniform"`` adds what was
          shed in every direction. ``"coordinates"`` tracks a bound for each coordinate: features
          that were never played keep their full width, rare ones lose little
          (``core.memory.lossy.summary``). It needs ``estimate="paper"`` or ``"corrected"``, and
          ``wire="float64"`` or ``"fitted"``.
        - ``rows``: what becomes of the rows that a message keeps. ``"shrunk"``, as published: the
          square of the first row that is left out is subtracted from theirs. ``"whole"`` (for
          coordinates): they are sent as they are. The bound is the same, and the estimate, which
          has less to correct, forgets early errors sooner (docs/beyond.md).
        - ``wire``: the numbers in which rows are sent, float64, float32, float16, bfloat16 or int8.
          What rounding may lose is added to what is shed. ``"fitted"`` (for coordinates, with the
          corrected estimate) gives every row the bits that its size asks for, so that what rounding
          adds to V stays below a fixed share of the ridge (``core.memory.lossy.fitted``).
        - ``sketch_size="auto"``: the server chooses the size of messages from what they would shed.
          No message exceeds ``budget`` bytes, sums of rewards (at most 33 bytes) not counted;
          one row is always sent, which ``"fitted"`` gives up to 32 bits a number.
        - ``server_size``: size of the server's own sketch, at least that of its messages. The
          default is the same, and with ``"auto"`` twice as large. With ``"coordinates"`` it is
          d + 1, which keeps all that was sent, up to d = 512 or where 4 l exceeds d.
        """
        one_of("estimate", estimate, get_args(Estimate))
        one_of("wire", wire, WIRES)
        one_of("compensation", compensation, get_args(Compensation))
        one_of("rows", rows, get_args(Rows))
        _check_fit(compensation, estimate, wire, rows)
        real("ridge", ridge)
        real("alpha", alpha)
        size, sizing = _sizes(sketch_size, budget, dimension=dimension, width=wire)
        theoretical = radius in ("paper", "tight")
        if compensation == "coordinates":
            room = _roomy_buffer(cadence, buffer, size, dimension)
            memory: Memory = LossyMemory(
                dimension,
                ridge,
                size,
                buffer=room,
                server_size=_roomy_server(server_size, size, room, dimension),
                corrected=estimate == "corrected",
                rounds=wire == "fitted",
                budget=budget if wire == "fitted" else None,
                longest=bounds.parameter_norm if theoretical else inf,
                whole=rows == "whole",
            )
        else:
            memory = SketchMemory(
                dimension,
                ridge,
                size,
                buffer=_buffer(cadence, buffer, size, dimension),
                estimate=estimate,
                width=cast(Width, wire),
                sizing=sizing,
                longest=(1.0 if theoretical else ROOM) * bounds.parameter_norm,
                tells_rewards=radius == "auto",
                server_size=_server_size(server_size, size, sizing, dimension),
            )
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
        rules: dict[str, Radius] = {
            "auto": Empirical(ridge),
            "paper": federated(form="paper"),
            "tight": federated(form="tight"),
        }
        return Parts(
            memory=memory,
            choice=choice_of(choice),
            features=features_from(features),
            radius=chosen_radius(radius, rules),
            trigger=Growth(alpha),
        )

    @nearest_names("FSCLB.lean")
    def lean(
        self,
        *,
        dimension: int,
        agents: int,
        sketch_size: int | Literal["auto"] = "auto",
        alpha: float = LEAN_ALPHA,
        ridge: float = 1.0,
        radius: float | Literal["auto", "tight"] = "auto",
        budget: int | None = None,
        server_size: int | None = None,
        bounds: Bounds = Bounds(),
        rows: Rows = "whole",
        choice: AnyChoice = "ucb",
        features: AnyFeatures = None,
    ) -> Recipe:
        """FSCLB for few bytes: our variant, with all extensions on.

        On the paper's four settings it sends 2 to 4 % of FedLinUCB's bytes, with less regret than
        the paper's FSCLB and about as much as FedLinUCB. docs/beyond.md has these and harder
        worlds, what is proven, and where it loses. ``fedbandit advise`` compares on your data.

        It is ``FSCLB`` with ``cadence="buffered"``, ``estimate="corrected"``,
        ``compensation="coordinates"``, ``rows="whole"``, ``wire="fitted"`` and
        ``sketch_size="auto"``; all parameters are documented there. ``radius`` is by default
        measured in units of the rewards. Models and states from before rows were whole have
        ``rows="shrunk"`` and ``alpha=1.0``.
        ``budget``, the most bytes of a message, is by default what moment and bound take and 3.5 %
        of a d x d matrix in float64, or twice what they take if that is more (d < 31). A new
        direction that no single coordinate shows is found if the budget has room for as many rows
        as the arms of before have directions.
        docs/departures.md lists what differs from the paper.
        """
        whole("dimension", dimension, least=1)
        if sketch_size == "auto" and budget is None:
            budget = lean_budget(dimension)
        return self(
            dimension=dimension,
            sketch_size=sketch_size,
            agents=agents,
            alpha=alpha,
            ridge=ridge,
            radius=radius,
            cadence="buffered",
            estimate="corrected",
            wire="fitted",
            budget=budget,
            server_size=server_size,
            bounds=bounds,
            compensation="coordinates",
            rows=rows,
            choice=choice,
            features=features,
        )

    def __repr__(self) -> str:
        return "<recipe FSCLB>"

    def __reduce__(self) -> str:
        return "FSCLB"  # pickled as functions are: by name


FSCLB: Final = Fsclb()


def _check_papers(radius: float | str, estimate: str) -> None:
    """Raise InvalidParameter for the paper's radius with an estimate that is not the paper's."""
    if radius == "paper" and estimate != "paper":
        raise InvalidParameter(
            f"radius: 'paper' (eq. 1) is for estimate='paper' alone; got estimate={estimate!r}. "
            "Use radius='auto', 'tight' or a number, or estimate='paper'."
        )


def _check_fit(compensation: str, estimate: str, wire: str, rows: str) -> None:
    """Raise InvalidParameter for combinations that are not built."""
    if compensation == "uniform":
        if rows != "shrunk":
            raise InvalidParameter(
                f"rows: {rows!r} needs compensation='coordinates'; got compensation='uniform'. Set "
                "that, or leave rows out."
            )
        if wire == "fitted":
            raise InvalidParameter(
                "wire: 'fitted' needs compensation='coordinates' and estimate='corrected'; got "
                "compensation='uniform'. Set both, or use FSCLB.lean, which does."
            )
        return
    if wire not in ("float64", "fitted") or estimate == "averaged":
        raise InvalidParameter(
            "compensation: 'coordinates' needs wire='float64' or 'fitted', and estimate='paper' or "
            f"'corrected'; got wire={wire!r}, estimate={estimate!r}. Change these."
        )
    if wire == "fitted" and estimate != "corrected":
        raise InvalidParameter(
            f"wire: 'fitted' needs estimate='corrected'; got estimate={estimate!r}. The error of "
            "rounding has to be carried to the moment."
        )


def checked_sketch_size(size: int, dimension: int) -> int:
    """Return a sketch size from 2 to d + 1; raise InvalidParameter for any other."""
    why = "a sketch keeps one row less than its size; d + 1 loses nothing"
    advice = f"The paper uses about 0.4 d, here {max(2, round(0.4 * dimension))}."
    return whole("sketch_size", size, least=2, most=dimension + 1, why=why, advice=advice)


def _sizes(
    size: int | str, budget: int | None, *, dimension: int, width: str
) -> tuple[int, Sizing | None]:
    """Return the largest sketch size of a message, and the rule for "auto" (else None)."""
    if size == "auto":
        most = dimension + 1
        if budget is not None:
            whole("budget", budget, least=1)
            most = largest_size(budget, dimension=dimension, width=width)
        return most, Sizing(most, TOLERANCE)
    if budget is not None:
        raise InvalidParameter(
            f"budget must be left out with a fixed sketch_size; got {budget!r}. "
            "A budget needs sketch_size='auto'."
        )
    if isinstance(size, str):
        raise InvalidParameter(f"sketch_size must be a whole number or 'auto'; got {size!r}.")
    return checked_sketch_size(size, dimension), None


def _server_size(asked: int | None, size: int, sizing: Sizing | None, dimension: int) -> int | None:
    if asked is not None:
        why = "at least the size of a message; d + 1 loses nothing"
        return whole("server_size", asked, least=size, most=dimension + 1, why=why)
    return None if sizing is None else min(2 * size, dimension + 1)


def _roomy_buffer(cadence: str, buffer: int | None, size: int, dimension: int) -> int:
    """Return a buffer that loses nothing before it is sent, up to d = 512; l rows for the paper."""
    if cadence == "buffered" and buffer is None and dimension <= ALL_ROWS:
        return 3 * dimension
    return _buffer(cadence, buffer, size, dimension) or size


def _roomy_server(asked: int | None, size: int, buffer: int, dimension: int) -> int:
    if asked is not None:
        why = "at least the size of a message; d + 1 loses nothing"
        return whole("server_size", asked, least=size, most=dimension + 1, why=why)
    return min(dimension + 1, ALL_ROWS + 1 if dimension <= ALL_ROWS else max(2 * size, buffer + 1))


def _buffer(cadence: str, buffer: int | None, size: int, dimension: int) -> int | None:
    one_of("cadence", cadence, ["paper", "buffered"])
    if cadence == "buffered":
        roomy = 4 * size if 4 * size <= dimension else 3 * dimension
        why = "at least the sketch size"
        return roomy if buffer is None else whole("buffer", buffer, least=size, why=why)
    if buffer is not None:
        raise InvalidParameter(
            f"buffer must be left out with cadence='paper'; got {buffer!r}. "
            "A buffer needs cadence='buffered'."
        )
    return None
