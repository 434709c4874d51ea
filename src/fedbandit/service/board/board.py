"""What the board shows, kept for a moment, so that many who watch cost as much as one."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fedbandit.service.access.authentication import Ask
from fedbandit.service.board.views import Range, model_view, overview
from fedbandit.service.storage.contract import Store

FRESH_SECONDS: Final = 2.0
"""For which what was read is shown again; longer if reading takes long."""
_SHARE = 20.0  # of the time may be spent on reading one view: 1/20
_KEPT = 64  # views

_Key = tuple[str, str]


class Board:
    """Reads views from the store, in threads. Used from the event loop."""

    def __init__(self, store: Store, ask: Ask) -> None:
        self._store, self._ask = store, ask
        self._read: dict[_Key, tuple[float, bytes]] = {}
        self._reading: dict[_Key, asyncio.Task[bytes]] = {}

    async def models(self) -> bytes:
        """Return all models as JSON."""
        return await self._view(("", ""), lambda: overview(self._store))

    async def model(self, name: str, shown: Range) -> bytes:
        """Return one model as JSON; raise UnknownName if there is none."""
        return await self._view((name, shown), lambda: model_view(self._store, name, shown))

    async def _view(self, key: _Key, read: Callable[[], Any]) -> bytes:
        until, known = self._read.get(key, (0.0, b""))
        if time.monotonic() < until:
            return known
        if key not in self._reading:
            self._reading[key] = asyncio.create_task(self._read_now(key, read))
        return await asyncio.shield(self._reading[key])

    async def _read_now(self, key: _Key, read: Callable[[], Any]) -> bytes:
        began = time.monotonic()
        try:
            data = await self._ask(lambda: msgspec.json.encode(read()))
        finally:
            del self._reading[key]
        now = time.monotonic()
        if len(self._read) >= _KEPT:
            self._read.clear()
        self._read[key] = now + max(FRESH_SECONDS, _SHARE * (now - began)), data
        return data
