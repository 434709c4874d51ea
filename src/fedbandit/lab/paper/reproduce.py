"""The paper's experiments from one call: pick radii, run, compare, draw, report."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedbandit.core.checks import whole
from fedbandit.lab.analysis.curves import Curves, curves, pick
from fedbandit.lab.analysis.summary import Row, reward_by_class, summarise, write_csv
from fedbandit.lab.figures.panels import Panel, draw_panels
from fedbandit.lab.paper import tuning
from fedbandit.lab.paper.claims import Findings, findings
from fedbandit.lab.paper.outcome import show
from fedbandit.lab.paper.report import ClassTable, Picture, Report, write_report
from fedbandit.lab.paper.settings import (
    OTHER_ALGORITHMS,
    PAPER_ALGORITHMS,
    RANDOM,
    ROUNDS,
    SETTINGS,
    TRIALS,
    Algorithm,
    Radius,
    Setting,
    assumptions,
)
from fedbandit.lab.paper.tuning import Choice, choose_radius, classes_seen, tuning_tasks
from fedbandit.lab.runs.machine import environment
from fedbandit.lab.runs.progress import progress_on
from fedbandit.lab.runs.runner import Results, run
from fedbandit.lab.runs.spec import NO_RADIUS
from fedbandit.lab.runs.store import writable_directory
from fedbandit.lab.runs.task import Task

QUICK_TRIALS = 4
QUICK_ROUNDS = 2_000
QUICK_GRID = (0.05, 0.2, 0.5, 1.0)
QUICK_TUNING_TRIALS = 2
TUNED = "tuned"
PAPER = "paper"
FAMILIES = {"simulation": "simulation", "real": "real data"}
CAPTIONS = (
    (
        "reward",
        "Reward",
        "Cumulative regret against the best arm, which is how the paper measures reward: lower is "
        "better.",
    ),
    (
        "time",
        "Running time",
        "Seconds spent choosing, observing and merging, by all agents and the server together.",
    ),
    (
        "communication",
        "Communication",
        "Com(T): scalars sent in both directions, by the paper's rule.",
    ),
)


@dataclass(frozen=True)
class Plan:
    """How much is run, and of what."""

    trials: int
    rounds: int
    grid: tuple[float, ...]
    tuning_trials: int
    algorithms: tuple[Algorithm, ...]


@dataclass(frozen=True)
class Reproduction:
    """Where everything was written, what was found, and how many runs had to be made for it."""

    summary: Path
    figures: tuple[Path, ...]
    report: Path
    rows: tuple[Row, ...]
    tuned: Findings
    theoretical: Findings
    computed: int


def reproduce(
    *,
    out: str | Path,
    trials: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    every_recipe: bool = False,
    jobs: int | None = None,
    console: Console | None = None,
) -> Reproduction:
    """Run the paper's four settings and write ``summary.csv``, ``figures/`` and ``report.html``.

    20 trials of 20,000 rounds unless ``quick`` (4 of 2,000, a smaller grid) or told otherwise.
    Reported runs land in ``OUT/runs``, those that pick a radius in ``OUT/tuning/runs``; what is
    there already is not computed again, so the same call once more only draws and writes anew.
    """
    plan = make_plan(trials=trials, rounds=rounds, quick=quick, every_recipe=every_recipe)
    out = Path(out)
    console = console or Console()
    choices, tuned_now = _pick_radii(plan, out=out, jobs=jobs)
    results = run_aloud("reported trials", reported_tasks(plan, choices), out=out, jobs=jobs)
    done = _publish(plan, choices, curves(results.table), out, results.computed + tuned_now)
    show(done.rows, done.tuned, paths=(done.summary, out / "figures", done.report), on=console)
    return done


def make_plan(*, trials: int | None, rounds: int | None, quick: bool, every_recipe: bool) -> Plan:
    """Fill in what was not asked for."""
    why = "reported trials must not reach the seeds that radii are picked on"
    asked = (QUICK_TRIALS if quick else TRIALS) if trials is None else trials
    length = (QUICK_ROUNDS if quick else ROUNDS) if rounds is None else rounds
    return Plan(
        trials=whole("trials", asked, least=1, most=tuning.FIRST_SEED, why=why),
        rounds=whole("rounds", length, least=1),
        grid=QUICK_GRID if quick else tuning.GRID,
        tuning_trials=QUICK_TUNING_TRIALS if quick else tuning.TRIALS,
        algorithms=PAPER_ALGORITHMS + (OTHER_ALGORITHMS if every_recipe else ()),
    )


def reported_tasks(plan: Plan, choices: Iterable[Choice]) -> list[Task]:
    """Return every reported run; those of one trial stand together, so that they share a moment."""
    picked = {(choice.setting, choice.algorithm): choice.radius for choice in choices}
    return [
        Task(
            setting=setting.name,
            algorithm=algorithm.name,
            radius=label,
            recipe=algorithm.build(setting, radius=radius, rounds=plan.rounds, seed=seed),
            world=world,
            rounds=plan.rounds,
            trial=seed,
        )
        for setting in SETTINGS
        for seed in range(plan.trials)
        for world in [setting.world(seed)]
        for algorithm in plan.algorithms
        for label, radius in _radii(setting, algorithm, picked).items()
    ]


def _radii(
    setting: Setting, algorithm: Algorithm, picked: Mapping[tuple[str, str], float]
) -> dict[str, Radius]:
    """Return by its label every radius that an algorithm is reported with.

    One that shares another's radius is that other in another form: it plays the same, so its time
    with one radius is all that is asked of it.
    """
    if not algorithm.tuned_as:
        return {NO_RADIUS: 0.0}
    radius = picked[setting.name, algorithm.tuned_as]
    tuned: dict[str, Radius] = {f"{TUNED} ({radius:g})": radius}
    return tuned if algorithm.tuned_as != algorithm.name else {**tuned, PAPER: "paper"}


def _pick_radii(plan: Plan, *, out: Path, jobs: int | None) -> tuple[list[Choice], int]:
    """Run what picking needs below ``OUT/tuning``; return the choices and how much was new."""
    tasks = tuning_tasks(
        SETTINGS,
        plan.algorithms,
        grid=plan.grid,
        trials=plan.tuning_trials,
        rounds=plan.rounds,
    )
    results = run_aloud("picking radii", tasks, out=out / "tuning", jobs=jobs)
    found = curves(results.table)
    choices = [
        choose_radius(found, setting=setting.name, algorithm=algorithm.name, grid=plan.grid)
        for setting in SETTINGS
        for algorithm in plan.algorithms
        if algorithm.tuned_as == algorithm.name
    ]
    return choices, results.computed


def run_aloud(what: str, tasks: Sequence[Task], *, out: Path, jobs: int | None) -> Results:
    """Run tasks, and say on stderr what they are and how far they have come."""
    print(f"{what}: {len(tasks)} runs", file=sys.stderr, flush=True)
    return run(tasks, out=out, jobs=jobs, progress=progress_on(sys.stderr))


def _publish(
    plan: Plan, choices: Sequence[Choice], found: Sequence[Curves], out: Path, computed: int
) -> Reproduction:
    """Write summary, figures and report of finished runs."""
    tuned, theoretical = _in_order(plan, found, TUNED), _in_order(plan, found, PAPER)
    floor = [each for each in tuned if each.algorithm == RANDOM]
    drawn, pictures = _draw(tuned, writable_directory(out / "figures"))
    report = Report(
        trials=plan.trials,
        rounds=plan.rounds,
        tuning_trials=plan.tuning_trials,
        tuning_seed=tuning.FIRST_SEED,
        settings=SETTINGS,
        pictures=pictures,
        tuned=findings(found, SETTINGS, radius=TUNED),
        theoretical=findings(found, SETTINGS, radius=PAPER),
        tuned_rows=summarise(tuned),
        theoretical_rows=summarise([*theoretical, *floor]),
        choices=choices,
        by_class=_class_tables(plan, tuned),
        parameters=assumptions(plan.algorithms),
        environment=environment(),
    )
    rows = tuple(summarise([*tuned, *theoretical]))
    return Reproduction(
        summary=write_csv(rows, out / "summary.csv"),
        figures=tuple(drawn),
        report=write_report(report, out / "report.html"),
        rows=rows,
        tuned=report.tuned,
        theoretical=report.theoretical,
        computed=computed,
    )


def _in_order(plan: Plan, found: Sequence[Curves], kind: str) -> list[Curves]:
    """Sort the curves with this kind of radius by setting and algorithm; Random goes with tuned."""
    asked = [
        pick(
            found,
            setting=setting.name,
            algorithm=algorithm.name,
            radius=NO_RADIUS if kind == TUNED and not algorithm.tuned_as else kind,
        )
        for setting in SETTINGS
        for algorithm in plan.algorithms
    ]
    return [each for each in asked if each is not None]


def _draw(tuned: Sequence[Curves], directory: Path) -> tuple[list[Path], list[Picture]]:
    """Draw the paper's six figures: reward, time and Com(T), for simulation and for real data."""
    drawn: list[Path] = []
    for family in FAMILIES:
        panels = [
            Panel(_title(setting), tuple(each for each in tuned if each.setting == setting.name))
            for setting in SETTINGS
            if setting.family == family
        ]
        drawn += draw_panels(panels, directory, suffix=f"-{family}")
    pictures = [
        Picture(f"{title}, {words}", caption, directory / f"{name}-{family}.svg")
        for family, words in FAMILIES.items()
        for name, title, caption in CAPTIONS
    ]
    return drawn, pictures


def _title(setting: Setting) -> str:
    return f"{setting.name.partition(' d=')[0]}, d = {setting.dimension}, l = {setting.sketch_size}"


def _class_tables(plan: Plan, tuned: Sequence[Curves]) -> list[ClassTable]:
    tables = []
    for setting in SETTINGS:
        if setting.data is not None:
            here = [each for each in tuned if each.setting == setting.name]
            names = tuple(each.algorithm for each in here)
            rows = tuple(reward_by_class(here, setting))
            tuned_on = classes_seen(setting, plan.tuning_trials)
            tables.append(ClassTable(setting.name, names, rows, setting.arms, tuned_on))
    return tables
