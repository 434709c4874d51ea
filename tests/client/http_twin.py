"""A twin behind real HTTP, in a thread, that can be told to misbehave."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from ssl import SSLContext
from threading import Thread
from typing import Any

from fedbandit.errors import Unreachable
from tests.client.twin import Twin


class HttpTwin(ThreadingHTTPServer):
    """Serves a twin. ``trouble`` is how often, from 0 to 1, an upload's answer is lost."""

    daemon_threads = True

    def __init__(self, twin: Twin, *, trouble: float = 0.0, seed: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.twin, self.trouble, self.chance = twin, trouble, random.Random(seed)
        self.status: int | None = None
        self.tokens: list[str | None] = []
        self.connections: list[socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: HttpTwin

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) == length:
            self._answer(body)

    def do_GET(self) -> None:
        self._answer(None)

    def _answer(self, body: bytes | None) -> None:
        self.server.tokens.append(self.headers["Authorization"])
        path = self.path.removeprefix("/v1/models/news/agents/phone-7/")
        if self.server.status is not None:
            self._send(self.server.status, b'{"error": {"field": "token", "message": "no"}}')
            return
        try:
            answer = self.server.twin.exchange(path, body)
        except Unreachable:
            self._send(503, b"")
            return
        if body is not None and self.server.chance.random() < self.server.trouble:
            time.sleep(0.01)
            self.close_connection = True
            return
        self._send(200, answer)

    def _send(self, status: int, answer: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(answer)

    def handle(self) -> None:
        with suppress(OSError):  # whoever hangs up, in a handshake or later
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def serving(
    twin: Twin, *, trouble: float = 0.0, seed: int = 0, tls: SSLContext | None = None
) -> Iterator[HttpTwin]:
    """Serve a twin on a port of its own for a while."""
    server = HttpTwin(twin, trouble=trouble, seed=seed)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
