"""``evaluate``: what policies would have earned, from logs of what another one did."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.checks import fraction, whole
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.recipe import Recipe
from fedbandit.errors import DataError, InvalidParameter, complaint
from fedbandit.logs.event import Event, Tally
from fedbandit.logs.files import Sources
from fedbandit.logs.joining import WINDOW
from fedbandit.logs.reading import read
from fedbandit.offline.estimates import LEAST_ROWS, METHODS, Estimate, Method, Weighed
from fedbandit.offline.outcome import Best, Evaluation, Outcome
from fedbandit.offline.policies import Policy, arms_of
from fedbandit.offline.reward_model import RewardModel
from fedbandit.offline.trials import FixedTrial, LearningTrial, Trial

Candidates = Recipe | Policy | Mapping[str, Recipe | Policy]


def evaluate(
    logs: Sources | Sequence[Event],
    policies: Candidates,
    *,
    radius: Iterable[float] = (),
    choice: Iterable[Any] = (),
    default_reward: float | None = None,
    window: int = WINDOW,
    seed: int = 0,
    level: float = 0.95,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Estimate what policies would have earned a decision, from logs with probabilities.

    ``logs``: a log's directory, its files, or events. ``policies``: a recipe, a function from an
    event to the probabilities of its arms, or several of both by name. ``radius`` and ``choice``:
    values to try in every recipe. ``default_reward``: the reward of decisions without one; None
    leaves them out. ``window``: see ``fedbandit.logs.read``. ``level``: of the intervals.
    ``progress`` is called now and then with how much was read and how much there is, twice over.

    A recipe is replayed as it would have learned by itself (*replay*), and judged on the second
    half of the log after it was taught by the first (*ips*, *snips*, *dr*); a function is judged on
    all of it. Logs are read twice, an event at a time, so memory does not grow with their length.
    Where there is too little to conclude from, the estimates say so.
    """
    fraction("level", level)
    candidates = _candidates(policies, tuple(radius), tuple(choice))
    source = _Source(logs, default_reward, window, progress, _common_encoding(candidates))
    first = _first_pass(source)
    _check_dimension(candidates, first.dimension)
    trials = {
        name: _trial(each, first.least, np.random.default_rng([whole("seed", seed, least=0), k]))
        for k, (name, each) in enumerate(candidates.items())
    }
    for number, event in enumerate(source.events()):
        model = first.expected(number, event)
        for trial in trials.values():
            trial.see(event, event.arms, model, second=number >= first.rows / 2)
    return _evaluation(first, trials, source.tally, level)


class _Source:
    """Events that can be read twice."""

    def __init__(
        self,
        logs: Sources | Sequence[Event],
        default: float | None,
        window: int,
        progress: Callable[[int, int], None] | None,
        encoding: Recipe | None,
    ) -> None:
        self.tally = Tally()
        self._arms = None if encoding is None else arms_of(encoding)
        self._events: Sequence[Event] | None = None
        if isinstance(logs, Sequence) and logs and isinstance(logs[0], Event):
            self._events = logs  # type: ignore[assignment]
            for event in logs:
                _check_event(event)
        else:
            self._reader = read(
                logs,  # type: ignore[arg-type]
                default_reward=default,
                window=window,
                progress=progress,
            )

    def events(self) -> Iterator[Event]:
        """Yield the events, with arms made of named features if a recipe says how."""
        for event in self._reader if self._events is None else self._events:
            if event.arms is None and self._arms is not None:
                yield replace(event, arms=self._arms(event))
            else:
                yield event
        if self._events is None:
            self.tally = self._reader.tally


def _check_event(event: Any) -> None:
    """Raise DataError unless an event makes sense; those of files were checked on reading."""
    if not isinstance(event, Event):
        fix = "Give events alone, or the paths of files."
        got = f"a {type(event).__name__} among events"
        raise DataError(complaint("logs", got=got, expected="events", fix=fix))
    for name, good, expected in (
        ("probability", 0.0 < event.probability <= 1.0, "above 0, at most 1"),
        ("chosen", 0 <= event.chosen < event.choices, "the index of one of its arms"),
        ("reward", isfinite(event.reward), "a finite number"),
    ):
        if not good:
            who, fix = f"event {event.id}, {name}", "Correct it, or leave the event out."
            value = getattr(event, name)
            raise DataError(complaint(who, got=value, expected=expected, fix=fix))


class _First:
    """What the first pass found: how many rows, the least probability, a model of rewards."""

    def __init__(self) -> None:
        self.rows, self.least, self.uniform = 0, 1.0, True
        self.dimension: int | None = None
        self.now = Weighed()
        self.model: RewardModel | None = None

    def expected(self, number: int, event: Event) -> Array | None:
        if self.model is None or event.arms is None:
            return None
        return self.model.predicted(number % self.model.folds, event.arms)


def _first_pass(source: _Source) -> _First:
    found = _First()
    rows: list[tuple[int, Array, float]] = []
    rewards: list[float] = []
    for number, event in enumerate(source.events()):
        found.rows += 1
        found.least = min(found.least, event.probability)
        found.uniform &= abs(event.probability * event.choices - 1.0) < 1e-9
        rewards.append(event.reward)
        if event.arms is not None:
            _check_arms(found, event)
            rows.append((number, event.arms[event.chosen], event.reward))
        if len(rewards) >= 4096:
            _add(found, rows, rewards)
    _add(found, rows, rewards)
    if not found.rows:
        why = "; ".join(source.tally.sentences()) or "no events"
        fix = "Give logs whose decisions have probabilities and rewards."
        raise DataError(complaint("logs", got=why, expected="decisions with rewards", fix=fix))
    return found


