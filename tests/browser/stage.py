"""A coordinator in a process of its own with a small fleet behind it."""

import threading
import time
from dataclasses import dataclass, field

import numpy as np

import fedbandit as fb
from tests.service.running import Process, start

D = 8


@dataclass
class Stage:
    """A coordinator that can be killed and started again, and agents that go on throughout."""

    url: str
    admin: str
    process: Process
    tokens: dict[str, str]
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return self.process.address

    def start_again(self) -> None:
        """Start the coordinator at the address that it had."""
        self.process = start(self.url, listen=self.process.address.removeprefix("http://"))

    def play(self, agent: str, seed: int) -> None:
        """Decide and learn until the stage is closed."""
        rng, address = np.random.default_rng(seed), self.address
        with fb.connect(address, model="news", agent=agent, token=self.tokens[agent]) as connected:
            while not self.stopping.is_set():
                arms = rng.normal(size=(4, D))
                arms /= np.linalg.norm(arms, axis=1, keepdims=True)
                decision = connected.decide(arms)
                reward = 0.5 + 0.4 * arms[decision.index, 0] + 0.05 * rng.normal()
                connected.reward(decision.id, float(np.clip(reward, 0.0, 1.0)))
                time.sleep(0.01)
