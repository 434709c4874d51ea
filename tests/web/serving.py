"""A small server behind a gate, in this process, for tests of what stands before uvicorn."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedbandit.web.connections import ConnectionBounds
from fedbandit.web.docs_page import docs_routes
from fedbandit.web.gate import Gate, Patience, admit, serve_behind
from fedbandit.web.listening import listen, uvicorn_config

ABOUT = {"info": {"title": "x", "description": "x"}, "paths": {}}


async def _size(request: Request) -> Response:
    """Answer with the size of the body; a connection that asks for it is known at once."""
    if "admit" in request.query_params:
        admit(request.scope)
    return Response(str(len(await request.body())))


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a port while a block runs."""
    routes = [Route("/size", _size, methods=["POST"]), *docs_routes(ABOUT)]
    config = uvicorn_config(Starlette(routes=routes), stop_seconds=1)
    config.load()
    server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    gate = Gate(listener, config, bounds=ConnectionBounds(), patience=Patience(), tls=tls)
    running = asyncio.create_task(serve_behind([gate], server))
    while not (server.started and server.servers):
        await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        await running


async def answer_to(pieces: list[bytes], port: int, tls: ssl.SSLContext | None = None) -> bytes:
    """Send pieces on a connection of their own and return what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    return answer


def head_of(method: str, path: str, *fields: str) -> bytes:
    """Return the head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode()


def posted(path: str, size: int, *, chunked: bool, places: list[int]) -> list[bytes]:
    """Return a request with a body of a size, cut at places."""
    told = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    body = b"a" * size
    if chunked:
        pieces = [body[start : start + 999] for start in range(0, size, 999)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in [*pieces, b""])
    whole = head_of("POST", path, told) + body
    ends = sorted({min(each, len(whole)) for each in places} | {0, len(whole)})
    return [whole[a:b] for a, b in pairwise(ends)]