def _check_arms(found: _First, event: Event) -> None:
    assert event.arms is not None
    dimension = event.arms.shape[1]
    if found.model is None and not found.rows > 1:
        found.dimension, found.model = dimension, RewardModel(dimension)
    if dimension != found.dimension:
        got = f"{dimension} numbers an arm in event {event.id}, {found.dimension} before"
        fix = "Evaluate logs of one model at a time."
        raise DataError(complaint("logs", got=got, expected="arms of one length", fix=fix))


def _add(found: _First, rows: list[tuple[int, Array, float]], rewards: list[float]) -> None:
    if rewards:
        found.now.add(np.array(rewards), np.ones(len(rewards)))
        rewards.clear()
    if rows and found.model is not None:
        numbers, arms, paid = zip(*rows, strict=True)
        folds = np.array(numbers) % found.model.folds
        found.model.add(folds, np.stack(arms), np.array(paid))
        rows.clear()


def _common_encoding(candidates: Mapping[str, Recipe | Policy]) -> Recipe | None:
    """Return the recipe by whose rule named features become arms, which is that of all recipes."""
    recipes = [each for each in candidates.values() if isinstance(each, Recipe)]
    rules = {(each.dimension, repr(each.parts.features)) for each in recipes}
    if len(rules) > 1:
        got, expected = f"{len(rules)} of them", "one dimension and one features= for all recipes"
        fix = "Evaluate recipes with different ones one after the other."
        raise InvalidParameter(complaint("encodings", got=got, expected=expected, fix=fix))
    return recipes[0] if recipes else None


def _candidates(
    given: Candidates, radii: tuple[float, ...], choices: tuple[Any, ...]
) -> dict[str, Recipe | Policy]:
    if isinstance(given, Recipe):
        named: Mapping[str, Recipe | Policy] = {given.name: given}
    elif callable(given):
        named = {getattr(given, "__name__", "policy"): given}
    else:
        named = given
    found: dict[str, Recipe | Policy] = {}
    for name, each in named.items():
        if isinstance(each, Recipe) and (radii or choices):
            found |= _variants(name, each, radii, choices)
        elif isinstance(each, Recipe) or callable(each):
            found[name] = each
        else:
            expected, fix = "a recipe or a function of an event", "See fb.evaluate."
            raise InvalidParameter(
                complaint(f"policies, {name}", got=repr(each), expected=expected, fix=fix)
            )
    if not found:
        fix = "Give a recipe, such as fb.FSCLB(...)."
        raise InvalidParameter(complaint("policies", got="none", expected="one or more", fix=fix))
    return found


def _variants(
    name: str, recipe: Recipe, radii: tuple[float, ...], choices: tuple[Any, ...]
) -> dict[str, Recipe]:
    """Return a recipe with each radius and each choice in turn."""
    ways: list[tuple[str, dict[str, Any]]] = [(name, {})]
    for option, values in (("radius", radii), ("choice", choices)):
        if values:
            ways = [
                (f"{label}, {option} {_short(value)}", {**given, option: value})
                for label, given in ways
                for value in values
            ]
    return {label: RECIPES[recipe.name](**{**recipe.params, **given}) for label, given in ways}


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _check_dimension(candidates: Mapping[str, Recipe | Policy], dimension: int | None) -> None:
    for name, each in candidates.items():
        if isinstance(each, Recipe) and each.dimension != dimension:
            got, expected = f"dimension {each.dimension}", f"{dimension}, as in the logs"
            fix = f"Build the recipe with dimension={dimension}."
            raise InvalidParameter(complaint(name, got=got, expected=expected, fix=fix))


def _trial(candidate: Recipe | Policy, least: float, rng: np.random.Generator) -> Trial:
    if isinstance(candidate, Recipe):
        return LearningTrial(candidate, least=least, rng=rng)
    return FixedTrial(candidate, least=least, rng=rng)


def _evaluation(
    first: _First, trials: Mapping[str, Trial], tally: Tally, level: float
) -> Evaluation:
    outcomes = tuple(
        Outcome(name, method, trial.results.estimate(method, level=level))
        for name, trial in trials.items()
        for method in METHODS
    )
    return Evaluation(
        rows=first.rows,
        now=first.now.estimate("ips", level=level),
        outcomes=outcomes,
        best=_best(trials, level),
        uniform=first.uniform,
        least_probability=first.least,
        level=level,
        skipped=dict(tally.skipped),
    )


def _best(trials: Mapping[str, Trial], level: float) -> Best | None:
    """Pick by the first half, report on the second; by replay where enough events match."""

    def half(name: str, method: Method, which: int | None) -> Estimate:
        return trials[name].results.estimate(method, half=which, level=level)

    enough = all(
        half(name, "replay", which).effective >= LEAST_ROWS
        and half(name, "replay", which).supported
        for name in trials
        for which in (0, 1)
    )
    method: Method = "replay" if enough else "dr"
    if len(trials) == 1:
        (name,) = trials
        return Best(Outcome(name, method, half(name, method, None)), 1)
    scores = {name: half(name, method, 0).value for name in trials}
    scores = {name: value for name, value in scores.items() if np.isfinite(value)}
    if not scores:
        return None
    name = max(scores, key=lambda each: scores[each])
    return Best(Outcome(name, method, half(name, method, 1)), len(trials))
