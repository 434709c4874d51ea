"""An experiment as a value: worlds x recipes x trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedbandit.core.checks import whole
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.lab.runs.task import NamedWorld, Task
from fedbandit.lab.specs.kinds import built_recipe, built_world, recipe_kind, world_kind
from fedbandit.lab.specs.sweep import points
from fedbandit.worlds import Classification

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.independent import Independent

NO_RADIUS = "none"
"""Radius label of a recipe that has none."""

Radii = Mapping[tuple[str, str], float]
"""Radii by setting and algorithm."""

TUNED = "tuned"
"""The radius of a recipe whose radius is picked on seeds of its own."""

FIRST_TUNING_SEED = 1_000_000
"""Tuning trials have seeds from here on; reported trials have smaller ones."""

MOST_ROUNDS = 10**12
"""The largest number of rounds: the traces of more fit no machine."""


@dataclass(frozen=True)
class Part:
    """A world or a recipe by its name in the catalogue (``kind``) and its parameters."""

    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How radii are picked: the best of ``grid`` by mean reward over ``trials`` tapes."""

    grid: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    trials: int = 4

    def __post_init__(self) -> None:
        whole("tuning.trials", self.trials, least=1)
        if len(set(self.grid)) < max(len(self.grid), 1):
            raise InvalidParameter("tuning.grid needs radii that differ. Write grid = [0.1, 0.5].")
        for each in self.grid:
            if float(f"{each:g}") != each:
                raise InvalidParameter(f"tuning.grid: {each!r} has more than 6 digits. Round it.")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to compare: every recipe on every world, ``trials`` times for ``rounds`` rounds.

    A list among the parameters of a world or recipe is a sweep: every combination is played, under
    a label such as "FSCLB, sketch_size=5". radius = "tuned" picks the best of ``tuning.grid``, for
    each world and recipe, on ``tuning.trials`` tapes that no reported trial plays.

    Trial i plays the tape of seed ``seed + i``, the same for every recipe. What a recipe shares
    with its world is taken from there unless stated: dimension and agents; a recipe's own seed is
    the trial's, and the horizon of its bounds is ``rounds``. Labels name settings and algorithms.
    TOML has no None: where a parameter may be None, write the text "none".
    """

    name: str
    rounds: int
    trials: int
    worlds: Mapping[str, Part]
    recipes: Mapping[str, Part]
    seed: int = 0
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        """Refuse an experiment without anything to run."""
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_ROUNDS))
        object.__setattr__(self, "trials", whole("trials", self.trials, least=1))
        object.__setattr__(self, "seed", whole("seed", self.seed, least=0))
        for place, parts in (("worlds", self.worlds), ("recipes", self.recipes)):
            if not parts:
                raise _empty(place)

    @property
    def tuned(self) -> bool:
        """Whether a radius is to be tuned before there are tasks."""
        return any(
            point.params.get("radius") == TUNED
            for label, part in self.recipes.items()
            for point in points(label, part.params, place=place_of("recipes", label))
        )

    def readings(self) -> list[str]:
        """Return a line for each data set: which columns and classes were read of it."""
        worlds = [self._world(setting, self.seed) for setting in self._settings()]
        sets = [world.dataset for world in worlds if isinstance(world, Classification)]
        return list(dict.fromkeys(each.reading for each in sets))

    def tasks(
        self, radii: Mapping[tuple[str, str], float] = MappingProxyType({})
    ) -> tuple[Task, ...]:
        """Build every world and every recipe, so that mistakes show before anything runs.

        Trials come before recipes in the order, so that all algorithms move on together.
        ``radii``: those of the recipes with radius = "tuned", by setting and algorithm.
        """
        return tuple(
            self._task(setting, world, algorithm, trial, radii)
            for setting in self._settings()
            for trial in range(self.trials)
            for world in [self._world(setting, self.seed + trial)]
            for algorithm in self._algorithms()
        )

    def tuning_tasks(self, seeds: Iterable[int], grid: Iterable[float]) -> tuple[Task, ...]:
        """Return a run for each seed and radius of every recipe with radius = "tuned"."""
        most, why = FIRST_TUNING_SEED - self.trials, "tuning has the seeds beyond"
        whole("seed", self.seed, least=0, most=most, why=why)
        grid = tuple(grid)
        return tuple(
            self._task(setting, world, replaced(algorithm, radius=radius), seed, {})
            for setting in self._settings()
            for seed in seeds
            for world in [self._world(setting, seed)]
            for algorithm in self._algorithms()
            if algorithm.params.get("radius") == TUNED
            for radius in grid
        )

    def _settings(self) -> list["Labelled"]:
        return _expanded("worlds", self.worlds)

    def _algorithms(self) -> list["Labelled"]:
        return _expanded("recipes", self.recipes)

    def _world(self, setting: "Labelled", seed: int) -> NamedWorld:
        if "seed" in setting.params:
            raise _own_seed(setting.place)
        found = world_kind(setting.kind, place=setting.place)
        own = {"seed": seed} if "seed" in found.takes else {}
        return built_world(found, {**setting.params, **own}, place=setting.place)

    def _task(
        self,
        setting: "Labelled",
        world: NamedWorld,
        algorithm: "Labelled",
        trial: int,
        radii: Radii,
    ) -> Task:
        picked = radii.get((setting.label, algorithm.label))
        if picked is not None and algorithm.params.get("radius") == TUNED:
            algorithm = replaced(algorithm, radius=picked)
        else:
            picked = None
        recipe = self._recipe(algorithm, world, trial)
        radius = recipe.params.get("radius", NO_RADIUS)
        short = isinstance(radius, float) and float(f"{radius:g}") == radius
        plain = f"{radius:g}" if short else str(radius)
        return Task(
            setting=setting.label,
            algorithm=algorithm.label,
            radius=plain if picked is None else f"{TUNED} ({plain})",
            recipe=recipe,
            world=world,
            rounds=self.rounds,
            trial=trial,
            names={
                "world": setting.table,
                "recipe": algorithm.table,
                "world_kind": setting.kind,
                "recipe_kind": algorithm.kind,
            },
            own_source=setting.source + algorithm.source,
        )

    def _recipe(
        self, algorithm: "Labelled", world: NamedWorld, trial: int
    ) -> "Recipe | Independent":
        place = algorithm.place
        found = recipe_kind(algorithm.kind, place=place)
        given = dict(algorithm.params)
        stated = given.get("bounds", {} if "bounds" in found.takes else None)
        if isinstance(stated, Mapping):
            given["bounds"] = {"horizon": self.rounds, **stated}
        seed = trial if trial >= FIRST_TUNING_SEED else self.seed + trial
        shared = {"dimension": world.dimension, "agents": world.agents, "seed": seed}
        recipe = built_recipe(found, given, shared, place=place)
        if recipe.dimension != world.dimension:
            raise _unfit(place, "dimension", recipe.dimension, f"{world.dimension}")
        if recipe.agents < world.agents:
            raise _unfit(place, "agents", recipe.agents, f"at least {world.agents}")
        return recipe


@dataclass(frozen=True)
class Labelled:
    """A world or recipe of a spec, or one point of its sweep.

    ``table`` is the label in the spec, ``label`` adds the values of this point.
    """

    table: str
    label: str
    kind: str
    params: Mapping[str, Any]
    place: str
    source: str


def replaced(algorithm: Labelled, *, radius: float) -> Labelled:
    """Return the algorithm with this radius."""
    return replace(algorithm, params={**algorithm.params, "radius": radius})


def _expanded(table: str, parts: Mapping[str, Part]) -> list[Labelled]:
    """Return the points of all tables."""
    find = world_kind if table == "worlds" else recipe_kind
    found = []
    for label, part in parts.items():
        place = place_of(table, label)
        source = find(part.kind, place=place).source
        for point in points(label, part.params, place=place):
            found.append(Labelled(label, point.label, part.kind, point.params, place, source))
    return found


def place_of(table: str, label: str) -> str:
    """Return the name of a table as TOML writes it, in quotes where it needs them."""
    bare = label.replace("-", "").replace("_", "").isalnum()
    return f"{table}.{label}" if bare else f'{table}."{label}"'


def _empty(place: str) -> InvalidParameter:
    return InvalidParameter(
        f"{place} is empty. Add a table [{place}.LABEL]; `fedbandit list` shows what there is."
    )


def _own_seed(place: str) -> InvalidParameter:
    return InvalidParameter(
        f"{place}.seed: a world has no seed of its own, since trial i plays the tape of the spec's "
        "seed + i. Remove it, and set seed at the top of the spec."
    )


def _unfit(place: str, name: str, got: int, expected: str) -> InvalidParameter:
    return InvalidParameter(
        complaint(
            f"{place}.{name}",
            got=got,
            expected=f"{expected}, as the world has",
            fix=f"Leave {name} out: it is taken from the world.",
        )
    )
