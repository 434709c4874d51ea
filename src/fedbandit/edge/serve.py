"""Run the sidecar until it is told to stop."""

from collections.abc import Callable, Iterable

import uvicorn

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import CLOSE_SECONDS, make_app
from fedbandit.errors import InvalidParameter
from fedbandit.web.host_names import HostNames
from fedbandit.web.listening import listen, stop_on_signals, url_of, uvicorn_config


def serve(
    agent: ConnectedAgent,
    *,
    host: str,
    port: int,
    allowed: Iterable[str] = (),
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; then finish running requests, close the agent and return.

    ``allowed`` are host names to answer to besides this machine's own. ``announce`` is called with
    the URL.
    """
    try:
        listener = listen(host, port)
    except InvalidParameter:
        agent.close()
        raise
    names = HostNames(listen=host, allowed=frozenset(name.lower() for name in allowed))
    server = uvicorn.Server(uvicorn_config(make_app(agent, names), stop_seconds=5))
    stop_on_signals(server)
    announce(url_of(listener))
    try:
        server.run(sockets=[listener])
    finally:
        agent.close(
            timeout=CLOSE_SECONDS
        )  # does nothing unless the server stopped before it started
