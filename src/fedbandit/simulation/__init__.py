"""Simulate a recipe on a world: all agents and the server in one process, no network."""

import warnings
from itertools import islice
from math import inf

import numpy as np

from fedbandit.core.checks import whole
from fedbandit.core.messages import Upload
from fedbandit.core.parts.choice import Policy
from fedbandit.core.playing import play_tape, plays_tapes
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Base, Statistics
from fedbandit.errors import InvalidParameter
from fedbandit.independent import Independent
from fedbandit.simulation.fleet import MANY, Agents, CompactFleet
from fedbandit.simulation.round import bad_round, play_alone, play_round
from fedbandit.simulation.trace import PerRound, Trace
from fedbandit.simulation.window import play_in_windows, play_stacked, plays_in_stretches
from fedbandit.worlds.replay import Replay
from fedbandit.worlds.round import World

__all__ = ["Trace", "simulate", "warm_up"]


def simulate(recipe: Recipe | Independent, world: World, *, rounds: int) -> Trace:
    """Play ``rounds`` rounds of a recipe on a world and return the trace.

    ``Independent`` plays a learner of one's own for each agent.

    Messages arrive at once and in order. All of the trace but ``seconds`` is determined by recipe,
    world and rounds. The world must have the recipe's dimension, and at most as many agents.

    Where agents do not depend on each other between uploads, each plays many rounds at a time
    (``Agent.play``); what is played, sent and counted is the same. Of many agents (over 16,384)
    only those that are playing are objects in memory (``fleet``).
    """
    _check(recipe, world, rounds)
    per_round = PerRound.blank(rounds)
    tape = enumerate(islice(world.rounds(rounds), rounds))
    if isinstance(recipe, Independent):
        learners, played = recipe.fleet(), 0
        for t, this in tape:
            play_alone(recipe.name, learners, t, this, per_round)
            played = t + 1
        _check_played(played, rounds)
        return per_round.trace(cut=0)
    warm_up(recipe)
    server = recipe.server()
    compact = recipe.agents > MANY and plays_in_stretches(recipe)
    agents: Agents = CompactFleet(recipe) if compact else recipe.fleet()
    stack = world.stacked(rounds) if isinstance(world, Replay) else None
    if plays_in_stretches(recipe) and stack is not None:
        played = play_stacked(agents, server, stack, per_round)
    elif plays_in_stretches(recipe):
        played = play_in_windows(agents, server, tape, per_round)
    else:
        played = 0
        for t, this in tape:
            play_round(agents, server, t, this, per_round)
            played = t + 1
    _check_played(played, rounds)
    cut = server.statistics.cut
    if cut:
        warnings.warn(_cut_short(recipe, cut, server.version), stacklevel=2)
    return per_round.trace(cut=cut)


def _cut_short(recipe: Recipe, cut: int, uploads: int) -> str:
    """Say that corrections were cut, and what to do about it."""
    params = recipe.params
    told = params.get("compensation") == "uniform" or isinstance(params["radius"], str)
    fix = "Raise parameter_norm in bounds." if told else "Look at the scale of arms and rewards."
    return f"The correction of {cut} of {uploads} uploads was too long and was cut. {fix}"


def warm_up(recipe: Recipe) -> None:
    """Call once what agents and server call, so that compiling is not timed as part of a run."""
    memory, d = recipe.parts.memory, recipe.dimension
    base = Base(memory.empty(), memory)
    pending = memory.pending(base)
    arms = np.random.default_rng(0).standard_normal((memory.capacity + 2, d))
    for x in arms:
        pending.absorb(x, 1.0, 1.0)
    if plays_tapes(recipe.parts):  # the loop of a full buffer too
        once, policy = np.ones((1, len(arms))), Policy(base.reading, base.theta, 1.0)
        play_tape(policy, pending, arms[None], once, inf, np.empty(1, np.int64), None)
    pending.growth_exceeds(0.0)
    observed = Statistics(pending.summary(), pending.moment, pending.count)
    upload, server = Upload(0, memory.uploaded(observed, base, pending.carried)), recipe.server()
    server.adopt(server.merged([upload, upload]), version=2)
    answer = Base(memory.opened(server.download().statistics), memory)
    policy = Policy(answer.reading, answer.theta, 1.0)
    recipe.parts.choice.choose(policy, arms, 0, 0)
    recipe.agent(0).play(arms[None], np.ones((1, len(arms))))


def _check_played(played: int, rounds: int) -> None:
    if played < rounds:
        raise bad_round(played, "no more rounds", f"{rounds} rounds")


def _check(recipe: Recipe | Independent, world: World, rounds: int) -> None:
    whole("rounds", rounds, least=0)
    for what in ("dimension", "agents"):
        have, want = getattr(recipe, what), getattr(world, what)
        fits = have == want if what == "dimension" else have >= want
        if not fits:
            raise InvalidParameter(
                f"simulate: the recipe has {what}={have}, but the world has {what}={want}. "
                f"Build the recipe with {what}={want}."
            )
