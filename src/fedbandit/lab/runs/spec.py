"""An experiment as a value: worlds x recipes x trials."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from fedbandit.core.checks import whole
from fedbandit.core.recipes import RECIPES
from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.lab.runs.task import NamedWorld, Task
from fedbandit.parameters import build, names
from fedbandit.worlds import WORLDS

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe

T = TypeVar("T")

NO_RADIUS = "none"
"""Radius label of a recipe that has none."""

MOST_ROUNDS = 10**12
"""The largest number of rounds: the traces of more fit no machine."""


@dataclass(frozen=True)
class Part:
    """A world or a recipe by its name in the catalogue (``kind``) and its parameters."""

    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to compare: every recipe on every world, ``trials`` times for ``rounds`` rounds.

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

    def __post_init__(self) -> None:
        """Refuse an experiment without anything to run."""
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_ROUNDS))
        object.__setattr__(self, "trials", whole("trials", self.trials, least=1))
        object.__setattr__(self, "seed", whole("seed", self.seed, least=0))
        for place, parts in (("worlds", self.worlds), ("recipes", self.recipes)):
            if not parts:
                raise _empty(place)

    def tasks(self) -> tuple[Task, ...]:
        """Build every world and every recipe, so that mistakes show before anything runs.

        Trials come before recipes in the order, so that all algorithms move on together.
        """
        return tuple(
            self._task(setting, world, algorithm, trial)
            for setting in self.worlds
            for trial in range(self.trials)
            for world in [self._world(setting, trial)]
            for algorithm in self.recipes
        )

    def _world(self, label: str, trial: int) -> NamedWorld:
        place = place_of("worlds", label)
        part = self.worlds[label]
        catalogue: Mapping[str, Callable[..., NamedWorld]] = WORLDS
        factory = _known(catalogue, part.kind, place=place)
        if "seed" in part.params:
            raise _own_seed(place)
        given = {**part.params, "seed": self.seed + trial}
        return build(factory, given, place=place, extra=("kind",))

    def _task(self, setting: str, world: NamedWorld, algorithm: str, trial: int) -> Task:
        recipe = self._recipe(algorithm, world, trial)
        return Task(
            setting=setting,
            algorithm=algorithm,
            radius=str(recipe.params.get("radius", NO_RADIUS)),
            recipe=recipe,
            world=world,
            rounds=self.rounds,
            trial=trial,
        )

    def _recipe(self, label: str, world: NamedWorld, trial: int) -> "Recipe":
        place = place_of("recipes", label)
        part = self.recipes[label]
        factory = _known(RECIPES, part.kind, place=place)
        given = self._with_shared(part.params, names(factory), world, trial)
        recipe = build(factory, given, place=place, extra=("kind",))
        if recipe.dimension != world.dimension:
            raise _unfit(place, "dimension", recipe.dimension, f"{world.dimension}")
        if recipe.agents < world.agents:
            raise _unfit(place, "agents", recipe.agents, f"at least {world.agents}")
        return recipe

    def _with_shared(
        self, params: Mapping[str, Any], taken: list[str], world: NamedWorld, trial: int
    ) -> dict[str, Any]:
        """Add to a recipe's parameters what it shares with the world and the trial."""
        shared: dict[str, Any] = {
            "dimension": world.dimension,
            "agents": world.agents,
            "seed": self.seed + trial,
            "bounds": {},
        }
        given = {name: value for name, value in shared.items() if name in taken} | dict(params)
        if isinstance(stated := given.get("bounds"), Mapping):
            given["bounds"] = {"horizon": self.rounds, **stated}
        return given


def _known(catalogue: Mapping[str, Callable[..., T]], kind: str, *, place: str) -> Callable[..., T]:
    if kind not in catalogue:
        raise unknown(f"{place}.kind", kind, catalogue)
    return catalogue[kind]


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
