"""The queue before a model: what arrives while a batch is being merged makes up the next one."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from fedbandit.service.merging.commit import Reborn
from fedbandit.service.merging.intake import Arrived, Intake, Outcome
from fedbandit.service.models.model import Served, recipe_of
from fedbandit.service.storage.contract import Store

Submit = Callable[[Callable[[], None]], object]
BATCH: Final = 64  # uploads merged in one transaction, at most
BATCH_BYTES: Final = 2**23  # after which a batch takes in no more: others wait for their turn


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model's name, and the incarnation that is meant."""

    model: str
    incarnation: str


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What became of a batch, for each of the numbers in it; or why that is not known."""

    ref: ModelRef
    numbers: Sequence[int]
    outcomes: Sequence[Outcome] | Exception


class Merger:
    """Has the syncs of one model taken in, batch by batch, and tells of each.

    A batch is handed to ``submit`` as soon as something waits and none is under way: to a pool of
    threads, so that a model that has to wait for the store keeps no other one waiting, or to
    whoever runs one after another. ``tell`` is called where the batch is run.
    """

    def __init__(
        self, store: Store, ref: ModelRef, submit: Submit, tell: Callable[[Merged], None]
    ) -> None:
        self._store, self._ref, self._submit, self._tell = store, ref, submit, tell
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
        self._submit(self._work)

    def _work(self) -> None:
        """Take in one batch, and have the next one taken in if more came meanwhile."""
        numbers, arrived = zip(*self._next(), strict=True)
        self._tell(Merged(self._ref, numbers, self._outcomes(arrived)))
        with self._lock:
            again = self._busy = bool(self._waiting)
        if again:
            self._submit(self._work)

    def _next(self) -> Iterator[tuple[int, Arrived]]:
        """Take from the queue what makes up a batch: one at least."""
        number, size = 0, 0
        while self._waiting and number < BATCH and size < BATCH_BYTES:
            yield (taken := self._waiting.popleft())
            number, size = number + 1, size + len(taken[1].body)

    def _outcomes(self, arrived: Sequence[Arrived]) -> Sequence[Outcome] | Exception:
        try:
            self._intake = self._intake or self._opened()
            return self._intake.take(arrived)
        except Exception as error:  # whoever waits is told; the next batch may fare better
            return error

    def _opened(self) -> Intake:
        model = self._store.model(self._ref.model)
        if model.incarnation != self._ref.incarnation:
            raise Reborn
        return Intake(self._store, Served(model, recipe_of(model)))
