"""Run a coordinator until it is told to stop."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from weakref import WeakKeyDictionary

import uvicorn
from starlette.applications import Starlette
from threadpoolctl import threadpool_limits

from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.address import Address, Tls, check_exposure
from fedbandit.service.http.guard import guarded
from fedbandit.service.merging.supervisor import WorkerMerger
from fedbandit.service.merging.warm_up import merge_once
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from fedbandit.web.listening import listen, stop_on_signals, url_of, uvicorn_config

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
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the store at a URL until SIGTERM or SIGINT; then finish what was accepted, and return.

    ``announce`` is called with the address once it can be reached. If the store keeps a thread
    waiting beyond that, the process exits here, as by kill -9: nothing acknowledged is lost.
    """
    check_exposure(address, tls=tls is not None, tokens=not settings.open, insecure=insecure)
    context = tls.context() if tls else None
    store = open_store(url, create=True)
    try:
        listener = _listener(address)
    except BaseException:
        store.close()
        raise
    coordinator = Coordinator(
        store,
        settings,
        merger=WorkerMerger(url),
        told_to_stop=lambda: server.should_exit,
        connected=lambda: len(server.server_state.connections),
    )
    config = _config(guarded(coordinator, address), settings)
    config.load()
    config.ssl = context
    server = uvicorn.Server(config)

    async def run() -> None:
        stop_on_signals(server)
        if await _started(coordinator, told_to_stop=lambda: server.should_exit):
            announce(url_of(listener, secure=tls is not None))
            await _serve(server, listener, idle_seconds=settings.idle_seconds)

    with threadpool_limits(limits=1):  # the same bits on any number of cores, and no spinning
        asyncio.run(run())
    if coordinator.abandoned:
        logging.shutdown()
        os._exit(0)


async def _started(coordinator: Coordinator, *, told_to_stop: Callable[[], bool]) -> bool:
    """Make everything ready and return True; if told to stop meanwhile, stop and return False."""
    starting = asyncio.create_task(_start(coordinator))
    notice = asyncio.get_running_loop().call_later(_PATIENCE, _log.warning, _NOT_YET)
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
    """Start the merge worker, and compile what joining needs in this process."""
    await asyncio.gather(coordinator.start(), asyncio.to_thread(merge_once))


def _config(app: Starlette, settings: Settings) -> uvicorn.Config:
    return uvicorn_config(
        app,
        stop_seconds=int(settings.stop_seconds),
        timeout_keep_alive=_KEEP_ALIVE,
    )


def _listener(address: Address) -> socket.socket:
    return listen(address.host, address.port)


async def _serve(server: uvicorn.Server, listener: socket.socket, *, idle_seconds: float) -> None:
    sweeping = asyncio.create_task(_sweep(server, idle_seconds))
    try:
        await server.serve(sockets=[listener])
    finally:
        sweeping.cancel()


async def _sweep(server: uvicorn.Server, idle_seconds: float) -> None:
    """Cut off connections that never finish the head of a request, or never read their answer."""
    seen: WeakKeyDictionary[object, tuple[object, float]] = WeakKeyDictionary()
    while True:
        await asyncio.sleep(min(1.0, idle_seconds))
        now = asyncio.get_running_loop().time()
        for connection in list(server.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                seen.pop(connection, None)
                continue
            before, since = seen.setdefault(connection, (cycle, now))
            if before is not cycle:
                seen[connection] = (cycle, now)
            elif now - since > idle_seconds:
                connection.transport.abort()
