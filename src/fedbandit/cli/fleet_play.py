"""A fleet in one process: connects, plays a tape, and adds up what was sent."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TextIO

import numpy as np

from fedbandit import wire
from fedbandit.client import ConnectedAgent, Status, connect
from fedbandit.core.memory.summary import empty_gram
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.recipes import FedLinUCB, PaperRadius
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.errors import InvalidParameter, Unreachable, complaint
from fedbandit.simulation import simulate
from fedbandit.worlds.round import World

PATIENCE = 10.0
"""Seconds to wait in the end for what is still to be delivered: once as it is due, once more."""

_AT_ONCE = 8
_REFRESH = 0.25
_WIDTH = 24  # of the live table's numbers, so that it does not change its shape all the time


@dataclass(frozen=True, slots=True)
class Fleet:
    """Agents of one model, ``agent-0`` and so on."""

    agents: list[ConnectedAgent]

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        model: str,
        agents: int,
        tokens: Mapping[str, str],
        state_dir: Path | None,
        cafile: str | None = None,
    ) -> "Fleet":
        """Connect them all, some at a time."""

        def one(index: int) -> ConnectedAgent:
            name = f"agent-{index}"
            place = None if state_dir is None else state_dir / name
            token = tokens.get(name)
            return connect(
                url, model=model, agent=name, token=token, state_dir=place, cafile=cafile
            )

        first = one(0)  # if there is something wrong, say so once
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return cls([first, *pool.map(one, range(1, agents))])

    @property
    def recipe(self) -> Recipe:
        """The model's recipe."""
        return self.agents[0].recipe

    def statuses(self) -> list[Status]:
        """Return how each is doing."""
        return [agent.status() for agent in self.agents]

    def sync(self) -> None:
        """Deliver what is due."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda agent: agent.sync(timeout=PATIENCE), self.agents))

    def close(self) -> bool:
        """Close them all; say whether everything was delivered."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            closed = pool.map(lambda agent: agent.close(timeout=PATIENCE), self.agents)
            return all(list(closed))


class Shown(Protocol):
    """Is told how far a fleet is."""

    def __call__(self, done: int, reward: float) -> None:
        """Show that many decisions and their mean reward."""
        ...


def play(fleet: Fleet, world: World, rounds: int, *, in_step: bool, stream: TextIO) -> float:
    """Play the tape, each round by its agent, and return the mean reward."""
    if world.dimension != fleet.recipe.dimension:
        fix = f"Say --dimension {fleet.recipe.dimension}, or choose another world or model."
        expected = f"the model's dimension, {fleet.recipe.dimension}"
        raise InvalidParameter(complaint("world", got=world.dimension, expected=expected, fix=fix))
    total, shown_at = 0.0, 0.0
    with _shown_on(stream, fleet, rounds) as show:
        for done, this in enumerate(world.rounds(rounds)):
            agent = fleet.agents[this.agent]
            decision = agent.decide(this.arms)
            reward = float(this.rewards[decision.index])
            agent.reward(decision.id, reward)
            if in_step:
                agent.sync()
            total += reward
            if time.monotonic() - shown_at > _REFRESH:
                show(done + 1, total / (done + 1))
                shown_at = time.monotonic()
        fleet.sync()
        show(rounds, total / rounds)
    return total / rounds


def not_delivered(fleet: Fleet, state_dir: Path | None) -> Unreachable:
    """Return the error for a fleet that was closed with something left: how much, and where it is.

    Without a ``state_dir`` what is left is gone with the agents.
    """
    left = [each.undelivered for each in fleet.statuses() if each.undelivered]
    got = f"{sum(left):,} observations of {len(left)} agents that are not delivered"
    if not left:
        got, where = "no answer to agents that asked what is new", "They had nothing to deliver."
    elif state_dir is None:
        where = "They are lost: give a --state-dir to keep them."
    else:
        where = f"They wait under {state_dir}: run it again when the coordinator answers."
    return Unreachable(complaint("fleet", got=got, expected="nothing left to do", fix=where))


@dataclass(frozen=True, slots=True)
class Sent:
    """Uploads and bytes, both ways."""

    uploads: int
    up: int
    down: int


