"""Agents in shops: each serves visitors, one after another, and learns with the others."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread

import numpy as np

from fedbandit.cli.quickstart.shop import BY_CHANCE, DRINKS, visitor
from fedbandit.client import ConnectedAgent

_FEW = 100  # visitors whose purchases are averaged at the beginning, and now


@dataclass
class Till:
    """What was sold, by all agents; each appends on its own."""

    first: list[float] = field(default_factory=list)
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=_FEW))
    visitors: int = 0

    def note(self, bought: float) -> None:
        """Count a visitor."""
        self.visitors += 1
        if len(self.first) < _FEW:
            self.first.append(bought)
        self.latest.append(bought)

    @property
    def line(self) -> str:
        """How it goes, in a line."""
        if not self.visitors:
            return "no visitors yet"
        first, now = np.mean(self.first), np.mean(self.latest)
        before = f"first {len(self.first)}: {100 * first:.0f} %, by chance: {100 * BY_CHANCE:.0f} %"
        return f"{self.visitors:,} visitors, {100 * now:.0f} % buy ({before})"


class Shops:
    """A thread for each agent, until ``stop``."""

    def __init__(self, agents: Sequence[ConnectedAgent], *, pause: float) -> None:
        self.till, self._over = Till(), Event()
        self._pause, self._failed = pause, Event()
        self._threads = [
            Thread(target=self._serve, args=(agent, seed), daemon=True)
            for seed, agent in enumerate(agents)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, agent: ConnectedAgent, seed: int) -> None:
        chance = np.random.default_rng([seed, time.time_ns()])
        try:
            while not self._over.wait(chance.exponential(self._pause)):
                who = visitor(chance)
                decision = agent.decide(context=who.context, actions=list(DRINKS))
                bought = float(chance.random() < who.chances[str(decision.action)])
                agent.reward(decision.id, bought)
                self.till.note(bought)
        finally:
            self._failed.set()

    def watch(self, seconds: float | None, every: float) -> Iterator[str]:
        """Yield how it goes, every few seconds, until the time is over or an agent ends."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            left = every if end is None else min(every, end - time.monotonic())
            if self._failed.wait(max(left, 0.0)):
                return
            yield self.till.line

    def stop(self) -> None:
        """Let every agent finish with its visitor."""
        self._over.set()
        for thread in self._threads:
            thread.join()
