"""What agents that join are told: made once of each state, however often one asks.

Cutting and rounding a state costs up to O(d^3), reading one takes milliseconds, and asking costs an
agent nothing: without this one that asks in a loop keeps the coordinator busy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from fedbandit import wire
from fedbandit.core.messages import Download
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.telling import as_told
from fedbandit.service.models.model import Served


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The download of a state, as bytes by format, and their digests."""

    download: Download
    encoded: Mapping[int, bytes]
    digests: Mapping[int, str]


class Downloads:
    """The latest download of each model. Any thread may use it."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[bytes, Made]] = {}

    def of(self, served: Served, digest: bytes, read: Callable[[], tuple[bytes, bytes]]) -> Made:
        """Return the download of the state with this SHA-256.

        ``read`` returns that state, or a later one, and what agents are told; it is called if they
        are not known. Raises InvalidState if the state cannot be read.
        """
        known = self._latest.get(served.model.name)
        if known is not None and known[0] == _key(served, digest):
            return known[1]
        state, told = read()
        server = server_at(served.recipe, state)
        download = as_told(served.recipe, server, told).download()
        encoded = {each: wire.encode(download, format=each) for each in wire.FORMATS}
        digests = {each: sha256(data).hexdigest() for each, data in encoded.items()}
        made = Made(download, encoded, digests)
        self._latest[served.model.name] = _key(served, sha256(state).digest()), made
        return made


def _key(served: Served, digest: bytes) -> bytes:
    return served.model.incarnation.encode() + digest