def sent_by(fleet: Fleet) -> Sent:
    """Return what the fleet has uploaded so far, and received in answer or to catch up."""
    each = fleet.statuses()
    return Sent(
        sum(status.uploads for status in each),
        sum(status.bytes_up for status in each),
        sum(status.bytes_down for status in each),
    )


def sent_by_fedlinucb(recipe: Recipe, world: World, rounds: int) -> Sent:
    """Return what FedLinUCB would have sent on the same tape, with the recipe's own parameters."""
    params = {name: recipe.params[name] for name in ("dimension", "alpha", "ridge")}
    asked, agents = recipe.params["radius"], max(recipe.agents, world.agents)
    radius: PaperRadius = "paper" if isinstance(asked, str) else asked
    whole = FedLinUCB(**params, agents=agents, radius=radius)
    uploads = int(simulate(whole, world, rounds=rounds).uploads[-1])
    up, down = message_sizes(whole)
    return Sent(uploads, uploads * up, uploads * down)


def ledger(name: str, ours: Sent, theirs: Sent) -> list[tuple[str, ...]]:
    """Return both, and how many times as much the other is, as cells of a table."""
    pairs = [
        (ours.uploads, theirs.uploads),
        (ours.up, theirs.up),
        (ours.down, theirs.down),
        (ours.up + ours.down, theirs.up + theirs.down),
    ]
    return [
        (f"{name}, this fleet", *(f"{mine:,}" for mine, _ in pairs)),
        ("FedLinUCB, same tape", *(f"{other:,}" for _, other in pairs)),
        ("ratio", *(f"{other / mine:.2f}" if mine else "-" for mine, other in pairs)),
    ]


def message_sizes(recipe: Recipe) -> tuple[int, int]:
    """Return the bytes of a sync and of its answer, for a recipe that sends whole matrices."""
    d, name = recipe.dimension, wire.fingerprint(recipe)
    upload = Upload(0, Statistics(empty_gram(d), np.zeros(d), 100, Rewards(100)))
    download = Download(Statistics(empty_gram(d), np.zeros(d), 10_000, Rewards(10_000)), 1_000)
    sync = wire.encode_sync(wire.Sync(name, bytes(wire.LIFE_BYTES), 100, upload))
    return len(sync), len(wire.encode_synced(wire.Synced(name, True, 100, 1_000, download)))


@contextmanager
def _shown_on(stream: TextIO, fleet: Fleet, rounds: int) -> Iterator[Shown]:
    """Show a table that changes where a person is watching; elsewhere a line per tenth."""
    if stream.isatty() and find_spec("rich"):
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        began = time.monotonic()

        def table(done: int, reward: float) -> Table:
            drawn = Table(title=f"{len(fleet.agents)} agents", title_justify="left")
            drawn.add_column("")
            drawn.add_column("now", justify="right", min_width=_WIDTH)
            for name, value in _progress(fleet, done, rounds, reward, began):
                drawn.add_row(name, value)
            return drawn

        with Live(console=Console(file=stream), refresh_per_second=4) as live:
            yield lambda done, reward: live.update(table(done, reward))
        return
    told = 0

    def line(done: int, reward: float) -> None:
        nonlocal told
        if 10 * done // rounds > told:
            told = 10 * done // rounds
            said = f"{10 * told} % of {rounds:,} decisions, {reward:.4f} a decision"
            print(said, file=stream, flush=True)

    yield line


def _progress(
    fleet: Fleet, done: int, rounds: int, reward: float, began: float
) -> list[tuple[str, str]]:
    each = fleet.statuses()
    troubled = [status.trouble for status in each if status.trouble]
    return [
        ("decisions", f"{done:,} of {rounds:,}"),
        ("a second", f"{done / max(time.monotonic() - began, 1e-9):,.0f}"),
        ("mean reward", f"{reward:.4f}"),
        ("uploads", f"{sum(status.uploads for status in each):,}"),
        ("not yet delivered", f"{sum(status.undelivered for status in each):,} observations"),
        ("bytes up", f"{sum(status.bytes_up for status in each):,}"),
        ("bytes down", f"{sum(status.bytes_down for status in each):,}"),
        ("in trouble", f"{len(troubled)} agents{': ' + troubled[0][:60] if troubled else ''}"),
    ]
