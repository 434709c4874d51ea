"""Bounds on requests under way, over all agents and for each of them.

A request holds one of its agent's few turns from its head to its answer. It enters the queue, which
all agents share, only with its whole body: slow senders do not fill the queue, and one agent takes
up no more of it than its own turns.

Bodies that are still arriving take memory too. When all of them together take more than the queue
may, those larger than their share are refused, so that small ones still arrive beside many slow
large ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Literal, TypeVar

from fedbandit.service.refusal import not_now, too_many
from fedbandit.service.settings import Settings

T = TypeVar("T")


class Turns:
    """Counts requests; used by one thread, that of the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._talking: dict[tuple[str, str, str], int] = {}
        self.queued, self._bytes = 0, 0
        self._bodies, self._arriving = 0, 0

    def check_queue(self, size: int = 0) -> None:
        """Raise Refusal (503) if the queue has no place for another body of this size."""
        crowded = self.queued > 0 and self._bytes + size > self._settings.queue_bytes
        if crowded or self.queued >= self._settings.queue:
            raise not_now("coordinator", "too many syncs are under way")

    def talking(
        self, model: str, agent: str, about: Literal["model", "token"] = "model"
    ) -> "_Held[tuple[str, str, str]]":
        """Hold one of an agent's turns; raise Refusal (429) if it holds all of them already.

        It has as many to exchange its token: a sync that hangs does not keep it from that.
        """
        who = model, agent, about
        if self._talking.get(who, 0) >= self._settings.turns:
            raise too_many("agent", "this agent has as many requests under way as it may have")
        self._talking[who] = self._talking.get(who, 0) + 1
        return _Held(self._leave, who)

    @contextmanager
    def arriving(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a body: the block calls what it is given with the size of each chunk.

        That raises Refusal (503) if they are too many. All bodies together never take more than
        twice what the queue may, except a body that is alone.
        """
        mine, most = 0, self._settings.queue_bytes

        def note(size: int) -> None:
            nonlocal mine
            crowded = self._bodies > 1 and self._arriving + size > most
            full = self._bodies > 1 and self._arriving + size > 2 * most
            if full or (crowded and (mine + size) * self._bodies > most):
                raise not_now("coordinator", "too many bytes are under way")
            mine += size
            self._arriving += size

        self._bodies += 1
        try:
            yield note
        finally:
            self._bodies -= 1
            self._arriving -= mine

    def waiting(self, size: int) -> "_Held[int]":
        """Hold a place in the queue for a body of this size; raise Refusal (503) if it is full."""
        self.check_queue(size)
        self.queued += 1
        self._bytes += size
        return _Held(self._unqueue, size)

    def _leave(self, who: tuple[str, str, str]) -> None:
        self._talking[who] -= 1
        if not self._talking[who]:
            del self._talking[who]

    def _unqueue(self, size: int) -> None:
        self.queued -= 1
        self._bytes -= size


class _Held(Generic[T]):
    """A context manager that gives back what it holds when the block ends."""

    __slots__ = ("_give_back", "_what")

    def __init__(self, give_back: Callable[[T], None], what: T) -> None:
        self._give_back, self._what = give_back, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._give_back(self._what)
