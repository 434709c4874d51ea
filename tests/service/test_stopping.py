"""Stopping is bounded, whatever the store does."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedbandit.service.batch import Answer, Posted
from fedbandit.service.merger import Merger
from fedbandit.service.stores import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import make_model, metric, start, stored
from tests.service.uploaders import Uploader, start_all


class Stuck:
    """A commit that does not return before it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.agents: list[str] = []

    def commit(self, batch: Sequence[Posted]) -> list[Answer]:
        """Note who is in the batch, then wait."""
        self.agents += [posted.agent for posted in batch]
        self.entered.set()
        assert self.let_go.wait(30)
        return [Answer(b"", True) for _ in batch]


def _posted(agent: str) -> Posted:
    return Posted(agent, sync_for(RECIPE, 1), 10)


def test_who_has_gone_is_not_merged_any_more() -> None:
    async def play() -> None:
        asks = [asyncio.create_task(merger.merge(_posted(agent))) for agent in "abc"]
        await asyncio.to_thread(stuck.entered.wait, 30)
        asks[1].cancel()
        await asyncio.sleep(0)
        stuck.let_go.set()
        assert (await asks[0]).merged
        assert (await asks[2]).merged
        assert await merger.finish(30.0)

    stuck = Stuck()
    with ThreadPoolExecutor(1) as pool:
        merger = Merger(stuck.commit, pool, batch=1, note=lambda: None)
        asyncio.run(play())
    assert stuck.agents == ["a", "c"]


def test_finishing_does_not_wait_for_a_store_that_is_stuck() -> None:
    async def play() -> None:
        ask = asyncio.create_task(merger.merge(_posted("a")))
        await asyncio.to_thread(stuck.entered.wait, 30)
        assert not await merger.finish(0.01)
        ask.cancel()

    stuck = Stuck()
    with ThreadPoolExecutor(1) as pool:
        merger = Merger(stuck.commit, pool, batch=1, note=lambda: None)
        asyncio.run(play())
        stuck.let_go.set()


@pytest.mark.chaos
def test_a_locked_store_does_not_keep_a_process_from_ending(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    blocker, process = open_store(url), start(url, "--open")
    agents = [Uploader(f"agent-{life}", life, lambda: process.address, 1) for life in range(3)]
    with blocker.lock("news"):
        threads = start_all(agents)
        while metric(process, "fedbandit_waiting") < len(agents):
            time.sleep(0.01)
        process.process.terminate()
        assert process.process.wait(9) == 0  # a write waits 10 seconds for its turn
        for agent, thread in zip(agents, threads, strict=True):
            agent.stopped = True
            thread.join(30)
    process.kill()
    blocker.close()
    assert stored(url).version == 0
