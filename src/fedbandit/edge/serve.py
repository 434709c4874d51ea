"""Run the sidecar until it is told to stop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import uvicorn
from threadpoolctl import threadpool_limits

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import CLOSE_SECONDS, make_app
from fedbandit.errors import InvalidParameter
from fedbandit.web.connections import ConnectionBounds
from fedbandit.web.gate import Gate, Patience, serve_behind
from fedbandit.web.host_names import HostNames
from fedbandit.web.listening import (
    listen,
    stop_on_signals,
    url_of,
    uvicorn_config,
    within_handles,
)

BOUNDS: Final = ConnectionBounds(connections=1024, newcomers=256, per_address=256)
"""All come from this machine, so one address may have all places of newcomers."""
PATIENCE: Final = Patience()


def serve(
    agent: ConnectedAgent,
    *,
    host: str,
    port: int,
    allowed: Iterable[str] = (),
    patience: Patience = PATIENCE,
    shadow: bool = False,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; then finish running requests, close the agent and return.

    ``allowed`` are host names to answer to besides this machine's own, ``patience`` how long to
    wait for a request. ``shadow``: see ``make_app``. ``announce`` is called with the URL.
    """
    try:
        bounds = within_handles(BOUNDS)
        listener = listen(host, port)
    except InvalidParameter:
        agent.close()
        raise
    names = HostNames(listen=host, allowed=frozenset(name.lower() for name in allowed))
    config = uvicorn_config(make_app(agent, names, shadow=shadow), stop_seconds=5)
    config.load()
    gate = Gate(listener, config, bounds=bounds, patience=patience)
    server = uvicorn.Server(config)
    stop_on_signals(server)
    announce(url_of(listener))
    runs = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
    try:
        with threadpool_limits(limits=1), runs as runner:  # more threads wait for each other
            runner.run(serve_behind([gate], server))
    finally:
        agent.close(
            timeout=CLOSE_SECONDS
        )  # does nothing unless the server stopped before it started
