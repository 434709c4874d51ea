"""Run a coordinator until it is told to stop."""

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import uvicorn
from starlette.applications import Starlette
from threadpoolctl import threadpool_limits

from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter
from fedbandit.service.access.audit import AuditLog
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.address import Address, Tls, check_exposure
from fedbandit.service.http.app import app_of, watching_app
from fedbandit.service.http.guard import guarded
from fedbandit.service.merging.precompile import precompile
from fedbandit.service.merging.supervisor import WorkerMerger
from fedbandit.service.models.agreement import check_agreement
from fedbandit.service.relay.upstream import Above, Relays, prepare, start_relays
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from fedbandit.web.gate import Gate, Patience, serve_behind
from fedbandit.web.listening import (
    listen,
    stop_on_signals,
    url_of,
    uvicorn_config,
    within_handles,
)

_KEEP_ALIVE = 20
_LOOK_SECONDS = 0.1
_PATIENCE = 5.0  # before it says that starting takes long
_NOT_YET = "not ready yet: it compiles, once, or the store keeps it waiting"
_log = logging.getLogger("fedbandit.service")


def serve(
    url: str,
    address: Address,
    *,
    settings: Settings,
    tls: Tls | None = None,
    insecure: bool = False,
    admin: Address | None = None,
    audit: AuditLog | None = None,
    above: Above | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the store at a URL until SIGTERM or SIGINT; then finish what was accepted, and return.

    ``admin``: where to answer operators (the board, /metrics, /readyz, /docs); None: at ``address``
    as well. ``audit`` is told what is done. ``above``: the coordinator that models are passed on
    to, if this is a relay. ``announce`` is called with the address once it can be reached. SIGHUP
    has the certificate's files read again. If the store keeps a thread waiting beyond the end, the
    process exits here, as by kill -9: nothing acknowledged is lost.
    """
    bounds = within_handles(settings.bounds, gates=1 if admin is None else 2)
    settings = replace(settings, bounds=bounds)
    for place in (address, admin):
        if place is not None:
            tokens = not settings.open
            check_exposure(place, tls=tls is not None, tokens=tokens, insecure=insecure)
    context = tls.context() if tls else None
    opened = _opened(url, address, admin, above)
    gates, relays = list[Gate](), Relays()
    coordinator = Coordinator(
        opened.store,
        settings,
        merger=WorkerMerger(url),
        told_to_stop=lambda: server.should_exit,
        has_room=lambda: all(gate.has_room() for gate in gates[:1]),
        connection_gauges=lambda: connection_gauges(gates),
        relays=relays,
        audit=audit,
    )
    server = _server_behind(gates, coordinator, opened, settings, context)

    def begin() -> None:
        if above is not None:
            start_relays(relays, opened.store, above, opened.recipes)
        announce(url_of(opened.listener, secure=tls is not None))

    with threadpool_limits(limits=1):  # the same bits on any number of cores, and no spinning
        asyncio.run(_run(server, coordinator, gates, tls, begin))
    if coordinator.abandoned:
        logging.shutdown()
        os._exit(0)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The store, the recipes of what a relay passes on, and the sockets with their addresses."""

    store: Store
    recipes: Mapping[str, Recipe]
    address: Address
    listener: socket.socket
    admin: Address | None
    watching: socket.socket | None


def _opened(url: str, address: Address, admin: Address | None, above: Above | None) -> _Opened:
    """Open the store and the sockets, all or none."""
    store = open_store(url, create=True, serving="coordinator")
    with ExitStack() as undo:
        undo.callback(store.close)
        check_agreement(store)
        recipes = {} if above is None else prepare(store, above)
        listener = undo.enter_context(listen(address.host, address.port))
        watching = undo.enter_context(listen(admin.host, admin.port)) if admin else None
        undo.pop_all()
    return _Opened(store, recipes, address, listener, admin, watching)


def _server_behind(
    gates: list[Gate],
    coordinator: Coordinator,
    opened: _Opened,
    settings: Settings,
    context: ssl.SSLContext | None,
) -> uvicorn.Server:
    """Return the server of a coordinator, and add the gates that it accepts through.

    On loopback the address for operators has no TLS.
    """
    trusts, admin = coordinator.authentication.knows, opened.admin
    agents = guarded(coordinator, opened.address, app_of(coordinator, watched=admin is None))
    config = uvicorn_config_for(agents, settings)
    gates.append(gate_for(opened.listener, config, settings, context, trusts))
    if admin is not None and opened.watching is not None:
        operators = uvicorn_config_for(
            guarded(coordinator, admin, watching_app(coordinator)), settings
        )
        secure = None if admin.is_loopback else context
        gates.append(gate_for(opened.watching, operators, settings, secure, trusts))
    return uvicorn.Server(config)


async def _run(
    server: uvicorn.Server,
    coordinator: Coordinator,
    gates: Sequence[Gate],
    tls: Tls | None,
    begin: Callable[[], None],
) -> None:
    """Start the coordinator, ``begin``, and serve until told to stop."""
    stop_on_signals(server)
    if tls is not None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, _read_again, tls, gates)
    if await _started(coordinator, told_to_stop=lambda: server.should_exit):
        begin()
        await serve_behind(gates, server)


