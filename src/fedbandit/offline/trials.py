"""One candidate on one log: what it would do at each event, added up for every estimate."""

from typing import Protocol

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.recipe import Recipe
from fedbandit.logs.event import Event
from fedbandit.offline.estimates import Estimate, Method, Weighed
from fedbandit.offline.policies import Fleet, Policy, checked_probabilities

_ROWS = 4096  # rows that are held before they are added up


class Trial(Protocol):
    """Sees the events of a log in order."""

    @property
    def results(self) -> "Results":
        """What was added up."""
        ...

    def see(self, event: Event, arms: Array | None, model: Array | None, *, second: bool) -> None:
        """Look at an event.

        ``model``: what a model of the rewards expects of each arm, if there is one. ``second``:
        whether the event is in the second half of the log.
        """
        ...


class Results:
    """Rows of both halves, for replay and for estimates with weights."""

    def __init__(self, *, frozen: bool) -> None:
        self.frozen = frozen
        self._weighed = {name: (Weighed(), Weighed()) for name in ("replay", "weights")}
        self._waiting: dict[tuple[str, bool], list[tuple[float, ...]]] = {}

    def note(self, kind: str, second: bool, row: tuple[float, ...]) -> None:
        """Add a row: reward, weight, and what the model expects (see ``Weighed.add``)."""
        waiting = self._waiting.setdefault((kind, second), [])
        waiting.append(row)
        if len(waiting) >= _ROWS:
            self._flush(kind, second)

    def estimate(self, method: Method, *, half: int | None = None, level: float = 0.95) -> Estimate:
        """Return an estimate over the first half (0), the second (1), or all that is reported.

        A recipe that learned from the first half is reported on the second, apart from replay.
        """
        kind = "replay" if method == "replay" else "weights"
        for second in (False, True):
            self._flush(kind, second)
        first, second_half = self._weighed[kind]
        if half is None and not (self.frozen and kind == "weights"):
            return first.plus(second_half).estimate(method, level=level)
        return (first if half == 0 else second_half).estimate(method, level=level)

    def _flush(self, kind: str, second: bool) -> None:
        rows = self._waiting.pop((kind, second), None)
        if rows:
            self._weighed[kind][second].add(*np.array(rows).T)


class FixedTrial:
    """A policy that does not learn."""

    def __init__(self, policy: Policy, *, least: float, rng: np.random.Generator) -> None:
        self.results, self._policy = Results(frozen=False), policy
        self._least, self._rng = least, rng

    def see(self, event: Event, arms: Array | None, model: Array | None, *, second: bool) -> None:
        """Weigh the event by the policy's probability of what was done."""
        del arms
        would = checked_probabilities(self._policy(event), event)
        weight = float(would[event.chosen]) / event.probability
        kept = self._rng.random() < self._least * weight
        self.results.note("replay", second, _replayed(event, kept, self._least))
        self.results.note("weights", second, _row(event, weight, would, model))


class LearningTrial:
    """A recipe, twice: as it would have learned and decided itself, and taught by the log.

    *Replay*: an event counts if the recipe's agent chooses what was done, and then, where what was
    done is not equally likely everywhere, with a probability that makes up for it; only then does
    it learn. So what counts is a run as it would have been. *Taught*: it learns from all events of
    the first half, whoever chose, and is then judged on the second half as a fixed policy.
    """

    def __init__(self, recipe: Recipe, *, least: float, rng: np.random.Generator) -> None:
        self.results = Results(frozen=True)
        self._choice = recipe.parts.choice
        self._alone, self._taught = Fleet(recipe), Fleet(recipe)
        self._least, self._rng, self._number = least, rng, 0

    def see(self, event: Event, arms: Array | None, model: Array | None, *, second: bool) -> None:
        """Choose, count the event if it is a match, and learn."""
        assert arms is not None
        self._number += 1
        same = self._alone.agent(event).choose(arms) == event.chosen
        kept = same and self._rng.random() < self._least / event.probability
        self.results.note("replay", second, _replayed(event, kept, self._least))
        if kept:
            self._alone.learn(event, arms)
        would = self._would(event, arms)
        weight = float(would[event.chosen]) / event.probability
        self.results.note("weights", second, _row(event, weight, would, model))
        if not second:
            self._taught.learn(event, arms)

    def _would(self, event: Event, arms: Array) -> Array:
        """Return the probabilities with which the taught agent would take each arm."""
        agent = self._taught.agent(event)
        chosen = self._choice.choose(agent.policy, arms, agent.index, self._number)
        return self._choice.probabilities(agent.policy, chosen, agent.index, self._number)


def _replayed(event: Event, kept: bool, least: float) -> tuple[float, ...]:
    return event.reward, 1.0 / least if kept else 0.0, 0.0, 0.0


def _row(event: Event, weight: float, would: Array, model: Array | None) -> tuple[float, ...]:
    if model is None:
        return event.reward, weight, 0.0, 0.0
    return event.reward, weight, float(would @ model), float(model[event.chosen])
