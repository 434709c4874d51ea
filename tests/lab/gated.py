"""Runs that wait for a file, so that a program can be killed in the middle of them."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandit.lab import Task, run
from tests.lab.tiny import task, tasks, world


@dataclass(frozen=True)
class Gated:
    """A world that is not played before a file exists; which file decides nothing of the tape."""

    gate: Path
    seed: int
    dimension: int = 4
    agents: int = 2

    @property
    def params(self) -> dict[str, object]:
        return {"seed": self.seed}

    def rounds(self, n: int) -> Any:
        while not self.gate.exists():
            time.sleep(0.01)
        return world(seed=self.seed).rounds(n)


def gated_tasks(gate: Path) -> list[Task]:
    """Three runs that can be finished, and three that wait for the gate."""
    waiting = [task(trial=trial, world=Gated(gate, seed=trial)) for trial in range(3, 6)]
    return [*tasks(3), *waiting]


def run_gated(directory: str) -> None:
    """Run them in two processes, as a program of its own."""
    run(gated_tasks(Path(directory) / "gate"), out=Path(directory) / "out", jobs=2)
