"""Which sketch size suits a world, by its spectrum, the bytes of messages, and regret."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import fraction, real, whole
from fedbandit.core.theory import epsilon_l
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.lab.advice.contenders import (
    RIDGE,
    Contender,
    contenders,
    lean,
    literal,
    whole_matrix,
)
from fedbandit.lab.advice.message_size import message_bytes
from fedbandit.lab.analysis.advice import FLOOR, LEAN, WHOLE, Advice, Prospect
from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.analysis.recommendation import TOLERANCE, Measured, recommend
from fedbandit.lab.analysis.statistics import estimate, gap_loss
from fedbandit.lab.analysis.tuning import FIRST_SEED, choose_radius
from fedbandit.lab.runs.output import writable_directory
from fedbandit.lab.runs.progress import Progress
from fedbandit.lab.runs.runner import run_tasks
from fedbandit.lab.runs.task import NamedWorld, Task
from fedbandit.lab.specs.spec import MOST_ROUNDS, NO_RADIUS
from fedbandit.lab.study.spectrum import played_spectrum, tail_share

TRIALS = 5
ROUNDS = 3_000
SHARES = (0.1, 0.2, 0.4, 0.6)
"""Sizes tried unless stated, as shares of d; d + 1, which sheds nothing, is tried too."""

RADII = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Among these FedLinUCB's best is used by all, unless a radius is stated."""

TUNING_TRIALS = 2


class SeededWorld(NamedWorld, Protocol):
    """A world whose tape follows from a seed."""

    @property
    def seed(self) -> int:
        """Of the first trial; the others count on from it."""
        ...


@dataclass(frozen=True)
class _Question:
    """A world, and how much of it is played."""

    setting: str
    world: SeededWorld
    sizes: tuple[int, ...]
    trials: int
    rounds: int
    jobs: int | None
    progress: Progress | None

    def task(self, contender: Contender, world: NamedWorld, trial: int) -> Task:
        """Return one run."""
        radius = contender.recipe.params.get("radius")
        return Task(
            setting=self.setting,
            algorithm=contender.label,
            radius=NO_RADIUS if radius is None else f"{radius:g}",
            recipe=contender.recipe,
            world=world,
            rounds=self.rounds,
            trial=trial,
        )

    def run(self, tasks: Sequence[Task], out: Path) -> list[Curves]:
        """Make the runs that are missing, and return the curves of all."""
        return curves(run_tasks(tasks, out=out, jobs=self.jobs, progress=self.progress).table)


