"""What happens to an agent: its disk is full, it is killed, time passes."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.state.agent_state import AgentState


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Let no file of this process grow past a size: the system itself then says no."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def stop_thread(agent: ConnectedAgent) -> None:
    """End an agent's thread, as only a bug could."""
    agent._background.stop(5.0)


def abandon(agent: ConnectedAgent) -> None:
    """Let go of the files as a killed process does: nothing is flushed, nothing is saved."""
    stop_thread(agent)
    abandon_state(agent._state)


def abandon_state(state: AgentState) -> None:
    """Let go of the files of a state that has no agent yet, as a killed process does."""
    state.log.close()
    assert state.state_dir is not None
    state.state_dir.close()


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait up to 10 seconds for something; return whether it came true."""
    deadline = time.monotonic() + 10.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
