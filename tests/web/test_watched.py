"""A stranger's bytes are passed on in turns, so that parsing them keeps nobody else waiting."""

import asyncio
import resource
import socket
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandit.errors import InvalidParameter
from fedbandit.web.connections import Connection, ConnectionBounds
from fedbandit.web.docs_page import file_bytes
from fedbandit.web.listening import within_handles
from fedbandit.web.watched import MOST_LINES, Holding, Slices, Watched
from tests.web.serving import answer_to, head_of, posted, serving


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
    async def run() -> bytes:
        async with serving() as port:
            return await answer_to(posted(path, size, chunked=chunked, places=places), port)

    assert asyncio.run(run()).endswith(b"\r\n\r\n%d" % size)


@pytest.mark.parametrize(("lines", "status"), [(MOST_LINES - 10, b"404"), (MOST_LINES, b"431")])
def test_a_strangers_head_has_so_many_lines(lines: int, status: bytes) -> None:
    async def run() -> bytes:
        async with serving() as port:
            return await answer_to([head_of("GET", "/nothing", *["a:"] * lines)], port)

    assert asyncio.run(run())[9:12] == status


def test_a_head_without_an_end_is_refused_after_so_many_bytes() -> None:
    async def run() -> bytes:
        async with serving() as port:
            return await answer_to([head_of("GET", "/", f"a: {'a' * 20_000}")[:-4]], port)

    assert asyncio.run(run())[9:12] == b"400"


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
    parser, connection = _Parser(clock), Connection("here", 0.0)
    watched = Watched(parser, connection, _Later(), lambda: None)
    watched.connection_made(_Transport())
    connection.known = True
    connection.admitted()

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

    def add(self, connection: Holding, address: str) -> None:
        del connection, address


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
        async with serving() as port:
            await answer_to([head_of("GET", "/docs/docs.js")], port)
            before = file_bytes.cache_info().currsize
            for number in range(20):
                answer = await answer_to([head_of("GET", f"/docs/docs.js{number}")], port)
                assert answer[9:12] == b"404"
            assert file_bytes.cache_info().currsize == before

    asyncio.run(run())


def test_what_is_not_read_is_not_kept() -> None:
    """Of a file of 1.5 MB that is asked for and not read, the system has less than a third."""

    async def run() -> int:
        async with serving() as port:
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(reader, ("127.0.0.1", port))
                await loop.sock_sendall(reader, head_of("GET", "/docs/swagger-ui-bundle.js"))
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
    bounds = ConnectionBounds(connections=10**7, newcomers=10**7, waiting=10**7)
    one, two = within_handles(bounds), within_handles(bounds, gates=2)
    assert 2 * (two.connections + two.waiting) <= one.connections + one.waiting + 1


def test_too_few_handles_are_told_of_rather_than_nobody_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (110, 110))
    with pytest.raises(InvalidParameter, match=r"got 110; expected 124 or more.*ulimit -n"):
        within_handles(ConnectionBounds())
