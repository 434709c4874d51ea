"""A proxy that breaks things on purpose, from a seed: cuts, copies, and copies that come late."""

import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import BufferedIOBase
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread

MISCHIEF = ("pass", "cut request", "cut answer", "twice", "late copy")


class Proxy(ThreadingTCPServer):
    """Stands between agents and the server at a port. ``done`` counts what it did."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, *, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.calm = port, False
        self.done: Counter[str] = Counter()
        self._chance, self._lock = random.Random(seed), Lock()
        self._old: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def pick(self, request: bytes) -> tuple[str, float, list[bytes]]:
        """Choose what to do with a request, at which part of it, and which old ones to repeat."""
        with self._lock:
            kind = "pass" if self.calm else self._chance.choice(MISCHIEF)
            self.done[kind] += 1
            copies = self._old if kind == "late copy" else []
            if request.startswith(b"POST"):
                self._old = [*self._old[-3:], request]
            return kind, self._chance.random(), list(copies)

    def ask(self, request: bytes) -> bytes:
        """Carry one request to the server and return the whole answer."""
        with closing(socket.create_connection(("127.0.0.1", self.port), 10)) as there:
            there.sendall(request)
            with there.makefile("rb") as stream:
                return _message(stream)

    def send_part(self, request: bytes) -> None:
        """Carry the beginning of a request and hang up."""
        with closing(socket.create_connection(("127.0.0.1", self.port), 10)) as there:
            there.sendall(request)


class _Handler(StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        with suppress(OSError):
            while request := _message(self.rfile):
                if not self._carry(request):
                    return

    def _carry(self, request: bytes) -> bool:
        """Carry a request, or part of it; say whether the connection is still good."""
        kind, part, copies = self.server.pick(request)
        for copy in copies:
            self.server.ask(copy)
        if kind == "cut request":
            self.server.send_part(request[: int(part * len(request))])
            return False
        answer = self.server.ask(request)
        if kind == "twice":
            answer = self.server.ask(request)
        if kind == "cut answer":
            self.wfile.write(answer[: int(part * len(answer))])
            return False
        self.wfile.write(answer)
        return True


def _message(stream: BufferedIOBase) -> bytes:
    """Read one HTTP message, which says how long it is."""
    head, length = b"", 0
    while line := stream.readline():
        head += line
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            return head + stream.read(length)
    return b""


@contextmanager
def between(port: int, *, seed: int) -> Iterator[Proxy]:
    """Run a proxy for a while."""
    proxy = Proxy(port, seed=seed)
    thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
