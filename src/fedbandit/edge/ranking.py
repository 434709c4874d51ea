"""Ranking without HTTP: the bodies of requests and responses, and how one becomes the other."""

from typing import Annotated, Any, Final

import msgspec
import numpy as np

from fedbandit.client import ConnectedAgent, Decision
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidArms, complaint
from fedbandit.features.encoder import Encoded

MOST_ACTIONS: Final = 1000

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
    """The actions to choose from and their context, in the terms of Azure Personalizer's Rank.

    ``top``: how many places to fill, 1 if left out. ``explain``: answer with ``why``.
    """

    actions: Actions
    context_features: Given = None
    excluded_actions: Annotated[list[Id], msgspec.Meta(max_length=MOST_ACTIONS)] | None = None
    event_id: Id | None = None
    defer_activation: bool | None = False
    top: Annotated[int, msgspec.Meta(ge=1, le=MOST_ACTIONS)] | None = None
    explain: bool | None = False


class Ranked(msgspec.Struct, frozen=True):
    """An action's score: its estimated reward (mean) plus the bonus for uncertainty.

    ``probability``: with which it would be chosen, of all actions 1 together.
    """

    id: str
    score: float
    mean: float
    bonus: float
    probability: float


class Placed(msgspec.Struct, frozen=True, rename="camel"):
    """The action in a place; its reward is given to its ``eventId``, if it was looked at."""

    event_id: str
    id: str
    probability: float


class Added(msgspec.Struct, frozen=True):
    """What a feature, or a pair of features, adds to a score."""

    name: str
    value: float


class Why(msgspec.Struct, frozen=True, rename="camel"):
    """Why an action was chosen: ``contributions`` add up to its mean, with ``added`` to its score.

    ``wouldWin``: the features from which the runner-up would need as much to win. ``text``: the
    same in words.
    """

    contributions: list[Added]
    added: float
    by_chance: bool
    runner_up_id: str | None
    would_win: list[str]
    text: str


class RankResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The chosen action, and all actions, the chosen one first, then by their scores.

    ``places``: the actions to show, the chosen one first. ``estimatedProbabilities``: probabilities
    are estimates by draws, as Thompson sampling has them. ``preferredActionId``: in shadow mode,
    what the agent would have chosen. ``why``: if it was asked for.
    """

    event_id: str
    reward_action_id: str
    ranking: list[Ranked]
    estimated_probabilities: bool
    places: list[Placed]
    preferred_action_id: str | None = None
    why: Why | None = None


class RewardRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reward of an action."""

    value: float


def rank(agent: ConnectedAgent, request: RankRequest, *, shadow: bool = False) -> RankResponse:
    """Choose an action; raise InvalidArms if its features cannot be used.

    ``shadow``: the first action that is not excluded is what happens, as in Personalizer's
    apprentice mode; ``preferredActionId`` is what the agent would have chosen.
    """
    actions = _allowed(request)
    decision = agent.decide(
        _arms(agent, request.context_features, actions),
        id=request.event_id,
        defer=bool(request.defer_activation),
        top=request.top or 1,
        baseline=0 if shadow else None,
    )
    ids = [action.id for action in actions]
    places = [Placed(each.id, ids[each.index], each.probability) for each in decision.places]
    chosen, ranking = ids[decision.index], _ranking(decision, ids)
    own = None if decision.preferred is None else ids[decision.preferred]
    why = _why(agent, decision, ids) if request.explain else None
    return RankResponse(decision.id, chosen, ranking, decision.estimated, places, own, why)


def _why(agent: ConnectedAgent, decision: Decision, ids: list[str]) -> Why:
    told = agent.explain(decision)
    other = told.runner_up
    return Why(
        [Added(each.name, each.value) for each in told.contributions],
        told.added,
        told.by_chance,
        None if other is None else ids[other.index],
        [] if other is None else list(other.would_win),
        str(told),
    )


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


def _arms(agent: ConnectedAgent, context: object, actions: list[Action]) -> Array | Encoded:
    """Return an arm for every action: its list of numbers, or hashed from named features."""
    if all(_is_arm(action.features) for action in actions):
        if context:
            fix = "Put the context into the arms, or give features by name."
            raise _wrong("contextFeatures", "some", "none if actions are lists of numbers", fix)
        return np.stack([_given_arm(action, agent.recipe.dimension) for action in actions])
    return agent.encoder.encode_named(
        {} if context is None else context,
        [action.id for action in actions],
        [action.features for action in actions],
        fields=("contextFeatures", "actions"),
        plain=True,
    )


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
