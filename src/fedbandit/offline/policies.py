"""Policies that can be judged by a log: functions of an event, and recipes that learn."""

from collections import OrderedDict, deque
from collections.abc import Callable

import msgspec
import numpy as np

from fedbandit.core.agent import Agent
from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.messages import Upload
from fedbandit.core.recipe import Recipe
from fedbandit.errors import DataError, InvalidArms, InvalidParameter, complaint
from fedbandit.features.encoder import Encoder
from fedbandit.logs.event import Event

Policy = Callable[[Event], Array]
"""Returns the probability with which it would take each of an event's arms (K, adding up to 1)."""

KEPT = 2**21
"""How many numbers of arms made of named features are kept: 16 MB."""


def uniform(event: Event) -> Array:
    """Take every arm with the same probability."""
    return np.full(event.choices, 1.0 / event.choices)


def always(place: int) -> Policy:
    """Return the policy that takes the arm at one place, or the last one if there are fewer."""

    def choose(event: Event) -> Array:
        chosen = np.zeros(event.choices)
        chosen[min(place, event.choices - 1)] = 1.0
        return chosen

    return choose


def checked_probabilities(given: object, event: Event) -> Array:
    """Return what a policy answered; raise InvalidParameter unless they are K probabilities."""
    found = np.asarray(given, dtype=np.float64)
    good = found.shape == (event.choices,) and np.isfinite(found).all() and (found >= 0.0).all()
    if good and abs(float(found.sum()) - 1.0) <= 1e-6:
        return found
    expected = f"{event.choices} probabilities that add up to 1"
    fix = "Return one number for each arm of the event."
    got = f"{np.array2string(found, threshold=8)} for event {event.id}"
    raise InvalidParameter(complaint("policy", got=got, expected=expected, fix=fix))


def arms_of(recipe: Recipe) -> Callable[[Event], Array]:
    """Return what makes the arms (K x d) of an event, from named features by the recipe's rule."""
    dimension, encoded = recipe.dimension, _Encoded(recipe)

    def arms(event: Event) -> Array:
        if event.arms is None:
            return encoded.arms(event)
        if event.arms.shape[1] != dimension:
            got, expected = f"{event.arms.shape[1]} numbers an arm", f"{dimension}"
            fix = "Give logs of this model, or a recipe with the dimension of the logs."
            raise DataError(complaint(f"event {event.id}", got=got, expected=expected, fix=fix))
        return event.arms

    return arms


class _Encoded:
    """Makes arms of named features, and keeps the latest, since a log repeats its situations."""

    def __init__(self, recipe: Recipe) -> None:
        self._encoder = Encoder(recipe.parts.features, recipe.dimension)
        self._kept: OrderedDict[bytes, Array] = OrderedDict()
        self._numbers = 0

    def arms(self, event: Event) -> Array:
        """Return the arms (K x d) of an event; they cannot be written."""
        try:
            key = msgspec.msgpack.encode((event.context, event.actions))
        except (TypeError, OverflowError):  # values that no file has, in events made by a program
            return _encoded(self._encoder, event)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        found = self._kept[key] = read_only(_encoded(self._encoder, event))
        self._numbers += found.size
        while self._numbers > KEPT:
            self._numbers -= self._kept.popitem(last=False)[1].size
        return found


def _encoded(encoder: Encoder, event: Event) -> Array:
    given = event.actions or ()
    ids, features = [each.id or None for each in given], [each.features for each in given]
    context = {} if event.context is None else event.context
    try:
        return encoder.encode_named(context, ids, features).arms
    except InvalidArms as error:
        raise DataError(f"event {event.id}: {error}") from error


class Fleet:
    """All agents of a recipe and its server, playing events by the names of the agents in them."""

    def __init__(self, recipe: Recipe) -> None:
        self._agents, self._server = recipe.fleet(), recipe.server()
        self._places: dict[str, int] = {}

    def agent(self, event: Event) -> Agent:
        """Return the agent of an event. More names than the recipe has agents share agents."""
        place = self._places.setdefault(event.agent, len(self._places) % len(self._agents))
        return self._agents[place]

    def learn(self, event: Event, arms: Array) -> None:
        """Let the agent learn what came of what was done."""
        upload = self.agent(event).observe(arms[event.chosen], event.reward)
        uploads: deque[Upload] = deque() if upload is None else deque([upload])
        while uploads:
            for directed in self._server.receive(uploads.popleft()):
                answer = self._agents[directed.agent].receive(directed.message)
                if answer is not None:
                    uploads.append(answer)
