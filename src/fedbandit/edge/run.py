"""Run a sidecar until it is told to stop."""

from collections.abc import Callable, Iterable

import uvicorn

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import make_app
from fedbandit.edge.names import Names
from fedbandit.errors import InvalidParameter
from fedbandit.web.listening import configured, listening, url_of


def serve(
    agent: ConnectedAgent,
    *,
    host: str,
    port: int,
    allowed: Iterable[str] = (),
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, close the agent and return.

    ``allowed`` are names to answer to besides this machine's own.
    """
    try:
        listener = listening(host, port)
    except InvalidParameter:
        agent.close()
        raise
    announce(url_of(listener))
    names = Names(listen=host, allowed=frozenset(name.lower() for name in allowed))
    server = uvicorn.Server(configured(make_app(agent, names), stop_seconds=5))
    server.run(sockets=[listener])
