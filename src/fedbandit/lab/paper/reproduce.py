"""The paper's experiments from one call: pick radii, run, compare, draw, report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from joblib import cpu_count
from rich.console import Console

from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.summary import Row, summarise, write_csv
from fedbandit.lab.figures.charts import curve_charts, difference_charts, spectrum_chart
from fedbandit.lab.figures.panels import QUANTITIES, Panel, draw_panels
from fedbandit.lab.paper.algorithms import (
    BEST,
    FSCLB,
    LEAN,
    OTHER_ALGORITHMS,
    OURS,
    PAPER_ALGORITHMS,
    PUBLISHED,
    RANDOM,
    assumptions,
)
from fedbandit.lab.paper.claims import Findings, findings
from fedbandit.lab.paper.classes import class_table, classes_seen
from fedbandit.lab.paper.gains import Gain, gains
from fedbandit.lab.paper.outcome import show
from fedbandit.lab.paper.report import ChartGroup, Report, write_report
from fedbandit.lab.runs.machine import environment
from fedbandit.lab.specs.spec import NO_RADIUS
from fedbandit.lab.study.settings import Algorithm, Radius, Setting
from fedbandit.lab.study.spectrum import sketched_spectrum
from fedbandit.lab.study.study import Finished, Size, Study, run_study, size_of

TUNED = "tuned"
PAPER = "paper"
FAMILIES = {"simulation": "simulation", "real": "real data"}
CAPTIONS = {
    "regret": (
        "Regret",
        "Cumulative regret against the best arm, which is how the paper measures reward: lower is "
        "better.",
    ),
    "time": (
        "Running time",
        "Seconds spent choosing, observing and merging, by all agents and the server together.",
    ),
    "communication": (
        "Communication",
        "Com(T): scalars sent in both directions, by the paper's rule.",
    ),
    "bytes": ("Bytes", "Bytes of all messages as they are encoded, in both directions."),
}
DIFFERENCE = (
    "Regret less FedLinUCB's in its best form, trial by trial on the same tapes: below 0 is better "
    "than FedLinUCB. Random is left out."
)
SPECTRUM = (
    "Eigenvalues of the arms that FSCLB played in the first trial, and of one sketch of size l of "
    "these arms; dashed: what that sketch has shed, by which each eigenvalue can be too small."
)


@dataclass(frozen=True)
class Reproduction:
    """Where everything was written, what was found, and how many runs had to be made for it."""

    summary: Path
    figures: tuple[Path, ...]
    report: Path
    rows: tuple[Row, ...]
    gains: tuple[Gain, ...]
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

    20 trials of 20,000 rounds unless ``quick`` (4 of 2,000, a smaller grid) or stated otherwise.
    Reported runs are kept in ``OUT/runs``, those that pick a radius in ``OUT/tuning/runs``, and
    are not made again: the same call once more only draws and writes.
    """
    size = size_of(trials=trials, rounds=rounds, quick=quick)
    study, out = paper_study(size, every_recipe=every_recipe), Path(out)
    done = _publish(study, run_study(study, out=out, jobs=jobs), out, jobs=jobs)
    paths = (done.summary, out / "figures", done.report)
    show(done.rows, done.gains, done.tuned, paths=paths, on=console or Console())
    return done


def paper_study(size: Size, *, every_recipe: bool) -> Study:
    """Return the paper's comparison and ours; with ``every_recipe``, of all recipes there are."""
    others = OTHER_ALGORITHMS if every_recipe else ()
    return Study(
        (*PAPER_ALGORITHMS[:1], *OURS, *PAPER_ALGORITHMS[1:], *others),
        size,
        radii=_tuned_and_theoretical,
    )


def _tuned_and_theoretical(algorithm: Algorithm, picked: float) -> Mapping[str, Radius]:
    """Report the picked radius and the one of the algorithm's analysis.

    An algorithm that shares another's radius makes the same decisions in another way: only its
    time is of interest, and one radius is enough for that. FSCLB.lean is not in the paper.
    """
    tuned: dict[str, Radius] = {f"{TUNED} ({picked:g})": picked}
    alone = algorithm.tuned_as != algorithm.name or algorithm.recipe == LEAN
    return tuned if alone else {**tuned, PAPER: "paper"}


