"""A stranger's bytes are passed on in turns, so that parsing them keeps nobody else waiting."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedbandit.web.docs_page import _bytes, docs_routes
from fedbandit.web.gate import Gate, Patience, admit, serve_behind
from fedbandit.web.guests import Bounds, Guest
from fedbandit.web.listening import listen, uvicorn_config, within_handles
from fedbandit.web.watched import MOST_LINES, Slices, Watched

ABOUT = {"info": {"title": "x", "description": "x"}, "paths": {}}


async def _size(request: Request) -> Response:
    """Answer with the size of the body; a connection that asks for it is known at once."""
    if "admit" in request.query_params:
        admit(request.scope)
    return Response(str(len(await request.body())))


@asynccontextmanager
async def _serving() -> AsyncIterator[int]:
    """Serve on a port while a block runs."""
    routes = [Route("/size", _size, methods=["POST"]), *docs_routes(ABOUT)]
    config = uvicorn_config(Starlette(routes=routes), stop_seconds=1)
    config.load()
    server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    gate = Gate(listener, config, bounds=Bounds(), patience=Patience())
    serving = asyncio.create_task(serve_behind([gate], server))
    while not (server.started and server.servers):
        await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        await serving


async def _answer(port: int, pieces: list[bytes]) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    return answer


def _head(method: str, path: str, *fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode()


def _cut(whole: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(each, len(whole)) for each in places} | {0, len(whole)})
    return [whole[a:b] for a, b in pairwise(ends)]


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(0, 100_000),
    places=st.lists(st.integers(0, 100_000), max_size=5),
    path=st.sampled_from(["/size", "/size?admit"]),
    chunked=st.booleans(),
)
def test_a_body_arrives_whole_however_it_is_cut(
    size: int, places: list[int], path: str, chunked: bool
) -> None:
    head = _head(
        "POST", path, "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    )
    body = b"a" * size
    if chunked:
        pieces = [body[start : start + 999] for start in range(0, size, 999)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in [*pieces, b""])

    async def run() -> bytes:
        async with _serving() as port:
            return await _answer(port, _cut(head + body, places))

    assert asyncio.run(run()).endswith(b"\r\n\r\n%d" % size)


@pytest.mark.parametrize(("lines", "status"), [(MOST_LINES - 10, b"404"), (MOST_LINES, b"431")])
def test_a_strangers_head_has_so_many_lines(lines: int, status: bytes) -> None:
    async def run() -> bytes:
        async with _serving() as port:
            return await _answer(port, [_head("GET", "/nothing", *["a:"] * lines)])

    assert asyncio.run(run())[9:12] == status


class _Parser(asyncio.Protocol):
    """Notes what it is given, and takes as long as it is told."""

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.took, self.pieces = clock, 0.0, list[int]()
        self.flow = SimpleNamespace(read_paused=False)

    def data_received(self, data: bytes) -> None:
        self.clock[0] += self.took
        self.pieces.append(len(data))


def test_a_connection_that_took_long_once_gets_slices_until_it_was_cheap_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("fedbandit.web.watched.time.monotonic", lambda: clock[0])
    parser, guest = _Parser(clock), Guest("here", 0.0)
    watched = Watched(parser, guest, _Later(), lambda: None)
    watched.connection_made(_Transport())
    guest.known = True
    guest.admitted()

    def given(size: int, took: float) -> list[int]:
        """Return the pieces in which so many bytes are passed on, if each takes as long."""
        parser.took, parser.pieces = took, []
        watched.data_received(bytes(size))
        while watched.pass_on():
            pass
        return parser.pieces

    assert given(30_000, took=0.0001)[0] == 30_000
    assert given(30_000, took=0.2)[0] == 30_000  # a busy machine, or an attack: nobody knows
    assert max(given(100_000, took=0.01)) == 2048
    assert max(given(100_000, took=0.01)) == 2048
    assert max(given(150_000, took=0.0001)) == 2048
    assert given(30_000, took=0.0001)[0] == 30_000


class _Later(Slices):
    """Passes nothing on by itself."""

    def add(self, connection: Watched) -> None:
        del connection


class _Transport(asyncio.Transport):
    max_size = 2**18

    def get_extra_info(self, name: str, default: object = None) -> object:
        del name
        return default

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...


def test_names_of_files_that_do_not_exist_are_not_remembered() -> None:
    async def run() -> None:
        async with _serving() as port:
            await _answer(port, [_head("GET", "/docs/docs.js")])
            before = _bytes.cache_info().currsize
            for number in range(20):
                answer = await _answer(port, [_head("GET", f"/docs/docs.js{number}")])
                assert answer[9:12] == b"404"
            assert _bytes.cache_info().currsize == before

    asyncio.run(run())


def test_what_is_not_read_is_not_kept() -> None:
    """Of a file of 1.5 MB that is asked for and not read, the system has less than a third."""

    async def run() -> int:
        async with _serving() as port:
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(reader, ("127.0.0.1", port))
                await loop.sock_sendall(reader, _head("GET", "/docs/swagger-ui-bundle.js"))
                await loop.sock_recv(reader, 1)
                return await _queued_for(reader.getsockname()[1])

    assert asyncio.run(run()) < 500_000


async def _queued_for(port: int) -> int:
    """Return how many bytes the system keeps for the connection from a port, once that settles."""
    last, same = -1, 0
    while same < 5:
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        mine = [row for row in rows if row[2].endswith(f":{port:04X}")]
        now = sum(int(row[4].partition(":")[0], 16) for row in mine)
        same, last = (same + 1, last) if now == last else (0, now)
        await asyncio.sleep(0.05)
    return last


def test_two_gates_share_the_handles() -> None:
    bounds = Bounds(connections=10**7, newcomers=10**7, waiting=10**7)
    one, two = within_handles(bounds), within_handles(bounds, gates=2)
    assert 2 * (two.connections + two.waiting) <= one.connections + one.waiting + 1
