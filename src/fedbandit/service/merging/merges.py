"""Where merging is done: in threads of this process, or, see ``merge_process``, in another one."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Protocol

from fedbandit.errors import LocalError, StoreError, UnknownName, complaint
from fedbandit.service.merging.commit import Answer, Reborn
from fedbandit.service.merging.intake import Arrived, Outcome
from fedbandit.service.merging.queue import Merged, Merger, ModelRef
from fedbandit.service.storage.contract import Store


class Merges(Protocol):
    """Takes in syncs of all models. Used from the event loop's thread alone."""

    @property
    def batches(self) -> Counter[str]:
        """The number of batches that were merged, by model."""
        ...

    async def take(self, ref: ModelRef, arrived: Arrived) -> Answer:
        """Return the answer to a sync once it is durable; raise what went wrong with it."""
        ...

    async def check(self, seconds: float) -> None:
        """Raise StoreError unless it says in time that it could merge something now.

        The first time, that makes everything ready too, which may take longer.
        """
        ...

    async def stop(self, seconds: float) -> bool:
        """Wait for what was begun, but no longer than that; say whether it came to an end."""
        ...


class Asked:
    """Those who wait for an answer, by number."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._empty: asyncio.Future[None] | None = None  # while somebody waits for that

    def ask(self) -> tuple[int, asyncio.Future[Answer]]:
        """Return a new number, and the answer to come."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        return number, answer

    def settle(self, merged: Merged) -> None:
        """Give all those their answers who are told of."""
        given = merged.outcomes
        for place, number in enumerate(merged.numbers):
            outcome = given if isinstance(given, Exception) else given[place]
            _settle(self._waiting.pop(number), outcome)
        self._look()

    def fail(self, error: Exception) -> None:
        """Tell everybody that nothing will come."""
        while self._waiting:
            _settle(self._waiting.popitem()[1], error)
        self._look()

    async def finish(self, seconds: float) -> bool:
        """Wait until everything asked is settled, but no longer than that; say whether it is.

        Also what was asked by those who are gone: it is being done all the same.
        """
        self._empty = asyncio.get_running_loop().create_future()
        self._look()
        await asyncio.wait({self._empty}, timeout=seconds)
        return self._empty.done()

    def _look(self) -> None:
        if self._empty is not None and not self._empty.done() and not self._waiting:
            self._empty.set_result(None)


def _settle(answer: asyncio.Future[Answer], outcome: Outcome | Exception) -> None:
    if answer.done():  # whoever asked is gone
        return
    if isinstance(outcome, Answer):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


class NotInTime(StoreError):
    """Nobody has said in time whether the store can be written: merging may just take long."""


def trouble_with(store: Store) -> str:
    """Return why a store cannot be written; nothing if it can."""
    try:
        store.ping()
    except LocalError as error:
        return str(error)
    return ""


async def looked(looking: asyncio.Future[str], seconds: float) -> None:
    """Wait for ``trouble_with`` a store; raise StoreError if there is any, NotInTime if need be."""
    await asyncio.wait({looking}, timeout=seconds)
    if not looking.done():
        got, expected = f"no answer for {seconds:g} seconds", "one that says it can merge"
        fix = "See what it waits for, or how much there is to merge."
        raise NotInTime(complaint("merging", got=got, expected=expected, fix=fix))
    if trouble := looking.result():
        raise StoreError(trouble)


def has_merged(merged: Merged) -> bool:
    """Say whether a batch has changed the model: not if all of it were copies, or refused."""
    given = merged.outcomes
    return not isinstance(given, Exception) and any(
        isinstance(each, Answer) and each.merged for each in given
    )


class ThreadMerges:
    """Merging in threads of this process: for a coordinator that is part of a program."""

    def __init__(self, store: Store) -> None:
        self.batches: Counter[str] = Counter()
        self._store, self._asked = store, Asked()
        self._pool = ThreadPoolExecutor(store.writers, "fedbandit-merge")
        self._mergers: dict[ModelRef, Merger] = {}
        self._looking: asyncio.Future[str] | None = None

    async def take(self, ref: ModelRef, arrived: Arrived) -> Answer:
        """Have a sync taken in by a thread."""
        if ref not in self._mergers:
            loop = asyncio.get_running_loop()

            def tell(merged: Merged) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._told, merged)

            self._mergers[ref] = Merger(self._store, ref, self._pool.submit, tell)
        number, answer = self._asked.ask()
        self._mergers[ref].put(number, arrived)
        return await answer

    async def check(self, seconds: float) -> None:
        """Have a thread write to the store; those who ask while it does so share the outcome."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(trouble_with, self._store))
        await looked(self._looking, seconds)

    async def stop(self, seconds: float) -> bool:
        """End the threads, if what they do comes to an end."""
        finished = await self._asked.finish(seconds)
        self._pool.shutdown(wait=finished, cancel_futures=True)
        return finished

    def _told(self, merged: Merged) -> None:
        self.batches[merged.ref.model] += has_merged(merged)
        if isinstance(merged.outcomes, Reborn | UnknownName):
            self._mergers.pop(merged.ref, None)
        self._asked.settle(merged)