def connection_gauges(gates: Sequence[Gate]) -> dict[str, float]:
    """Return what metrics tell of connections."""
    connections = [gate.connections for gate in gates]
    return {
        "fedbandit_connections": float(sum(len(each) for each in connections)),
        "fedbandit_connections_waiting": float(sum(each.waiting for each in connections)),
        "fedbandit_connections_cut": float(sum(each.cut for each in connections)),
    }


def _read_again(tls: Tls, gates: Sequence[Gate]) -> None:
    """Use the certificate's files as they are now; go on with the old ones if they cannot be."""
    try:
        context = tls.context()
    except InvalidParameter as error:
        _log.error("the certificate was not changed: %s", error)
        return
    for gate in gates:
        if gate.tls is not None:
            gate.tls = context
    _log.warning("the certificate was read again")


async def _started(coordinator: Coordinator, *, told_to_stop: Callable[[], bool]) -> bool:
    """Make everything ready and return True; if told to stop meanwhile, stop and return False."""
    starting = asyncio.create_task(_start(coordinator))
    notice = asyncio.get_running_loop().call_later(_PATIENCE, _log.info, _NOT_YET)
    while not (starting.done() or told_to_stop()):
        await asyncio.wait({starting}, timeout=_LOOK_SECONDS)
    notice.cancel()
    if starting.done() and not starting.exception() and not told_to_stop():
        return True
    starting.cancel()
    await coordinator.stop()
    await asyncio.wait({starting})
    failure = None if starting.cancelled() else starting.exception()
    if failure and not told_to_stop():
        raise failure
    return False


async def _start(coordinator: Coordinator) -> None:
    """Start the merge worker, which compiles; then load here what joining needs of that."""
    await coordinator.start()
    await asyncio.to_thread(precompile)


def uvicorn_config_for(app: Starlette, settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration for an app of a coordinator with these settings, loaded."""
    config = uvicorn_config(
        app,
        stop_seconds=int(settings.stop_seconds),
        timeout_keep_alive=_KEEP_ALIVE,
    )
    config.load()
    return config


def gate_for(
    listener: socket.socket,
    config: uvicorn.Config,
    settings: Settings,
    tls: ssl.SSLContext | None = None,
    trusts: Callable[[bytes], bool] = lambda _: False,
) -> Gate:
    """Return the gate before a coordinator with these settings."""
    patience = Patience(idle=settings.idle_seconds)
    bounds = settings.bounds
    return Gate(listener, config, bounds=bounds, patience=patience, tls=tls, trusts=trusts)
