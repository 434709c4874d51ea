"""The models of a store that are passed on to a coordinator above, each by a thread of its own."""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedbandit import wire
from fedbandit.client.connecting import token_source
from fedbandit.client.delivery.background import BackgroundThread
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.state.directory import recipe_of as recipe_named
from fedbandit.client.transport import HttpTransport, Transport
from fedbandit.core.recipe import Recipe
from fedbandit.errors import DataError
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS
from fedbandit.service.models.model import DEFAULT_LIMITS, new_model, recipe_of
from fedbandit.service.relay.relayed import Relayed
from fedbandit.service.relay.sender import RelaySender
from fedbandit.service.storage.contract import Locked, Store
from fedbandit.terms import check_agent_name, check_name
from fedbandit.wire import Limits

WAIT = 60.0
"""Seconds after which what waits is passed on, due or not; or news are asked for, if none does."""

_TIMEOUT = 10.0
_LAST_SECONDS = 2.0  # for an exchange under way when told to stop
_NO_QUOTAS = (
    "model %s has no quotas here. All agents below this relay share what the coordinator above "
    "lets it send: to bound one of them, fedbandit model set %s --hourly-observations N"
)
_log = logging.getLogger("fedbandit.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """The coordinator above, and which models are passed on to it.

    ``models`` are their names, each with the path of the file that holds its token; None if the
    coordinator above asks for none. ``agent`` is what this coordinator is called there. ``wait``:
    see ``WAIT``. ``cafile`` and ``insecure`` as for ``fedbandit.connect``.
    """

    url: str
    agent: str
    models: Mapping[str, Path | None] = field(default_factory=dict)
    wait: float = WAIT
    cafile: str | None = None
    insecure: bool = False

    def transport(self, model: str) -> HttpTransport:
        """Return a connection to the coordinator above on behalf of one model."""
        return HttpTransport(
            self.url,
            model=check_name("model", model),
            agent=check_agent_name(self.agent),
            token=token_source(self.models[model]),
            timeout=_TIMEOUT,
            cafile=self.cafile,
            insecure=self.insecure,
        )


class Relays:
    """The threads that pass models on. ``pass_on`` may be called from any thread."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[RelaySender, Delivery, BackgroundThread]] = {}
        self._idle: set[str] = set()

    def add(self, model: str, sender: RelaySender, transport: Transport) -> None:
        """Start to pass a model on."""
        delivery = Delivery(sender, transport)
        thread = BackgroundThread(delivery, name=f"upstream of {model}")
        self._running[model] = sender, delivery, thread
        thread.start()

    def pass_on(self, model: str) -> None:
        """Let the thread of a model look for something to send; say once if there is none."""
        if model in self._running:
            sender, _, thread = self._running[model]
            sender.wake()
            thread.wake()
        elif model not in self._idle:
            self._idle.add(model)
            said = "is passed on to a coordinator above, but not by this one: --upstream is missing"
            _log.warning("model %s %s; what its agents send waits", model, said)

    def gauges(self) -> dict[str, float]:
        """Return what metrics tell of the coordinator above; nothing if there is none."""
        running = self._running.values()
        if not running:
            return {}
        deliveries = [delivery for _, delivery, _ in running]
        return {
            "fedbandit_upstream_uploads": float(sum(each.uploads for each in deliveries)),
            "fedbandit_upstream_bytes_up": float(sum(each.bytes_up for each in deliveries)),
            "fedbandit_upstream_bytes_down": float(sum(each.bytes_down for each in deliveries)),
            "fedbandit_upstream_troubled": float(sum(bool(each.trouble) for *_, each in running)),
        }

    def stop(self) -> None:
        """End the threads. What was not acknowledged is in the store, and is sent next time."""
        end = time.monotonic() + _LAST_SECONDS
        threads = [thread for *_, thread in self._running.values()]
        for thread in threads:
            thread.stop(0.0)
        for thread in threads:
            thread.stop(max(0.0, end - time.monotonic()))


def prepare(store: Store, above: Above) -> dict[str, Recipe]:
    """Make every model ready to be passed on, and return their recipes, by name.

    A model that is not in the store yet is made as the coordinator above says, which has to answer
    for that. One that is there has to be empty, or passed on already. Raises DataError otherwise.
    """
    there = {each.name for each in store.models()}
    for name in above.models:
        if name not in there:
            _make(store, name, above.transport(name))
        with store.lock(name) as locked:
            if locked.relaying() is None:
                begin(locked)
            if locked.model.quotas == NO_QUOTAS:
                _log.info(_NO_QUOTAS, name, name)
    return {name: recipe_of(store.model(name)) for name in above.models}


def start_relays(relays: Relays, store: Store, above: Above, recipes: Mapping[str, Recipe]) -> None:
    """Start to pass models on that ``prepare`` has made ready."""
    for name, recipe in recipes.items():
        sender = RelaySender(store, name, recipe, wait=above.wait)
        relays.add(name, sender, above.transport(name))


def _make(store: Store, name: str, transport: Transport) -> None:
    """Make a model as the coordinator above has it."""
    try:
        answer = wire.decode_joined(transport.exchange(wire.state_path()))
    finally:
        transport.close()
    given = answer.limits
    count = min(given.count, DEFAULT_LIMITS.count)
    limits = Limits(arm_norm=given.arm_norm, reward=given.reward, count=count)
    recipe = recipe_named(answer.recipe, answer.params)
    store.create(*new_model(name, recipe, limits=limits, history=History(keep=0)))


def begin(locked: Locked) -> None:
    """Have a model that has merged nothing passed on from now on."""
    model = locked.model
    if model.version or (model.groups and not model.watched):
        raise DataError(
            f"Model {model.name} cannot be passed on: it has "
            f"{'merged something already' if model.version else 'groups of agents'}. Delete it, "
            "and it is made anew as the coordinator above has it; or give the relay another store."
        )
    if model.groups:  # nobody asked for these, and they are for the coordinator above
        limits, quotas, history = model.limits, model.quotas, model.history
        locked.set_rules(limits=limits, quotas=quotas, history=history, groups=0)
    recipe = recipe_of(model)
    relayed, whole = Relayed.fresh(recipe, os.urandom(wire.LIFE_BYTES)), recipe.server()
    stored = relayed.stored()
    whole.adopt(whole.statistics, version=1)
    locked.write_relaying(outbox=stored.outbox, base=stored.base)
    locked.write(state=wire.encode(whole.whole()), version=1, count=0, merged={})
