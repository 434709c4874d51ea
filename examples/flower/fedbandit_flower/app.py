"""The two apps that Flower runs, on a simulated world: put in your own turns, and keep the rest."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import ArrayLike

import fedbandit as fb
from fedbandit.engines.flower import client_app, server_app, turns_of
from fedbandit.engines.flower_node import Turn, Turns
from fedbandit.engines.flower_server import Tally
from fedbandit.worlds import Synthetic


def world_of(context: Context) -> Synthetic:
    """Return the world, the same on every node."""
    given = {name: int(context.run_config[name]) for name in ("dimension", "arms", "agents")}
    return Synthetic(
        dimension=given["dimension"],
        arms=given["arms"],
        agents=given["agents"],
        seed=int(context.run_config["seed"]),
    )


def recipe_of(context: Context) -> fb.Recipe:
    """Return the recipe, the same on every node and on the server."""
    given = context.run_config
    sizes = {name: int(given[name]) for name in ("dimension", "agents")}
    return fb.RECIPES[str(given["recipe"])](**sizes, radius=float(given["radius"]))


def turns(context: Context, agent: int) -> Turns:
    """Return the decisions that this node has to take."""
    made = turns_of(world_of(context), agent, rounds=int(context.run_config["rounds"]))
    if not context.run_config["record"]:
        return made
    return recorded(made, state_dir(context) / f"observed-{agent}.jsonl")


def recorded(turns: Turns, path: Path) -> Turns:
    """Return the same turns; each, once played, is a line of a file."""

    def of(before: int) -> Iterator[Turn]:
        for number, turn in enumerate(turns(before), before):
            yield Recorded(turn, path, number)

    return of


@dataclass(frozen=True)
class Recorded:
    """A turn that is written down when it is played."""

    turn: Turn
    path: Path
    number: int

    @property
    def arms(self) -> ArrayLike:
        """The arms."""
        return self.turn.arms

    def play(self, arm: int) -> tuple[float, float]:
        """Play an arm, and write down what it was and what it paid."""
        paid = self.turn.play(arm)
        x = np.asarray(self.turn.arms)[arm].tolist()
        with self.path.open("a") as file:
            print(json.dumps([self.number, x, paid[0]]), file=file)
        return paid


def finished(context: Context, tally: Tally) -> None:
    """Tell what came of the run."""
    server = tally.server
    told = {
        "observations": server.count,
        "uploads": server.version,
        "rounds": tally.rounds,
        "regret": tally.regret,
        "reward": tally.reward,
        "copies": tally.copies,
        "errors": tally.errors,
        "moment": server.moment.tolist(),
        "trace": trace_of(server.summary),
    }
    print(json.dumps(told))
    out = str(context.run_config["out"])
    if out:
        Path(out).write_text(json.dumps(told))


def trace_of(summary: Any) -> float:
    """Return the trace of X^T X as far as the server knows it."""
    kept = summary.matrix.trace() if hasattr(summary, "matrix") else (summary.rows**2).sum()
    return float(kept) + (getattr(summary, "lost", 0.0) or 0.0)


def state_dir(context: Context) -> Path:
    """Return where nodes keep their state."""
    return Path(str(context.run_config["state-dir"]))


def poll(context: Context) -> float:
    """Return how often the server looks for answers, in seconds."""
    return float(context.run_config["poll"])


def patience(context: Context) -> float:
    """Return after how many seconds a silent node is asked again."""
    return float(context.run_config["patience"])


client = client_app(recipe_of, turns, state_dir=state_dir)
server = server_app(recipe_of, finished=finished, poll=poll, patience=patience)
