"""Ranking without HTTP: the bodies of requests and responses, and how one becomes the other."""

from typing import Annotated, Any, Final

import msgspec
import numpy as np

from fedbandit.client import ConnectedAgent, Decision
from fedbandit.core.kernels.linalg import Array
from fedbandit.edge.features import Features, arm_of, features_of
from fedbandit.errors import InvalidArms, complaint

MOST_ACTIONS: Final = 1000
MOST_FEATURES: Final = 1000
MOST_TERMS: Final = 1_000_000

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Given = dict[str, Any] | list[Any] | None
Actions = Annotated[list["Action"], msgspec.Meta(min_length=1, max_length=MOST_ACTIONS)]


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action to choose from: its id, and its features, by name or as the arm itself."""

    id: Id
    features: Given = None


class RankRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """The actions to choose from and their context, in the terms of Azure Personalizer's Rank."""

    actions: Actions
    context_features: Given = None
    excluded_actions: Annotated[list[Id], msgspec.Meta(max_length=MOST_ACTIONS)] | None = None
    event_id: Id | None = None
    defer_activation: bool | None = False


class Ranked(msgspec.Struct, frozen=True):
    """An action's score: its estimated reward (mean) plus the bonus for uncertainty.

    ``probability``: with which it would be chosen, of all actions 1 together.
    """

    id: str
    score: float
    mean: float
    bonus: float
    probability: float


class RankResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The chosen action, and all actions, the chosen one first, then by their scores.

    ``estimatedProbabilities``: probabilities are estimates by draws, as Thompson sampling has them.
    """

    event_id: str
    reward_action_id: str
    ranking: list[Ranked]
    estimated_probabilities: bool


class RewardRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reward of an action."""

    value: float


def rank(agent: ConnectedAgent, request: RankRequest) -> RankResponse:
    """Choose an action; raise InvalidArms if its features cannot be used."""
    actions = _allowed(request)
    arms = _arms(request.context_features, actions, agent.recipe.dimension)
    decision = agent.decide(arms, id=request.event_id, defer=bool(request.defer_activation))
    ranking = _ranking(decision, [action.id for action in actions])
    return RankResponse(decision.id, actions[decision.index].id, ranking, decision.estimated)


def _allowed(request: RankRequest) -> list[Action]:
    ids = [action.id for action in request.actions]
    if len(set(ids)) < len(ids):
        raise _wrong(
            "actions", "the same id twice", "ids that differ", "Give every action its own id."
        )
    excluded = set(request.excluded_actions or ())
    if not excluded <= set(ids):
        named = sorted(excluded - set(ids))[0]
        fix = "Exclude actions of this request only."
        raise _wrong("excludedActions", repr(named), "ids of actions", fix)
    allowed = [action for action in request.actions if action.id not in excluded]
    if not allowed:
        raise _wrong(
            "excludedActions", "every action", "at least one that is not excluded", "Exclude fewer."
        )
    return allowed


def _arms(context: object, actions: list[Action], dimension: int) -> Array:
    """Return an arm for every action: its list of numbers, or hashed from named features."""
    if all(_is_arm(action.features) for action in actions):
        if context:
            fix = "Put the context into the arms, or give features by name."
            raise _wrong("contextFeatures", "some", "none if actions are lists of numbers", fix)
        return np.stack([_given_arm(action, dimension) for action in actions])
    known = features_of({} if context is None else context, field="contextFeatures")
    found = [_features(action) for action in actions]
    most = max(len(known), *map(len, found))
    if most > MOST_FEATURES or len(known) * sum(map(len, found)) > MOST_TERMS:
        expected = f"at most {MOST_FEATURES} of an action or the context, and {MOST_TERMS:,} pairs"
        raise _wrong(
            "actions", f"up to {most} features", expected, "Send fewer features or actions."
        )
    return np.stack([arm_of(known, each, dimension) for each in found])


def _is_arm(features: object) -> bool:
    return (
        isinstance(features, list)
        and len(features) > 0
        and all(isinstance(each, int | float) for each in features)
    )


def _given_arm(action: Action, dimension: int) -> Array:
    numbers = action.features or []
    if len(numbers) != dimension or any(isinstance(each, bool) for each in numbers):
        expected = f"the model's {dimension} numbers, or features by name"
        got = f"a list of {len(numbers)} in action {action.id!r}"
        raise _wrong("actions", got, expected, "Send one number per dimension.")
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError as error:
        fix = "Scale the features."
        raise _wrong("actions", "a number that is too large", "finite numbers", fix) from error


def _features(action: Action) -> Features:
    """Return an action's features; without any, its id is its one feature."""
    given = {"id": action.id} if action.features is None else action.features
    return features_of(given, field=f"actions, {action.id!r}")


def _ranking(decision: Decision, ids: list[str]) -> list[Ranked]:
    """Return all actions, the chosen one first, then by their scores."""
    scores, odds = decision.mean + decision.bonus, decision.probabilities
    order = sorted(range(len(ids)), key=lambda k: (k != decision.index, -scores[k]))
    return [
        Ranked(ids[k], *(float(each[k]) for each in (scores, decision.mean, decision.bonus, odds)))
        for k in order
    ]


def _wrong(field: str, got: str, expected: str, fix: str) -> InvalidArms:
    return InvalidArms(complaint(field, got=got, expected=expected, fix=fix))
