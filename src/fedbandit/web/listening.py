"""An open socket at an address, its URL, and how uvicorn serves there."""

import signal
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette

from fedbandit.errors import InvalidParameter, complaint
from fedbandit.web.stopping import NotNowIfCutOff

_BACKLOG = 1024


def listening(host: str, port: int) -> socket.socket:
    """Listen at an address of this machine; raise InvalidParameter where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle on, and every answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:  # a name that cannot be one is not looked up
        listener.close()
        fix, expected = "Choose another address or port.", "an address of this machine, free"
        got = f"{error} at {host}:{port}"
        raise InvalidParameter(complaint("listen", got=got, expected=expected, fix=fix)) from error
    return listener


def url_of(listener: socket.socket, *, secure: bool = False) -> str:
    """Return where a listening socket can be reached."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def configured(app: Starlette, *, stop_seconds: int, **options: Any) -> uvicorn.Config:
    """Return how to serve an application: without log lines of requests or a server's name.

    ``stop_seconds`` is for requests under way when told to stop, which then get 503; ``options``
    are uvicorn's others.
    """
    return uvicorn.Config(
        NotNowIfCutOff(app),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=stop_seconds,
        **options,
    )


def end_quietly(server: uvicorn.Server) -> None:
    """Let SIGINT and SIGTERM stop a server before it serves, and do nothing more once it is done.

    While it serves it has handlers of its own, and raises the signal again in the end. For the main
    thread.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
