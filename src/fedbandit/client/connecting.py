"""``connect``: open or create an agent's state, and start delivering."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.decisions import OpenDecisions
from fedbandit.client.enrolment import read_token
from fedbandit.client.state.agent_state import AgentState, Waiting
from fedbandit.client.state.decision_log import DecisionLog
from fedbandit.client.state.directory import Identity, Recovered, StateDir, recipe_of
from fedbandit.client.state.learner import Learner, warm_up
from fedbandit.client.state.records import FORMAT
from fedbandit.client.state.refused_uploads import RefusedUploads
from fedbandit.client.transport import HttpTransport, Transport
from fedbandit.core.checks import checked_reward, one_of, real, whole
from fedbandit.core.recipe import Recipe
from fedbandit.errors import (
    DataError,
    InvalidParameter,
    InvalidReward,
    InvalidState,
    LocalError,
    OutputError,
    Unreachable,
    complaint,
)
from fedbandit.logs.writer import LogTo, LogWriter
from fedbandit.terms import check_agent_name, check_name

Durability = Literal["process", "machine"]


def connect(
    url: str,
    *,
    model: str,
    agent: str,
    token: str | os.PathLike[str] | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    recipe: Recipe | None = None,
    reward_wait: float | None = None,
    default_reward: float | None = 0.0,
    max_open: int = 10_000,
    durability: Durability = "process",
    timeout: float = 10.0,
    cafile: str | None = None,
    certificate: str | None = None,
    insecure: bool = False,
    log: str | os.PathLike[str] | LogTo | None = None,
) -> ConnectedAgent:
    """Return an agent that decides here and learns together with all others of its model.

    The first time, it asks the coordinator for the model's recipe, and raises Unreachable or
    Refused if it cannot. With a ``state_dir`` that it has used before, or with the ``recipe``
    given, it starts offline as well. Close it at the end, or use it in a ``with``: without a
    ``state_dir``, what has not been delivered by then is lost.

    ``reward_wait``: seconds after which a decision without a reward gets ``default_reward``, or is
    forgotten if that is None; None: it waits for ever. With a ``state_dir``, the time that the
    agent runs adds up over restarts. ``max_open``: how many decisions may wait; one more forgets
    the oldest. ``durability``: what a reward survives once ``reward`` has returned, the end of the
    ``"process"`` (kill -9) or of the ``"machine"`` (power loss; each reward then waits for the
    disk). ``timeout``: seconds of every wait for the network, which only the first connect and the
    background thread do. ``cafile``: certificates to trust with https in place of the system's.
    ``token``: as a text, or the path of a file that is read again for each request, so that it can
    be replaced while the agent runs. ``certificate``: the path of a client certificate and its key
    (PEM) to show in place of a token.
    ``insecure``: send the token over http to another machine too, where anybody on the way can read
    it; without this, such a ``url`` is refused.
    ``log``: a directory for a log of decisions and rewards, which stays on this device, or a
    ``LogTo`` that says how much of it to keep (docs/logs.md).
    """
    transport = HttpTransport(
        url,
        model=check_name("model", model),
        agent=check_agent_name(agent),
        token=token_source(token),
        timeout=real("timeout", timeout),
        cafile=cafile,
        certificate=certificate,
        insecure=insecure,
    )
    state = open_state(
        transport,
        Identity(model=model, agent=agent),
        state_dir=state_dir,
        recipe=recipe,
        waiting=waiting_for(reward_wait, default_reward),
        max_open=max_open,
        durability=durability,
    )
    return ConnectedAgent(state, transport, None if log is None else _opened_log(log, state))


def _opened_log(log: str | os.PathLike[str] | LogTo, state: AgentState) -> LogWriter:
    """Open the log of an agent; close the agent's state if that fails."""
    recipe, who = state.recipe, state.who
    try:
        return LogWriter(
            log, model=who.model, agent=who.agent, recipe=recipe.name, params=recipe.params
        )
    except LocalError:
        state.close()
        raise


