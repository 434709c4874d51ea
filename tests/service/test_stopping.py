"""Stopping is bounded, whatever the store does."""

import asyncio
import time
from collections.abc import Callable

import pytest

from fedbandit import wire
from fedbandit.service.merging.sync import ModelRef, SyncRequest
from fedbandit.service.merging.threads import ThreadMerger
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import make_model, metric, start, stored
from tests.service.uploaders import Uploader, start_all


def test_finishing_does_not_wait_for_a_store_that_is_stuck(
    sqlite_url: Callable[[], str],
) -> None:
    async def play() -> None:
        ref = ModelRef("news", store.model("news").incarnation)
        request = SyncRequest("a", wire.encode_sync(sync_for(RECIPE, 1)))
        with blocker.lock("news"):
            ask = asyncio.create_task(merger.take(ref, request))
            await asyncio.sleep(0.1)
            assert not await merger.stop(0.01)
            ask.cancel()

    url = sqlite_url()
    make_model(url, "news", RECIPE)
    store, blocker = open_store(url), open_store(url)
    merger = ThreadMerger(store)
    asyncio.run(play())
    for each in (store, blocker):
        each.close()


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
