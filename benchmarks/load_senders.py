"""Agents reduced to their requests: some connections, each with one sync under way at a time.

They parse no more than they must and encode an upload once, so that what is measured is the server:
agents are on other machines.
"""

import multiprocessing as mp
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from fedbandit import wire
from fedbandit.core.messages import Upload

_PLACE = 2**62  # as long as any sequence number that is sent
_END = b"\r\n\r\n"
_LENGTH = b"content-length:"

Agent = tuple[str, str]
"""A name, and its token."""


class Sender:
    """One connection that posts as one agent after another."""

    def __init__(self, address: str, agents: Sequence[Agent], bodies: Sequence[bytes]) -> None:
        place = urlsplit(address)
        self.socket = socket.create_connection((place.hostname, place.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._agents, self._bodies = agents, [_cut(body) for body in bodies]
        self._number = time.time_ns()  # one life goes on from turn to turn
        self._head, self._missing, self._began = b"", 0, 0.0

    def send(self) -> None:
        """Post the next sync."""
        self._number += 1
        agent, token = self._agents[self._number % len(self._agents)]
        before, after = self._bodies[self._number % len(self._bodies)]
        lines = (
            f"POST /v1/models/load/agents/{agent}/sync HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Type: {wire.MEDIA_TYPE}",
            f"Authorization: Bearer {token}",
            f"Content-Length: {len(before) + 8 + len(after)}",
        )
        head = "\r\n".join(lines).encode() + _END
        self._head, self._missing, self._began = b"", 0, time.perf_counter()
        self.socket.sendall(b"".join((head, before, struct.pack(">Q", self._number), after)))

    def receive(self) -> float | None:
        """Read what has come of the answer; once it is whole, return the seconds that it took."""
        data = self.socket.recv(2**18)
        if not data:
            raise SystemExit("the server closed a connection")
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, end, body = self._head.partition(_END)
            if not end:
                return None
            if not head.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"refused: {self._head[:400]!r}")
            told = head.lower().partition(_LENGTH)[2].partition(b"\r\n")[0]
            self._missing = int(told) - len(body)
        return None if self._missing else time.perf_counter() - self._began


def _cut(body: bytes) -> tuple[bytes, bytes]:
    """Return what stands before and behind the sequence number."""
    before, _, after = body.partition(struct.pack(">Q", _PLACE))
    return before, after


def sync_bodies(uploads: Sequence[Upload], fingerprint: str) -> list[bytes]:
    """Return syncs, with a place for the sequence number."""
    syncs = [wire.Sync(fingerprint, bytes(16), _PLACE, upload) for upload in uploads]
    return [wire.encode_sync(sync) for sync in syncs]


def post(
    address: str, agents: Sequence[Agent], bodies: Sequence[bytes], *, senders: int, seconds: float
) -> list[float]:
    """Post for a while from another process; return the seconds that each sync took."""
    mine, theirs = mp.Pipe()
    process = mp.Process(
        target=_post, args=(address, agents, bodies, senders, seconds, theirs), daemon=True
    )
    process.start()
    theirs.close()
    try:
        took: list[float] = mine.recv()
    except EOFError as error:
        raise SystemExit(1) from error
    process.join()
    return took


def _post(
    address: str,
    agents: Sequence[Agent],
    bodies: Sequence[bytes],
    senders: int,
    seconds: float,
    pipe: Connection,
) -> None:
    took: list[float] = []
    end = time.perf_counter() + seconds
    with selectors.DefaultSelector() as selector:
        for number in range(senders):
            sender = Sender(address, agents[number::senders], bodies)
            selector.register(sender.socket, selectors.EVENT_READ, sender)
            sender.send()
        while selector.get_map():
            for key, _ in selector.select():
                if (seconds_taken := key.data.receive()) is None:
                    continue
                took.append(seconds_taken)
                if time.perf_counter() < end:
                    key.data.send()
                else:
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    pipe.send(took)
