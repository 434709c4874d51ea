"""What agents that join are told: made once of each state, however often one asks.

Cutting and rounding a state costs up to O(d^3), and asking costs an agent nothing: without this one
that asks in a loop keeps the coordinator busy.
"""

from hashlib import sha256

from fedbandit import wire
from fedbandit.core.messages import Download
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.telling import as_told
from fedbandit.service.models.model import Served


class Downloads:
    """The latest download of each model, with its digests. Any thread may use it."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[bytes, Download, dict[int, str]]] = {}

    def of(
        self, served: Served, state: bytes, told: bytes, have: str | None, form: int
    ) -> tuple[Download | None, str]:
        """Return the download of a state, or None and its digest for an agent that ``have``s it.

        An agent that was upgraded still has the digest of the bytes in its former format. Raises
        InvalidState if the state cannot be read.
        """
        download, digests = self._made(served, state, told)
        return (None, digests[form]) if have in digests.values() else (download, "")

    def _made(self, served: Served, state: bytes, told: bytes) -> tuple[Download, dict[int, str]]:
        which = served.model.incarnation.encode() + sha256(state).digest() + told
        key = sha256(which).digest()
        known = self._latest.get(served.model.name)
        if known is not None and known[0] == key:
            return known[1:]
        server = server_at(served.recipe, state)
        download = as_told(served.recipe, server, told).download()
        digests = {each: wire.digest(download, format=each) for each in wire.FORMATS}
        self._latest[served.model.name] = key, download, digests
        return download, digests
