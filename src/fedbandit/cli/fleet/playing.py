"""A fleet of connected agents in one process, which plays the rounds of a world."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TextIO

from fedbandit.client import ConnectedAgent, Status, connect
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, Unreachable, complaint
from fedbandit.worlds.round import World

PATIENCE = 10.0
"""Seconds to wait at the end for uploads that are due, and again when the agents are closed."""

_AT_ONCE = 8
_REFRESH = 0.25
_WIDTH = 24  # of the live table's numbers, so that its columns do not jump


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
        insecure: bool = False,
    ) -> "Fleet":
        """Connect all agents, eight at a time."""

        def one(index: int) -> ConnectedAgent:
            name = f"agent-{index}"
            place = None if state_dir is None else state_dir / name
            token = tokens.get(name)
            return connect(
                url,
                model=model,
                agent=name,
                token=token,
                state_dir=place,
                cafile=cafile,
                insecure=insecure,
            )

        first = one(0)  # alone, so that an error is told once
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return cls([first, *pool.map(one, range(1, agents))])

    @property
    def recipe(self) -> Recipe:
        """The model's recipe."""
        return self.agents[0].recipe

    def statuses(self) -> list[Status]:
        """Return the status of each agent."""
        return [agent.status() for agent in self.agents]

    def sync(self) -> None:
        """Deliver the uploads that are due."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda agent: agent.sync(timeout=PATIENCE), self.agents))

    def close(self) -> bool:
        """Close all agents; return whether everything was delivered."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            closed = pool.map(lambda agent: agent.close(timeout=PATIENCE), self.agents)
            return all(list(closed))


class Show(Protocol):
    """Shows the progress of a fleet."""

    def __call__(self, done: int, reward: float) -> None:
        """Show the number of decisions made and their mean reward."""
        ...


def play(fleet: Fleet, world: World, rounds: int, *, in_step: bool, stream: TextIO) -> float:
    """Play the rounds, each by the agent whose turn it is; return the mean reward.

    ``in_step``: wait for the coordinator's answer to every upload before the next round.
    """
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
    """Return the error for a fleet that was closed before everything was delivered.

    Without a ``state_dir`` the undelivered observations are lost with the agents.
    """
    left = [each.undelivered for each in fleet.statuses() if each.undelivered]
    if not left:
        said = "the coordinator did not answer agents that asked for the newest state"
        return Unreachable(f"fleet: {said}. They had nothing to deliver.")
    said = f"{sum(left):,} observations of {len(left)} agents were not delivered"
    if state_dir is None:
        fix = "They are lost; give a --state-dir to keep them next time."
    else:
        fix = f"They are kept in {state_dir}: run the same command when the coordinator answers."
    return Unreachable(f"fleet: {said}. {fix}")


@contextmanager
def _shown_on(stream: TextIO, fleet: Fleet, rounds: int) -> Iterator[Show]:
    """Show a live table on a terminal; print a line per tenth of the rounds elsewhere."""
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
