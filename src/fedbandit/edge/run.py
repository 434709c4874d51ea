"""Run a sidecar until it is told to stop."""

import socket
from collections.abc import Callable

import uvicorn

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import make_app
from fedbandit.errors import InvalidParameter, complaint


def serve(agent: ConnectedAgent, *, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, close the agent and return."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle on, and every answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        agent.close()
        expected, fix = "an address of this machine, free", "Choose another address or port."
        message = complaint("listen", got=str(error), expected=expected, fix=fix)
        raise InvalidParameter(message) from error
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{listener.getsockname()[1]}")
    config = uvicorn.Config(
        make_app(agent),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run(sockets=[listener])
