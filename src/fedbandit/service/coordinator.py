"""The coordinator without HTTP: checks tokens, finds models, has syncs merged, reads states."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal, TypeVar

from fedbandit import wire
from fedbandit.errors import InvalidParameter, InvalidState, LocalError, UnknownName
from fedbandit.service.access.attempts import Attempts
from fedbandit.service.access.audit import AuditLog
from fedbandit.service.access.authentication import Authentication
from fedbandit.service.admission import Turns
from fedbandit.service.board.board import Board
from fedbandit.service.board.traffic import Told, TrafficTally
from fedbandit.service.bookkeeping.token import MOST_TOKENS, Token, TooManyTokens
from fedbandit.service.merging.sync import (
    Answer,
    ModelGone,
    ModelRef,
    NotInTime,
    SyncMerger,
    SyncRequest,
    WorkerExited,
)
from fedbandit.service.merging.threads import ThreadMerger
from fedbandit.service.metrics import Metrics, measured
from fedbandit.service.models.downloads import Downloads, Made
from fedbandit.service.models.model import Served, recipe_of
from fedbandit.service.refusal import (
    QUOTA,
    Refusal,
    not_now,
    other_format,
    quarantined,
    too_many,
    too_often,
    unauthorised,
)
from fedbandit.service.relay.upstream import Relays
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.tokens import token_of

T = TypeVar("T")
_How = Literal["read", "written"]
_NOTE_SECONDS = 60.0
_TRAFFIC_A_NOTE = 12
_REMEMBERED = 20_000
_START_SECONDS, _READY_SECONDS = 615.0, 5.0  # for a check; the first one starts and compiles
_RESTART_SECONDS, _LOOK_SECONDS = 10.0, 0.1  # with the pauses in between, some five workers
_READY_FOR = 1.0
_LAST_SECONDS = 1.0  # for batches under way when all connections are closed
_FRUITLESS = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.GONE, HTTPStatus.CONFLICT)
_log = logging.getLogger("fedbandit.service")


class Coordinator:
    """Serves the models of one store. All methods run in the event loop; the store in threads.

    ``merger`` has uploads merged; by default in threads of this process.

    ``told_to_stop`` says whether the program has been asked to end, ``has_room`` whether another
    connection would be served, ``connection_gauges`` what metrics tell of them. ``relays`` are
    told once something has to be passed on to a coordinator above, and stopped at the end.
    ``audit`` is told what was done, and closed at the end. ``abandoned`` is True once it has
    stopped with a thread still waiting for the store.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        merger: SyncMerger | None = None,
        told_to_stop: Callable[[], bool] = lambda: False,
        has_room: Callable[[], bool] = lambda: True,
        connection_gauges: Callable[[], Mapping[str, float]] = dict,
        relays: Relays | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.settings, self.metrics, self.turns = settings, Metrics(), Turns(settings)
        self.traffic = TrafficTally()
        self.abandoned = False
        self._told_to_stop, self._has_room, self._connection_gauges = (
            told_to_stop,
            has_room,
            connection_gauges,
        )
        self._relays = relays or Relays()
        self._stopped = False
        self._store = store
        self._reads = ThreadPoolExecutor(4, "fedbandit-read")
        self._merger = merger or ThreadMerger(store)
        self._asking: set[Future[Any]] = set()
        self.authentication, self.audit = Authentication(store, settings, self._asked), audit
        self._models: dict[str, tuple[float, Served]] = {}
        self._downloads = Downloads()
        self._held_back: dict[tuple[ModelRef, str], tuple[float, Refusal]] = {}
        self._fruitless = Attempts(most=settings.fruitless)
        self._away: set[_How] = set()
        self._ready_until = 0.0
        self._readying: asyncio.Task[None] | None = None
        self.board = Board(store, self._asked)

    @property
    def stopping(self) -> bool:
        """Whether new syncs are refused because it is about to end."""
        return self._stopped or self._told_to_stop()

    async def enrol(self, given: Token, digest: bytes) -> Token:
        """Store another token of an agent, which showed a code or a token, and return it.

        A code is used up by that. A token stays good for ``overlap_seconds``, so that an answer
        that is lost leaves the agent with one that is good. Raises Refusal (401) if what was given
        has been used up meanwhile, 409 if this digest is there already.
        """
        made = token_of(digest, model=given.model, agent=given.agent, lifetime=given.lifetime)
        ends = None if given.code else time.time() + self.settings.overlap_seconds
        try:
            there = await self._asked(lambda: self._store.succeed(given.digest, made, ends=ends))
        except InvalidParameter as error:
            raise Refusal(HTTPStatus.CONFLICT, "digest", "it is there already") from error
        except TooManyTokens as error:
            message = f"it has more than {MOST_TOKENS} tokens; revoke some, or let them expire"
            raise too_many("agent", message) from error
        self.authentication.forget(given.digest)
        if not there:
            raise unauthorised()
        return made

    async def note_uses(self) -> None:
        """Write down now and then which tokens were used, and traffic, until it is cancelled."""
        while True:
            for _ in range(_TRAFFIC_A_NOTE):
                await asyncio.sleep(_NOTE_SECONDS / _TRAFFIC_A_NOTE)
                await self._note_traffic()
            await self._note_uses()

    async def _note_traffic(self) -> None:
        traffic = self.traffic.take()
        if traffic:
            try:
                await self._asked(lambda: self._store.add_traffic(traffic))
            except Refusal:  # the store is away, which is told elsewhere
                self.traffic.put_back(traffic)

    async def _note_uses(self) -> None:
        uses = self.authentication.take_uses()
        if uses:
            with suppress(Refusal):  # the store is away, which is told elsewhere
                await self._asked(lambda: self._store.note_uses(uses))

    async def served(self, name: str) -> Served:
        """Return a model; raise Refusal (404) if there is none."""
        until, known = self._models.get(name, (0.0, None))
        if known is not None and until > time.monotonic():
            return known
        try:
            model = await self._asked(lambda: self._store.model(name))
        except UnknownName as error:
            raise self._gone(name, error) from error
        if known is None or known.model.incarnation != model.incarnation:
            known = await self._asked(lambda: Served(model, recipe_of(model)))
        self._models[name] = (time.monotonic() + self.settings.remember_seconds, known)
        return known

    async def sync(self, served: Served, agent: str, body: bytes, *, token: bytes | None) -> Answer:
        """Merge an upload, exactly once and durably, and return the answer.

        ``token`` is the digest that ``admit`` returned; it is looked up again in the transaction.
        An agent over its quota, or in quarantine, that comes again within ``remember_seconds`` is
        not merged for at all, nor are copies of one in quarantine answered as often: asking in a
        loop costs the others little.
        """
        ref = ModelRef(served.model.name, served.model.incarnation)
        until, held_back = self._held_back.get((ref, agent), (0.0, None))
        if held_back is not None and until > time.monotonic():
            raise held_back.again()
        asking = self._may_ask(served, agent)
        try:
            answer = await self._merger.take(ref, SyncRequest(agent, body, token))
        except Refusal as refusal:
            if refusal.status in _FRUITLESS:
                self._fruitless.allow(asking)
            if refusal.status is HTTPStatus.UNAUTHORIZED and token is not None:
                self.authentication.forget(token)
            elif refusal.field == QUOTA or refusal.status is HTTPStatus.FORBIDDEN:
                self._hold_back((ref, agent), refusal)
            raise
        except ModelGone as error:
            raise self._replaced(served.model.name) from error
        except LocalError as error:
            raise self._store_away("written", error) from error
        if answer.merged:
            self._store_back("written")
        else:
            self._fruitless.allow(asking)
        if answer.quarantined:
            self._hold_back((ref, agent), quarantined())
        if answer.due:
            self._relays.pass_on(ref.model)
        return answer

    async def joined(
        self,
        served: Served,
        agent: str,
        have: str | None,
        form: int = wire.FORMAT,
        since: int | None = None,
    ) -> Told:
        """Return what an agent needs to join, or to catch up from a download with this digest.

        With ``since``, the download is left out unless the model was set back after that version,
        or has not reached it.
        Raises Refusal (409) where agents of this format of the wire could not build the recipe.
        """
        name, params = served.model.name, served.params_in(form)
        if params is None:
            raise other_format(form)
        asking = self._may_ask(served, agent)

        def read() -> Told:
            model, digest = self._store.outline(name)
            if model.incarnation != served.model.incarnation:
                raise ModelGone
            lives = self._store.merged_uploads(name, agent).known
            head = served.fingerprints[form], model.recipe, params, model.limits
            if since is not None and model.set_back <= since <= model.version:
                joined = wire.Joined(*head, None, lives, "", form, model.set_back)
                return Told(wire.encode_joined(joined), False, None)
            made = self._downloaded(served, digest)
            if made.download.version != model.version:  # written since; was something taken out?
                model, _ = self._store.outline(name)
            has = have in made.digests.values()  # also of the bytes in a former format
            download, left = (None, made.digests[form]) if has else (made.download, "")
            joined = wire.Joined(*head, download, lives, left, form, model.set_back)
            body = wire.encode_joined(joined, download=made.encoded[form])
            return Told(body, not has, made.download.version)

        try:
            told = await self._asked(read)
        except UnknownName as error:
            raise self._gone(name, error) from error
        except ModelGone as error:
            raise self._replaced(name) from error
        if told.version is not None:
            self._fruitless.allow(asking)
        return told

    async def ready(self) -> None:
        """Raise Refusal (503) unless a sync would be answered now.

        That takes a write to the store, and asking needs no token. So a yes is good for a second,
        and requests that come during a write share its result.
        """
        if self.stopping:
            raise not_now("coordinator", "it is stopping")
        if not self._has_room():
            raise not_now("coordinator", "no other connection would be served")
        self.turns.check_queue()
        if time.monotonic() < self._ready_until:
            return
        if self._readying is None or self._readying.done():
            self._readying = asyncio.create_task(self._try_a_write())
        await asyncio.shield(self._readying)

    async def _try_a_write(self) -> None:
        await self._asked(self._store.models)
        try:
            await self._merger.check(_READY_SECONDS)
        except NotInTime as error:
            raise not_now("coordinator", str(error)) from error
        except LocalError as error:
            raise self._store_away("written", error) from error
        self._store_back("written")
        self._ready_until = time.monotonic() + _READY_FOR

    async def metrics_text(self) -> str:
        """Return the metrics."""
        await self._note_traffic()
        models = await self._asked(lambda: measured(self._store))
        gauges = {"fedbandit_waiting": float(self.turns.queued), **self._connection_gauges()}
        gauges |= self._relays.gauges()
        return self.metrics.text(models, gauges, batches=self._merger.batches)

    async def start(self) -> None:
        """Make everything ready for the first sync; raise StoreError if that fails.

        A worker that is killed while it starts is started again, a few times.
        """
        give_up = time.monotonic() + _RESTART_SECONDS
        while True:
            try:
                await self._merger.check(_START_SECONDS)
                return
            except WorkerExited:
                if self.stopping or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        """Finish what was accepted, unless the store keeps it waiting, and close the store.

        What is given up was not acknowledged: its senders will send it again.
        """
        self._stopped = True
        await asyncio.to_thread(self._relays.stop)
        await self._note_traffic()
        await self._note_uses()
        finished = await self._merger.stop(_LAST_SECONDS)
        self.abandoned = not finished or any(not each.done() for each in [*self._asking])
        self._reads.shutdown(wait=not self.abandoned, cancel_futures=True)
        self._store.close()
        if self.audit is not None:
            await asyncio.to_thread(self.audit.close)

    def _may_ask(self, served: Served, agent: str) -> str:
        """Return by what name an agent's requests are counted that change nothing.

        Raises Refusal (429) if there were too many of them.
        """
        asking = f"{served.model.name}/{agent}"
        if not self._fruitless.are_left(asking):
            raise too_often()
        return asking

    def _hold_back(self, who: tuple[ModelRef, str], refusal: Refusal) -> None:
        if len(self._held_back) >= _REMEMBERED:
            self._held_back.clear()
        until = time.monotonic() + min(self.settings.remember_seconds, refusal.retry_after)
        self._held_back[who] = until, refusal

    async def _asked(self, ask: Callable[[], T]) -> T:
        """Run a question to the store in a thread and return its answer."""
        try:
            asking = self._reads.submit(ask)
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
            answer = await asyncio.wrap_future(asking)
        except (UnknownName, InvalidParameter):
            raise
        except LocalError as error:
            raise self._store_away("read", error) from error
        self._store_back("read")
        return answer

    def _downloaded(self, served: Served, digest: bytes) -> Made:
        """Return what agents are to be told of the state with this digest, or of a later one."""

        def read() -> tuple[bytes, bytes]:
            model, state = self._store.state(served.model.name)
            if model.incarnation != served.model.incarnation:
                raise ModelGone
            return state, model.told

        try:
            return self._downloads.of(served, digest, read)
        except InvalidState as error:
            raise not_now("model", "its state cannot be read") from error

    def _gone(self, name: str, error: UnknownName) -> Refusal:
        """Forget a model that does not exist, or not any more."""
        self._models.pop(name, None)
        return Refusal(HTTPStatus.NOT_FOUND, "model", str(error))

    def _replaced(self, name: str) -> Refusal:
        """Forget a model of which another incarnation may be there now."""
        self._models.pop(name, None)
        return not_now("model", "the model was deleted or made anew; join again")

    def _store_away(self, how: _How, error: LocalError) -> Refusal:
        """Return the answer while the store fails; log the first failure of a kind."""
        self.metrics.count("fedbandit_store_errors_total")
        if how not in self._away:
            self._away.add(how)
            _log.error("the store cannot be %s: %s", how, error)
        return not_now("store", "it cannot be read or written for now")

    def _store_back(self, how: _How) -> None:
        if how in self._away:
            self._away.discard(how)
            _log.warning("the store can be %s again", how)
