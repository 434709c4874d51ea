"""Faults that a device may have: its disk is full, its process is killed; and a clock to set."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

from fedbandit.client.agent import ConnectedAgent


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Let no file of this process grow past a size: the system itself then says no."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def abandon(agent: ConnectedAgent) -> None:
    """Let go of the files as a killed process does: nothing is flushed, nothing is saved."""
    agent._background.stop(5.0)
    agent._state.log.close()
    assert agent._state.state_dir is not None
    agent._state.state_dir.close()


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
