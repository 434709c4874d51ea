"""What close delivers, what it says, and how long it may take."""

import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import open_state
from fedbandit.client.delivery.background import BackgroundThread
from fedbandit.client.state.agent_state import AgentState
from fedbandit.errors import Closed, InvalidParameter, OutputError
from tests.client.twin import PATIENT, WHO, Twin, joined_to

D = 6
LAZY = fb.FSCLB(dimension=D, sketch_size=3, agents=4, alpha=1e9)


def pay(agent: ConnectedAgent) -> None:
    agent.reward(agent.decide(np.eye(D)[:1]).id, 1.0)


@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("flush", [None, False, True])
def test_what_is_delivered_and_what_is_said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    flush: bool | None,
    on_disk: bool,
    down: bool,
    due: bool,
) -> None:
    """One observation is pending; before it, one may have become due."""
    twin = Twin(LAZY)
    agent = joined_to(twin, state_dir=tmp_path if on_disk else None)
    twin.down = True
    if due:
        pay(agent)
        assert not agent.sync(everything=True, timeout=0.01)
    twin.down = down
    pay(agent)
    flushed = flush is True or (flush is None and not on_disk)
    sent = 0 if down else due + flushed
    left = due + 1 - sent
    kept_on_purpose = on_disk and not flush and not (down and due)
    assert agent.close(flush=flush, timeout=0.05 if down else 10.0) == (not left or kept_on_purpose)
    assert agent.close(flush=flush) == (not left or kept_on_purpose)
    assert twin.server.count == sent
    assert (f"{left} observations are lost" in caplog.text) == (left > 0 and not on_disk)
    twin.down = False
    if on_disk:
        with joined_to(twin, state_dir=tmp_path) as agent:
            assert agent.sync(everything=True)
        assert twin.server.count == due + 1


@pytest.mark.parametrize("flush", [None, False, True])
def test_nobody_there_is_told_though_nothing_is_lost(
    caplog: pytest.LogCaptureFixture, flush: bool | None
) -> None:
    twin = Twin(LAZY)
    twin.down = True
    assert not joined_to(twin, recipe=LAZY).close(flush=flush, timeout=0.01)
    assert "lost" not in caplog.text


@pytest.mark.parametrize("ending", ["left open", "closed", "delivered", "on disk"])
def test_an_agent_that_is_gone_without_close_says_what_it_had_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    agent = joined_to(Twin(LAZY), state_dir=tmp_path if ending == "on disk" else None)
    thread = agent._background
    pay(agent)
    if ending == "closed":
        agent.close()
    if ending == "delivered":
        assert agent.sync(everything=True)
    del agent
    gc.collect()
    thread.stop(5.0)
    said = "never closed, 1 observations not delivered"
    assert (said in caplog.text) == (ending == "left open")


PROGRAM = """
import numpy as np
import fedbandit as fb
recipe = fb.FSCLB(dimension=2, sketch_size=2, agents=2, alpha=1e9)
agent = fb.connect("http://127.0.0.1:1", model="news", agent="phone-7", recipe=recipe)
agent.reward(agent.decide(np.eye(2)).id, 1.0)
"""


def test_a_program_that_ends_without_close_says_so() -> None:
    environment = os.environ | {"FEDBANDIT_COMPILE": "0"}
    command = [sys.executable, "-X", "dev", "-c", PROGRAM]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, timeout=60.0
    )
    told = [line for line in ended.stderr.splitlines() if "never closed" in line]
    assert len(told) == 1
    assert told[0].startswith("news/phone-7: never closed, 1 observations not delivered. Call")
    assert "Traceback" not in ended.stderr


class Silent:
    """A coordinator that takes a request and does not answer before it is told to."""

    def __init__(self) -> None:
        self.asked, self.over, self.closed = Event(), Event(), Event()

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        del path, body
        self.asked.set()
        self.over.wait()
        raise fb.errors.Unreachable("silent")

    def close(self) -> None:
        self.closed.set()


def test_the_time_to_close_is_spent_once_and_who_is_left_behind_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Silent()
    others = set(threading.enumerate())
    agent = ConnectedAgent(open_state(silent, WHO, recipe=LAZY, waiting=PATIENT), silent)
    (thread,) = set(threading.enumerate()) - others
    assert silent.asked.wait(10.0)
    patience, stop = [], BackgroundThread.stop

    def note(thread: BackgroundThread, timeout: float) -> None:
        patience.append(timeout)
        stop(thread, timeout)

    monkeypatch.setattr(BackgroundThread, "stop", note)
    pay(agent)
    assert not agent.close(timeout=0.5)
    assert patience == [0.2]  # no more than the grace: delivering had all of the rest
    assert thread.is_alive()
    assert not silent.closed.is_set()  # not while another thread uses it
    silent.over.set()
    assert silent.closed.wait(10.0)


def test_closing_hangs_up() -> None:
    silent = Silent()
    silent.over.set()
    agent = ConnectedAgent(open_state(silent, WHO, recipe=LAZY, waiting=PATIENT), silent)
    agent.close(timeout=0.01)
    assert silent.closed.wait(10.0)


def test_an_interrupt_lets_go_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = Twin(LAZY)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    others = set(threading.enumerate())
    agent = joined_to(twin, state_dir=tmp_path)
    (thread,) = set(threading.enumerate()) - others
    pay(agent)
    monkeypatch.setattr(BackgroundThread, "wait_until", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.close()
    assert not thread.is_alive()
    monkeypatch.undo()
    assert not agent.close(flush=True)
    with joined_to(twin, state_dir=tmp_path) as again:
        assert again.sync(everything=True)
    assert twin.server.count == 1


@pytest.mark.parametrize("timeout", [None, -1.0, float("inf"), float("nan"), "10"])
def test_a_timeout_that_is_none_leaves_an_agent_as_it_was(timeout: Any) -> None:
    twin = Twin(LAZY)
    agent = joined_to(twin)
    for call in (agent.close, agent.sync):
        with pytest.raises(InvalidParameter, match="timeout: got"):
            call(timeout=timeout)
    pay(agent)
    assert agent.close()
    assert twin.server.count == 1


def test_a_second_close_waits_for_the_first() -> None:
    twin = Twin(LAZY)
    agent = joined_to(twin)
    agent.sync()
    pay(agent)
    with twin.lock:  # it does not answer
        first = Thread(target=agent.close)
        first.start()
        with suppress(Closed):
            while True:
                agent.decide(np.eye(D))
        assert not agent.close(timeout=0.05)
    assert agent.close()
    first.join()
    assert twin.server.count == 1


def test_what_is_on_its_way_is_delivered_though_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = Twin(LAZY)
    agent = joined_to(twin, state_dir=tmp_path)
    twin.down = True
    pay(agent)
    assert not agent.sync(everything=True, timeout=0.01)

    def full(state: AgentState) -> float:
        raise OutputError(f"no space left for {state.who}")

    monkeypatch.setattr(AgentState, "settle_overdue", full)
    twin.down = False
    assert agent.close()
    assert twin.server.count == 1
