"""Run a sidecar until it is told to stop."""

from collections.abc import Callable, Iterable

import uvicorn

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import CLOSE_SECONDS, make_app
from fedbandit.errors import InvalidParameter
from fedbandit.web.listening import configured, end_quietly, listening, url_of
from fedbandit.web.names import Names


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
    names = Names(listen=host, allowed=frozenset(name.lower() for name in allowed))
    server = uvicorn.Server(configured(make_app(agent, names), stop_seconds=5))
    end_quietly(server)
    announce(url_of(listener))
    try:
        server.run(sockets=[listener])
    finally:
        agent.close(timeout=CLOSE_SECONDS)  # if it was stopped before it began
