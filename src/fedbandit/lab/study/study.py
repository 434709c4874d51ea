"""A study: pick a radius for every algorithm and setting, then run the trials that are reported."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedbandit.core.checks import whole
from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.analysis.tuning import FIRST_SEED, Choice, choose_radius, tuning_seeds
from fedbandit.lab.runs.output import writable_directory
from fedbandit.lab.runs.progress import progress_on
from fedbandit.lab.runs.runner import Results, run_tasks
from fedbandit.lab.runs.task import NamedWorld, Task
from fedbandit.lab.specs.spec import NO_RADIUS
from fedbandit.lab.study.settings import SETTINGS, Algorithm, Radius, Setting


@dataclass(frozen=True)
class Size:
    """How much is run: reported trials of so many rounds, tuning trials for each radius tried."""

    trials: int
    rounds: int
    tuning_trials: int
    grid: tuple[float, ...]


FULL = Size(20, 20_000, 4, (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0))
QUICK = Size(4, 2_000, 2, (0.05, 0.2, 0.5, 1.0))


def as_picked(algorithm: Algorithm, radius: float) -> Mapping[str, Radius]:
    """Report every algorithm with the radius that was picked, and label it by that number."""
    del algorithm
    return {f"{radius:g}": radius}


@dataclass(frozen=True)
class Study:
    """Algorithms that are compared at some settings.

    ``radii`` returns, by label, every radius that an algorithm is reported with, given the one
    that was picked for it.
    """

    algorithms: tuple[Algorithm, ...]
    size: Size
    radii: Callable[[Algorithm, float], Mapping[str, Radius]] = as_picked
    settings: tuple[Setting, ...] = SETTINGS

    @property
    def tuned(self) -> list[Algorithm]:
        """The algorithms with a radius of their own."""
        return [each for each in self.algorithms if each.name == each.tuned_as]

    def tuning_tasks(self) -> list[Task]:
        """Return every run that picking needs."""
        return [
            self._task(setting, algorithm, world, seed, label=f"{radius:g}", radius=radius)
            for setting in self.settings
            for worlds in [{s: setting.world(s) for s in tuning_seeds(self.size.tuning_trials)}]
            for algorithm in self.tuned
            for radius in self.size.grid
            for seed, world in worlds.items()
        ]

    def reported_tasks(self, choices: Iterable[Choice]) -> list[Task]:
        """Return every reported run; those of a trial stand together, to be timed together."""
        picked = {(choice.setting, choice.algorithm): choice.radius for choice in choices}
        return [
            self._task(setting, algorithm, world, seed, label=label, radius=radius)
            for setting in self.settings
            for seed in range(self.size.trials)
            for world in [setting.world(seed)]
            for algorithm in self.algorithms
            for label, radius in self._radii(setting, algorithm, picked).items()
        ]

    def _radii(
        self, setting: Setting, algorithm: Algorithm, picked: Mapping[tuple[str, str], float]
    ) -> Mapping[str, Radius]:
        if not algorithm.tuned_as:
            return {NO_RADIUS: 0.0}
        return self.radii(algorithm, picked[setting.name, algorithm.tuned_as])

    def _task(
        self,
        setting: Setting,
        algorithm: Algorithm,
        world: NamedWorld,
        seed: int,
        *,
        label: str,
        radius: Radius,
    ) -> Task:
        rounds = self.size.rounds
        return Task(
            setting=setting.name,
            algorithm=algorithm.name,
            radius=label,
            recipe=algorithm.build(setting, radius=radius, rounds=rounds, seed=seed),
            world=world,
            rounds=rounds,
            trial=seed,
        )


@dataclass(frozen=True)
class Finished:
    """Radii as picked, curves of the reported runs, and how many runs this call had to make."""

    choices: tuple[Choice, ...]
    found: tuple[Curves, ...]
    computed: int


def size_of(*, trials: int | None, rounds: int | None, quick: bool) -> Size:
    """Return the full size or the quick one, with other trials and rounds if stated."""
    size = QUICK if quick else FULL
    why = "reported trials must not reach the seeds that radii are picked on"
    trials = size.trials if trials is None else trials
    return replace(
        size,
        trials=whole("trials", trials, least=1, most=FIRST_SEED, why=why),
        rounds=whole("rounds", size.rounds if rounds is None else rounds, least=1),
    )


def run_study(study: Study, *, out: str | Path, jobs: int | None) -> Finished:
    """Run a study: reported runs are kept in ``OUT/runs``, tuning runs in ``OUT/tuning/runs``."""
    out = writable_directory(Path(out))
    tuning = run_aloud("picking radii", study.tuning_tasks(), out=out / "tuning", jobs=jobs)
    tried, grid = curves(tuning.table), study.size.grid
    choices = tuple(
        choose_radius(tried, setting=setting.name, algorithm=algorithm.name, grid=grid)
        for setting in study.settings
        for algorithm in study.tuned
    )
    results = run_aloud("reported trials", study.reported_tasks(choices), out=out, jobs=jobs)
    return Finished(choices, tuple(curves(results.table)), tuning.computed + results.computed)


def run_aloud(what: str, tasks: Sequence[Task], *, out: Path, jobs: int | None) -> Results:
    """Run tasks, and write to stderr what they are and how far they have come."""
    print(f"{what}: {len(tasks)} runs", file=sys.stderr, flush=True)
    return run_tasks(tasks, out=out, jobs=jobs, progress=progress_on(sys.stderr))