def open_state(
    transport: Transport,
    who: Identity,
    *,
    state_dir: str | os.PathLike[str] | None = None,
    recipe: Recipe | None = None,
    waiting: Waiting,
    max_open: int = 10_000,
    durability: Durability = "process",
) -> AgentState:
    """Restore an agent's state from its state_dir or create it; close all if that fails.

    ``ConnectedAgent(state, transport)`` is an agent over a transport of one's own.
    """
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
        learner, limits = _new(transport, recipe) if found is None else _restored(found, recipe)
        _check_default(waiting, limits)
        warm_up(learner.recipe)
        log = _log_after(found, decisions, waiting, durable=durability == "machine")
        refused = RefusedUploads(None if place is None else place.refused)
        state = AgentState(
            who,
            learner,
            log,
            refused,
            waiting=waiting,
            limits=limits,
            caught_up=found is None and recipe is None,
            state_dir=place,
            chance=(0 if found is None else found.chance) or _new_chance(),
        )
        if place is not None:
            _begin_or_resume_journal(place, found, log, state)
        undo.pop_all()
    return state


def _log_after(
    found: Recovered | None, decisions: OpenDecisions, waiting: Waiting, *, durable: bool
) -> DecisionLog:
    """Return a log of decisions that goes on where what was ``found`` in a state_dir ends."""
    return DecisionLog(
        decisions,
        waiting.clock,
        running_time=0.0 if found is None else found.running_time,
        number=0 if found is None else found.number,
        durable=durable,
    )


def _begin_or_resume_journal(
    place: StateDir, found: Recovered | None, log: DecisionLog, state: AgentState
) -> None:
    """Have the log write to the journal that was found, in today's format, or to a new one."""
    journal = place.begin(state.snapshot()) if found is None else found.journal
    log.write_to(journal, state.snapshot, hold_again=place.hold_again)
    if found is not None and (found.format < FORMAT or not found.chance):
        with suppress(OutputError):  # it can be read as it is; a later rewrite will do
            log.rewrite()


def _new_chance() -> int:
    """Return what the draws of a new state follow from: 1 to 2^63."""
    return (int.from_bytes(os.urandom(8)) >> 1) + 1


def token_source(token: str | os.PathLike[str] | None) -> str | Callable[[], str] | None:
    """Return a token, or what reads it from its file each time."""
    if token is None or isinstance(token, str):
        return token
    path = Path(token)
    read_token(path)
    return lambda: _read_again(path)


def _read_again(path: Path) -> str:
    try:
        return read_token(path)
    except DataError as error:  # being replaced, perhaps
        raise Unreachable(str(error)) from error


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
        fix = "Give a number, or None to learn nothing from decisions without a reward."
        message = complaint("default_reward", got=value, expected="one finite number", fix=fix)
        raise InvalidParameter(message) from error


def _check_default(waiting: Waiting, limits: wire.Limits | None) -> None:
    default = waiting.default
    if limits is not None and default is not None and abs(default) > limits.reward:
        expected = f"at most {limits.reward} in size, the coordinator's limit"
        fix = "Choose another, or make the model with a larger limit."
        raise InvalidParameter(complaint("default_reward", got=default, expected=expected, fix=fix))


def _new(transport: Transport, recipe: Recipe | None) -> tuple[Learner, wire.Limits | None]:
    """Start with nothing learned if the recipe is given, else with the coordinator's state."""
    life = os.urandom(wire.LIFE_BYTES)
    if recipe is not None:
        return Learner.fresh(recipe, life), None
    answer = wire.decode_joined(transport.exchange(wire.state_path()))
    learner = Learner.fresh(recipe_of(answer.recipe, answer.params), life)
    learner.catch_up(answer)
    return learner, answer.limits


def _restored(found: Recovered, recipe: Recipe | None) -> tuple[Learner, wire.Limits | None]:
    if recipe is not None and recipe.identity != found.learner.recipe.identity:
        fix = "Leave recipe out, or start with an empty state_dir."
        got, expected = repr(found.learner.recipe), repr(recipe)
        raise InvalidState(complaint("state_dir, recipe", got=got, expected=expected, fix=fix))
    return found.learner, found.limits
