"""Whoever is cut off by a stop is told so, and when to come back."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fedbandit.web.listening import listen, uvicorn_config


async def _reading(request: Request) -> Response:
    return Response(await request.body())


async def _waiting(_: Request) -> Response:
    await asyncio.sleep(60)
    return Response()


async def _halfway(_: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.sleep(60)

    return StreamingResponse(pieces())


_ENDPOINTS = (_reading, _waiting, _halfway)
ROUTES = [Route(f"/{each.__name__}", each, methods=["POST"]) for each in _ENDPOINTS]


def _said(path: str) -> bytes:
    """Post a body that never ends, tell the server to stop, and return what comes."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn_config(Starlette(routes=ROUTES), stop_seconds=1))
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    address = listener.getsockname()
    thread.start()
    try:
        with socket.create_connection(address, timeout=30) as connection:
            head = f"POST /{path} HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nbod"
            connection.sendall(head.encode())
            while not server.server_state.tasks:
                time.sleep(0.01)
            server.should_exit = True
            return b"".join(iter(lambda: connection.recv(4096), b""))
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("path", ["_reading", "_waiting"])
def test_a_request_that_takes_too_long_gets_503(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = _said(path)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert {b"retry-after: 1", b"connection: close"} <= set(head.lower().split(b"\r\n"))
    assert b"it is stopping" in body
    assert all(record.exc_info is None for record in caplog.records)


def test_an_answer_that_has_begun_is_cut_off() -> None:
    said = _said("_halfway")
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"503" not in said