def advise(
    world: SeededWorld,
    *,
    sizes: Sequence[int] | None = None,
    trials: int = TRIALS,
    rounds: int = ROUNDS,
    radius: float | None = None,
    tolerance: float = TOLERANCE,
    setting: str = "world",
    out: str | Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Try a few sketch sizes on a world and recommend one.

    The world is a dataclass with a ``seed``, as ours are; trial i plays the tape of seed + i, the
    same for every recipe: FSCLB.lean and FSCLB with each of ``sizes``, FSCLB.lean with the size
    that it chooses itself, FedLinUCB and Random. ``sizes`` are by default 0.1 d, 0.2 d, 0.4 d,
    0.6 d and d + 1. All use one ``radius``; by default the one of ``RADII`` with which FedLinUCB
    does best on tapes of other seeds, which favours FedLinUCB if any. For how a size is picked see
    :func:`fedbandit.lab.analysis.recommendation.recommend`.

    Runs are kept below ``out``, if given, and not made again; a reported number depends on nothing
    but the arguments before it.
    """
    question = _Question(
        setting,
        _checked(world),
        _sizes(sizes, world.dimension),
        whole("trials", trials, least=1, most=FIRST_SEED),
        whole("rounds", rounds, least=1, most=MOST_ROUNDS),
        jobs,
        progress,
    )
    fraction("tolerance", tolerance)
    stated = None if radius is None else real("radius", radius, zero=True)
    with ExitStack() as until_done:
        if out is None:
            out = until_done.enter_context(TemporaryDirectory(prefix="fedbandit-"))
        place = writable_directory(Path(out))
        used = _best_radius(question, place / "tuning") if stated is None else stated
        found = question.run(_tasks(question, used), place)
    return _advice(question, found, radius=used, tuned=stated is None, tolerance=tolerance)


def _checked(world: SeededWorld) -> SeededWorld:
    _tape(world, 0)
    if world.dimension < 2:
        raise InvalidParameter(
            complaint(
                "advise",
                got=f"arms of dimension {world.dimension}",
                expected="at least 2: with fewer there is no size to choose",
                fix="Choose another world, or use FedLinUCB.",
            )
        )
    return world


def _sizes(asked: Sequence[int] | None, d: int) -> tuple[int, ...]:
    """Return the sizes in order, each once."""
    if asked is None:
        return tuple(sorted({*(max(2, round(share * d)) for share in SHARES), d + 1}))
    if not asked:
        raise InvalidParameter("sizes is empty. Name one or more, or leave it out.")
    why = f"a sketch keeps one row less than its size; {d + 1}, d + 1, loses nothing"
    name, most = "each of sizes", d + 1
    return tuple(sorted({whole(name, size, least=2, most=most, why=why) for size in asked}))


def _tape(world: SeededWorld, ahead: int) -> NamedWorld:
    """Return the world with its seed moved ``ahead``."""
    if not is_dataclass(world) or isinstance(world, type) or not hasattr(world, "seed"):
        raise InvalidParameter(
            complaint(
                "advise",
                got=f"a world {type(world).__name__} without a seed to vary",
                expected="a dataclass with a field seed",
                fix="Make it one: every trial plays a tape of its own.",
            )
        )
    return replace(world, seed=world.seed + ahead)


def _tasks(question: _Question, radius: float) -> list[Task]:
    return [
        question.task(contender, world, trial)
        for trial in range(question.trials)
        for world in [_tape(question.world, trial)]
        for contender in contenders(world, sizes=question.sizes, radius=radius, seed=trial)
    ]


def _best_radius(question: _Question, out: Path) -> float:
    """Return FedLinUCB's best of ``RADII`` on tapes that no reported trial plays."""
    tasks = [
        question.task(whole_matrix(world, radius), world, trial)
        for trial in range(TUNING_TRIALS)
        for world in [_tape(question.world, FIRST_SEED + trial)]
        for radius in RADII
    ]
    found = question.run(tasks, out)
    return choose_radius(found, setting=question.setting, algorithm=WHOLE, grid=RADII).radius


def _advice(
    question: _Question, found: Sequence[Curves], *, radius: float, tuned: bool, tolerance: float
) -> Advice:
    world = question.world
    final = {each.algorithm: each for each in found}
    reference = whole_matrix(world, radius).recipe
    eigenvalues = played_spectrum(reference, world, rounds=question.rounds)
    measured = tuple(
        _measured(contender, final)
        for contender in contenders(world, sizes=question.sizes, radius=radius)
    )
    lead = estimate(final[FLOOR].final("regret") - final[WHOLE].final("regret"))
    fixed = [each for each in measured if each.recipe == LEAN and isinstance(each.sketch_size, int)]
    return Advice(
        setting=question.setting,
        dimension=world.dimension,
        rounds=question.rounds,
        trials=question.trials,
        radius=radius,
        tuned=tuned,
        tolerance=tolerance,
        eigenvalues=tuple(eigenvalues.tolist()),
        whole_bytes=message_bytes(reference),
        prospects=tuple(_prospect(world, size, eigenvalues) for size in question.sizes),
        measured=measured,
        lead=lead,
        recommendation=recommend(
            fixed,
            reference=next(each for each in measured if each.recipe == WHOLE),
            lead=lead,
            tolerance=tolerance,
            rounds=question.rounds,
        ),
    )


def _measured(contender: Contender, final: dict[str, Curves]) -> Measured:
    own = final[contender.label]
    played, reference, floor = (-each.final("regret") for each in (own, final[WHOLE], final[FLOOR]))
    return Measured(
        recipe=contender.name,
        sketch_size=contender.sketch_size,
        regret=estimate(own.final("regret")),
        bytes=estimate(own.final("bytes")),
        loss=gap_loss(played, reference, floor),
    )


def _prospect(world: NamedWorld, size: int, eigenvalues: NDArray[np.float64]) -> Prospect:
    return Prospect(
        sketch_size=size,
        tail=tail_share(eigenvalues, sketch_size=size),
        epsilon=epsilon_l(eigenvalues, sketch_size=size, ridge=RIDGE),
        bytes_float64=message_bytes(literal(world, size, 0.0).recipe),
        bytes_lean=message_bytes(lean(world, size, 0.0).recipe),
    )
