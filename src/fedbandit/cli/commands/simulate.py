"""``fedbandit simulate``: one run of one recipe on one world, with up to millions of agents."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Add, Command
from fedbandit.cli.reporting import add_json, report
from fedbandit.cli.settings import add_set, settings
from fedbandit.cli.table import show_table
from fedbandit.cli.values import whole_number

if TYPE_CHECKING:
    from fedbandit.lab.runs.progress import Progress
    from fedbandit.worlds.round import Round, World

TOLD_EVERY = 1000  # rounds


def _define(add: Add) -> None:
    add("--recipe", default="FSCLB", metavar="KIND", help="(default: FSCLB; names: fedbandit list)")
    add("--world", default="synthetic", metavar="KIND", help="(default: synthetic)")
    add("--agents", type=whole_number, default=10, metavar="N", help="(default: 10)")
    add("--rounds", type=whole_number, default=10_000, metavar="N", help="(default: 10000)")
    add_set(add, of="the recipe or the world", topic="recipes")
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab.runs.progress import progress_on
    from fedbandit.lab.specs.kinds import recipe_kind, world_kind
    from fedbandit.lab.specs.spec import Part, Spec
    from fedbandit.simulation import simulate

    given = {"arms": 10, **settings(arguments.settings)}
    world = world_kind(arguments.world, place="world")
    recipe = recipe_kind(arguments.recipe, place="recipe")
    shared = {"agents": arguments.agents}
    spec = Spec(
        name="simulate",
        rounds=arguments.rounds,
        trials=1,
        seed=int(given.pop("seed", 0)),
        worlds={"world": Part(arguments.world, _taken(given, world.takes) | shared)},
        recipes={"recipe": Part(arguments.recipe, _taken(given, recipe.takes, world.takes))},
    )
    (task,) = spec.tasks()
    shown = Watched(task.world, progress_on(sys.stderr), task.recipe.name)
    trace = simulate(task.recipe, shown, rounds=arguments.rounds)
    shown.progress.end()
    found = {
        "recipe": f"{task.recipe!r}",
        "rounds": len(trace),
        "agents": arguments.agents,
        "reward": float(trace.reward[-1]),
        "regret": float(trace.regret[-1]),
        "uploads": int(trace.uploads[-1]),
        "bytes": int(trace.bytes[-1]),
        "seconds": float(trace.seconds.sum()),
        "memory_mib": _most_memory(),
    }
    report(arguments, lambda: found, lambda: _show(found))


def _show(found: dict[str, Any]) -> None:
    rows = [(name, f"{value:,.10g}") for name, value in found.items() if name != "recipe"]
    show_table(f"{found['recipe']}", ("measure", "total"), rows)


def _taken(
    given: dict[str, object], takes: list[str], others: list[str] | None = None
) -> dict[str, object]:
    """Return the settings that this one takes; without ``others``, its own first.

    A setting that neither takes goes to the recipe, whose error names it.
    """
    if others is None:
        return {name: value for name, value in given.items() if name in takes}
    mine = {name: value for name, value in given.items() if name in takes or name not in others}
    return {name: value for name, value in mine.items() if name not in ("dimension", "agents")}


def _most_memory() -> float:
    """Return the most memory that this process has had, in MiB; 0 where it cannot be told."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@dataclass(frozen=True)
class Watched:
    """A world that tells a display how many of its rounds were played."""

    world: "World"
    progress: "Progress"
    name: str

    @property
    def dimension(self) -> int:
        """Length of an arm."""
        return self.world.dimension

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.world.agents

    def rounds(self, n: int) -> Iterator["Round"]:
        """Yield the first n rounds."""
        self.progress.begin(total={self.name: n}, done={self.name: 0})
        for t, this in enumerate(self.world.rounds(n), start=1):
            if t % TOLD_EVERY == 0 or t == n:  # before it: nothing asks past the last round
                self.progress.advance(self.name, t % TOLD_EVERY or TOLD_EVERY)
            yield this


SIMULATE = Command(
    name="simulate",
    summary="Play one run of one recipe on one world, with up to millions of agents.",
    example="fedbandit simulate --agents 1e6 --rounds 3e6 --set dimension=20 --set sketch_size=8",
    define=_define,
    execute=_execute,
)
