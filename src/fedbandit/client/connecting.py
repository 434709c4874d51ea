"""``connect``: from an address and a name to an agent that decides."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.decisions import OpenDecisions
from fedbandit.client.delivery.refused_uploads import Aside
from fedbandit.client.state.agent_state import Account, Waiting
from fedbandit.client.state.decision_log import Book
from fedbandit.client.state.directory import Identity, Recovered, StateDir, recipe_of
from fedbandit.client.state.learner import Learner, warm_up
from fedbandit.client.transport import HttpTransport, Transport
from fedbandit.core.checks import checked_reward, one_of, real, whole
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, InvalidReward, InvalidState, complaint
from fedbandit.terms import check_name

Durability = Literal["process", "machine"]


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What an agent begins with, and whether the coordinator has told it all it knows."""

    learner: Learner
    limits: wire.Limits | None
    joined: bool


def connect(
    url: str,
    *,
    model: str,
    agent: str,
    token: str | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    recipe: Recipe | None = None,
    reward_wait: float | None = None,
    default_reward: float | None = 0.0,
    max_open: int = 10_000,
    durability: Durability = "process",
    timeout: float = 10.0,
    cafile: str | None = None,
) -> ConnectedAgent:
    """Return an agent that decides here and learns together with all others of its model.

    The first time it asks the coordinator for the model's recipe, and raises Unreachable or Refused
    if it cannot. With a ``state_dir`` that it has used before, or with the ``recipe`` given, it
    starts offline as well. Close it at the end, or use it in a ``with``: without a ``state_dir``,
    what has not been delivered by then is lost.

    ``reward_wait``: seconds after which a decision without a reward is paid ``default_reward``, or
    forgotten where that is None; with a ``state_dir`` the time that the agent runs adds up over
    restarts. Unless it is given, decisions wait for ever; but no more than ``max_open`` of them,
    the oldest being forgotten. ``durability``: what a reward survives once
    ``reward`` has returned, the end of the ``"process"`` (kill -9) or that of the ``"machine"``
    (power loss; each reward then waits for the disk). ``timeout``: of every wait for the network,
    which only the first connect and the background thread ever do. ``cafile``: certificates to
    trust with https in place of the system's.
    """
    transport = HttpTransport(
        url,
        model=check_name("model", model),
        agent=check_name("agent", agent),
        token=token,
        timeout=real("timeout", timeout),
        cafile=cafile,
    )
    return connect_by(
        transport,
        Identity(model=model, agent=agent),
        state_dir=state_dir,
        recipe=recipe,
        waiting=waiting_for(reward_wait, default_reward),
        max_open=max_open,
        durability=durability,
    )


def connect_by(
    transport: Transport,
    who: Identity,
    *,
    state_dir: str | os.PathLike[str] | None = None,
    recipe: Recipe | None = None,
    waiting: Waiting,
    max_open: int = 10_000,
    durability: Durability = "process",
) -> ConnectedAgent:
    """Do what ``connect`` does, over any transport."""
    one_of("durability", durability, ["process", "machine"])
    decisions = OpenDecisions(whole("max_open", max_open, least=1))
    with ExitStack() as undo:
        undo.callback(transport.close)
        place = None if state_dir is None else StateDir(Path(state_dir))
        found = None
        if place is not None:
            undo.callback(place.close)
            found = place.recover(who, decisions)
        if found is not None:
            undo.callback(found.journal.close)
        start = _first(transport, recipe) if found is None else _again(found, recipe)
        _check_default(waiting, start.limits)
        warm_up(start.learner.recipe)
        ran = 0.0 if found is None else found.ran
        book = Book(decisions, waiting.clock, ran=ran, durable=durability == "machine")
        aside = Aside(None if place is None else place.refused)
        account = Account(who, start.learner, book, aside, waiting=waiting, limits=start.limits)
        if found is not None:
            book.write_to(found.journal, account.whole)
        elif place is not None:
            book.write_to(place.begin(account.whole()), account.whole)
        undo.pop_all()
    return ConnectedAgent(account, transport, joined=start.joined, state_dir=place)


def waiting_for(wait: float | None, default: float | None) -> Waiting:
    """Return how to wait for rewards, checked."""
    return Waiting(
        wait=None if wait is None else real("reward_wait", wait),
        default=None if default is None else _default(default),
    )


def _default(value: float) -> float:
    try:
        return checked_reward(value)
    except InvalidReward as error:
        fix = "Choose a reward, or None to learn nothing from what is never paid."
        message = complaint("default_reward", got=value, expected="one finite number", fix=fix)
        raise InvalidParameter(message) from error


def _check_default(waiting: Waiting, limits: wire.Limits | None) -> None:
    default = waiting.default
    if limits is not None and default is not None and abs(default) > limits.reward:
        expected = f"at most {limits.reward} in size, says the coordinator"
        fix = "Choose another, or make the model with a larger limit."
        raise InvalidParameter(complaint("default_reward", got=default, expected=expected, fix=fix))


def _first(transport: Transport, recipe: Recipe | None) -> Start:
    """Begin a life: with a recipe, at once; without one, as the coordinator says."""
    life = os.urandom(wire.LIFE_BYTES)
    if recipe is not None:
        return Start(Learner.fresh(recipe, life), None, joined=False)
    joined = wire.decode_joined(transport.exchange("state"))
    learner = Learner.fresh(recipe_of(joined.recipe, joined.params), life)
    learner.catch_up(joined)
    return Start(learner, joined.limits, joined=True)


def _again(found: Recovered, recipe: Recipe | None) -> Start:
    if recipe is not None and recipe != found.learner.recipe:
        fix = "Leave recipe out, or start with an empty state_dir."
        got, expected = repr(found.learner.recipe), repr(recipe)
        raise InvalidState(complaint("state_dir, recipe", got=got, expected=expected, fix=fix))
    return Start(found.learner, found.limits, joined=False)
