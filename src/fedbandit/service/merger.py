"""The queue before a model: what arrives while a batch is being merged makes up the next one."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Lock
from typing import Final

from fedbandit.service.batch import Reborn
from fedbandit.service.intake import Arrived, Intake, Outcome
from fedbandit.service.model import Served, recipe_of
from fedbandit.service.store import Store

BATCH: Final = 64  # uploads merged in one transaction, at most


@dataclass(frozen=True, slots=True)
class Address:
    """A model's name, and the incarnation that is meant."""

    model: str
    incarnation: str


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What became of a batch, for each of the numbers in it; or why that is not known."""

    address: Address
    numbers: Sequence[int]
    outcomes: Sequence[Outcome] | Exception


class Merger:
    """Has the syncs of one model taken in, batch by batch, by a thread of a pool; tells of each.

    A thread is taken while something waits, so that a model that has to wait for the store keeps no
    other one waiting. ``tell`` is called in that thread.
    """

    def __init__(
        self, store: Store, address: Address, pool: Executor, tell: Callable[[Merged], None]
    ) -> None:
        self._store, self._address, self._pool, self._tell = store, address, pool, tell
        self._lock, self._busy = Lock(), False
        self._waiting: deque[tuple[int, Arrived]] = deque()
        self._intake: Intake | None = None

    def put(self, number: int, arrived: Arrived) -> None:
        """Queue a sync, under a number to tell of it by."""
        with self._lock:
            self._waiting.append((number, arrived))
            if self._busy:
                return
            self._busy = True
        self._pool.submit(self._work)

    def _work(self) -> None:
        while taken := self._next():
            numbers, arrived = zip(*taken, strict=True)
            self._tell(Merged(self._address, numbers, self._outcomes(arrived)))

    def _next(self) -> list[tuple[int, Arrived]]:
        with self._lock:
            most = min(len(self._waiting), BATCH)
            taken = [self._waiting.popleft() for _ in range(most)]
            self._busy = bool(taken)
        return taken

    def _outcomes(self, arrived: Sequence[Arrived]) -> Sequence[Outcome] | Exception:
        try:
            self._intake = self._intake or self._opened()
            return self._intake.take(arrived)
        except Exception as error:  # whoever waits is told; the next batch may fare better
            return error

    def _opened(self) -> Intake:
        model = self._store.model(self._address.model)
        if model.incarnation != self._address.incarnation:
            raise Reborn
        return Intake(self._store, Served(model, recipe_of(model)))
