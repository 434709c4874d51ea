"""How a coordinator behaves under load; the defaults suit one machine."""

from dataclasses import dataclass
from typing import Final

RETRY_AFTER: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds in numbers and seconds.

    ``open``: let anyone in without a token. ``queue``: syncs under way at once, over all models;
    more are answered 503. ``batch``: uploads merged in one transaction. ``body_seconds``: for a
    sender to send its body. ``remember_seconds``: how long tokens and recipes read from the store
    are believed; a revoked token is refused after that at the latest. ``stop_seconds``: for what
    was accepted, when told to stop.
    """

    open: bool = False
    queue: int = 256
    batch: int = 64
    body_seconds: float = 10.0
    idle_seconds: float = 30.0
    remember_seconds: float = 1.0
    stop_seconds: float = 5.0
    connections: int = 4096