def _publish(study: Study, done: Finished, out: Path, *, jobs: int | None) -> Reproduction:
    """Write summary, figures and report of finished runs."""
    tuned, theoretical = (_in_order(study, done.found, kind) for kind in (TUNED, PAPER))
    floor = [each for each in tuned if each.algorithm == RANDOM]
    panels = {family: _panels(study, tuned, family) for family in FAMILIES}
    report = Report(
        size=study.size,
        settings=study.settings,
        gains=gains(done.found, study.settings),
        charts=[*_curve_groups(panels), *_difference_groups(panels), _spectra(study, done)],
        tuned=findings(done.found, study.settings, radius=TUNED),
        theoretical=findings(done.found, study.settings, radius=PAPER),
        tuned_rows=summarise(tuned),
        theoretical_rows=summarise([*theoretical, *floor]),
        choices=done.choices,
        by_class=[
            class_table(tuned, setting, tuned_on=classes_seen(setting, study.size.tuning_trials))
            for setting in study.settings
            if setting.data is not None
        ],
        parameters=assumptions(study.algorithms),
        environment=environment(),
    )
    rows = tuple(summarise([*tuned, *theoretical]))
    return Reproduction(
        summary=write_csv(rows, out / "summary.csv"),
        figures=tuple(
            draw_panels(
                {f"-{family}": these for family, these in panels.items()},
                out / "figures",
                jobs=cpu_count() if jobs is None else jobs,
            )
        ),
        report=write_report(report, out / "report.html"),
        rows=rows,
        gains=tuple(report.gains),
        tuned=report.tuned,
        theoretical=report.theoretical,
        computed=done.computed,
    )


def _in_order(study: Study, found: Sequence[Curves], kind: str) -> list[Curves]:
    """Sort the curves with this kind of radius by setting and algorithm; Random goes with tuned."""
    asked = [
        pick(
            found,
            setting=setting.name,
            algorithm=algorithm.name,
            radius=NO_RADIUS if kind == TUNED and not algorithm.tuned_as else kind,
        )
        for setting in study.settings
        for algorithm in study.algorithms
    ]
    return [each for each in asked if each is not None]


def _panels(study: Study, tuned: Sequence[Curves], family: str) -> list[Panel]:
    """Return the panels of the simulations, or of the data sets: the paper draws them apart."""
    return [
        Panel(_title(setting), tuple(each for each in tuned if each.setting == setting.name))
        for setting in study.settings
        if setting.family == family
    ]


def _curve_groups(panels: Mapping[str, Sequence[Panel]]) -> list[ChartGroup]:
    """Return the paper's figures, and bytes, for simulation and for real data."""
    return [
        ChartGroup(f"{title}, {words}", caption, curve_charts(panels[family], quantity))
        for family, words in FAMILIES.items()
        for quantity in QUANTITIES
        for title, caption in [CAPTIONS[quantity.file]]
    ]


def _difference_groups(panels: Mapping[str, Sequence[Panel]]) -> list[ChartGroup]:
    return [
        ChartGroup(
            f"Paired differences, {words}",
            DIFFERENCE,
            difference_charts(panels[family], reference=BEST, without=(PUBLISHED, RANDOM)),
        )
        for family, words in FAMILIES.items()
    ]


def _spectra(study: Study, done: Finished) -> ChartGroup:
    """Return what the first trial's arms look like to a sketch, with the tuned radius."""
    picked = {choice.setting: choice.radius for choice in done.choices if choice.algorithm == FSCLB}
    sketched = next(each for each in study.algorithms if each.name == FSCLB)
    charts = []
    for setting in study.settings:
        rounds, radius = study.size.rounds, picked[setting.name]
        recipe = sketched.build(setting, radius=radius, rounds=rounds, seed=0)
        found = sketched_spectrum(recipe, setting.world(0), rounds=rounds)
        charts.append(
            spectrum_chart(_title(setting), found.played, sketched=found.sketched, shed=found.shed)
        )
    return ChartGroup("Spectrum of the arms played, and what is shed", SPECTRUM, charts)


def _title(setting: Setting) -> str:
    return f"{setting.name.partition(' d=')[0]}, d = {setting.dimension}, l = {setting.sketch_size}"
