"""A flood without a token: ``python -m tests.web.flood KIND HOST PORT NUMBER [ADDRESSES]``.

Keeps NUMBER connections of one kind open, each replaced by another one as soon as it ends, until it
is killed; from so many addresses, of 127.0.0.0/8, if more than one. Prints a line once that many
were opened. It is a program of its own, so that honest agents beside it have an interpreter to
themselves.
"""

import asyncio
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.web.shaken import greeting, key_updates, shaken, tiny_records

Place = tuple[str, int]
_BACKSLASHES = "\\" * 15_000
PATH = "/v1/models/news/agents/phone/sync"


def _head(method: str, path: str, *fields: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def _wrong_token(length: int) -> bytes:
    secret = os.urandom(32).hex()
    fields = ("Content-Type: application/vnd.fedbandit", f"Content-Length: {length}")
    return _head("POST", PATH, f"Authorization: Bearer {secret}", *fields)


def _trusting_all() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


KINDS: dict[str, Callable[[], bytes]] = {
    "silent": lambda: b"",
    "half-head": lambda: b"POST /v1/mod",
    "large-head": lambda: b"POST / HTTP/1.1\r\nX: " + b"x" * 15_000,
    "wrong-token": lambda: _wrong_token(4) + b"body",
    "slow-body": lambda: _wrong_token(10_000) + b"begins",
    "unread": lambda: _head("GET", "/openapi.json") * 100,
    "half-answered": lambda: _head("GET", "/healthz") + b"GET /heal",
    "tiny-chunks": lambda: (
        _head("POST", "/", "Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 50_000
    ),
    "many-lines": lambda: _head("GET", "/healthz", *["a:"] * 3900),
    "quoted-cookie": lambda: _head("GET", "/", f'Cookie: fedbandit_board="{_BACKSLASHES}"'),
    "large-file-unread": lambda: _head("GET", "/docs/swagger-ui-bundle.js"),
    "large-file": lambda: _head("GET", "/docs/swagger-ui-bundle.js"),
    "wrong-form": lambda: _head("POST", "/board/sign-in", "Content-Length: 9") + b"token=abc",
    "upgrade": lambda: _head("GET", "/healthz", "Connection: upgrade", "Upgrade: websocket"),
    "garbage": lambda: os.urandom(2000),
    "client-hello": lambda: greeting(_trusting_all()),
    "costly-hello": lambda: greeting(_trusting_all(), "ffdhe8192"),
}
"""What each connection says. Then it waits, without reading, until it is cut off."""


SHAKEN = {"shaken": lambda: b"", "shaken-half-head": KINDS["half-head"]} | {
    f"shaken-{kind}": KINDS[kind]
    for kind in ("wrong-token", "wrong-form", "unread", "tiny-chunks", "large-file")
}
"""What each connection says once TLS is set up."""
SEALED = {
    "key-updates": lambda secure: key_updates(secure, 600),
    "tiny-records": lambda secure: tiny_records(secure, b"x" * 700),
}
"""What each connection makes TLS read, 16 KiB of it, over and over until it is cut off."""


async def _keep_sealed(kind: str, place: Place, source: Place, opened: Callable[[], None]) -> None:
    loop, context = asyncio.get_running_loop(), _trusting_all()
    while True:
        opened()
        with suppress(OSError):
            connection, secure, to_send = await shaken(place, context, source)
            with connection:
                while True:
                    SEALED[kind](secure)
                    await loop.sock_sendall(connection, to_send.read())
        await asyncio.sleep(0.001)


async def _keep_shaken(kind: str, place: Place, source: Place, opened: Callable[[], None]) -> None:
    context = _trusting_all()
    while True:
        opened()
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*place, ssl=context, local_addr=source)
            writer.write(SHAKEN[kind]())
            while await reader.read(4096):
                pass
            writer.close()
        await asyncio.sleep(0.001)


async def _keep(kind: str, place: Place, source: Place, opened: Callable[[], None]) -> None:
    loop, say = asyncio.get_running_loop(), KINDS[kind]
    while True:
        with socket.socket() as connection:
            connection.setblocking(False)
            with suppress(OSError):
                connection.bind(source)
                await loop.sock_connect(connection, place)
                opened()
                await loop.sock_sendall(connection, say())
                await _end_of(connection, reading="unread" not in kind)
        await asyncio.sleep(0.001)


async def _end_of(connection: socket.socket, *, reading: bool) -> None:
    loop = asyncio.get_running_loop()
    while reading and await loop.sock_recv(connection, 4096):
        pass
    while not reading:
        await asyncio.sleep(1.0)
        connection.send(b"")


async def _flood(kind: str, host: str, port: int, number: int, addresses: int) -> None:
    count = 0

    def opened() -> None:
        nonlocal count
        count += 1
        if count == number:
            print("flooding", flush=True)

    keep = _keep_sealed if kind in SEALED else _keep_shaken if kind in SHAKEN else _keep
    sources = [(f"127.{1 + each // 250}.{1 + each % 250}.1", 0) for each in range(addresses)]
    if addresses == 1:
        sources = [("127.0.0.1", 0)]
    await asyncio.gather(
        *(keep(kind, (host, port), sources[each % addresses], opened) for each in range(number))
    )


@contextmanager
def flood(kind: str, host: str, port: int, number: int, addresses: int = 1) -> Iterator[None]:
    """Flood a server while a block runs, which begins once that many connections were opened."""
    numbers = [str(each) for each in (port, number, addresses)]
    command = [sys.executable, "-m", "tests.web.flood", kind, host, *numbers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "flooding\n"
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given = [int(each) for each in sys.argv[3:]]
    asyncio.run(_flood(sys.argv[1], sys.argv[2], given[0], given[1], (*given, 1)[2]))
