"""Listen at an address, configure uvicorn, and stop on signals."""

import signal
import socket
import sys
from dataclasses import replace
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from fedbandit.errors import InvalidParameter, complaint
from fedbandit.web.connections import ConnectionBounds
from fedbandit.web.gate import NoteRequests
from fedbandit.web.stopping import AnswerCutOff

if sys.platform != "win32":
    import resource

LONGEST_HEAD: Final = 2**14
"""Bytes of the head of a request, and one read more: what has no end by then is refused."""
_BACKLOG = 4096
_OTHER_HANDLES = 100  # for the store, the event loop, the log
_FEWEST_HANDLES = 24  # for connections
_UNSENT = 2**16  # bytes of answers that the system keeps for a client that does not read them
_SELECTED = 200  # of the 512 sockets that Windows can wait for, and as many that wait


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise InvalidParameter if the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle's algorithm on: 40 ms per answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections have it from here
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        listener.close()
        message = f"cannot listen on {host}:{port}: {error}. Choose another address or port."
        raise InvalidParameter(message) from error
    return listener


def within_handles(bounds: ConnectionBounds, *, gates: int = 1) -> ConnectionBounds:
    """Let this process open as many files as it may; return bounds that leave some for others.

    ``gates``: how many servers with these bounds there are in the process. Raises InvalidParameter
    if it may open too few to serve a single one.
    """
    if sys.platform == "win32":
        return replace(bounds, connections=_SELECTED, newcomers=_SELECTED // 2, waiting=_SELECTED)
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return bounds
    each = (most - _OTHER_HANDLES) // gates
    if each < _FEWEST_HANDLES:
        fewest = f"{_OTHER_HANDLES + gates * _FEWEST_HANDLES} or more"
        fix = "Raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit."
        raise InvalidParameter(complaint("open files", got=str(most), expected=fewest, fix=fix))
    connections = min(bounds.connections, each // 2)
    waiting = min(bounds.waiting, each - connections)
    newcomers = min(bounds.newcomers, connections // 2)
    return replace(bounds, connections=connections, newcomers=newcomers, waiting=waiting)


def url_of(listener: socket.socket, *, secure: bool = False) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def uvicorn_config(app: Starlette, *, stop_seconds: int, **options: Any) -> uvicorn.Config:
    """Return a configuration without a log line per request and without a Server header.

    Requests that run when uvicorn is told to stop have ``stop_seconds`` left, and then get 503.
    ``options`` are further ones of ``uvicorn.Config``.
    """
    return uvicorn.Config(
        NoteRequests(AnswerCutOff(app)),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        timeout_graceful_shutdown=stop_seconds,
        **options,
    )


def stop_on_signals(server: uvicorn.Server) -> None:
    """Let SIGINT and SIGTERM stop a server that has not started yet, and return when it is done.

    While it serves, uvicorn has handlers of its own; at the end it raises the signal again, which
    these handlers catch, so that the program goes on. To be called in the main thread.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
