"""How a coordinator behaves under load; the defaults suit one machine."""

from dataclasses import dataclass
from typing import Final

from fedbandit.web.connections import BOUNDS, ConnectionBounds

RETRY_AFTER: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds in numbers and seconds.

    ``open``: let anyone in without a token who asks for one of its own names, or one of
    ``allowed_hosts``, in lower case. ``queue`` and ``queue_bytes``: whole syncs under way at once,
    over all models; more are answered 503. ``turns``: requests of one agent under way at once,
    whole or not; more are answered 429. It has one on its way at a time, and perhaps one that was
    cut off. ``body_seconds``: for a sender to send its body. ``idle_seconds``: for a connection to
    finish the head of a request, or to read its answer. ``remember_seconds``: how long tokens
    and recipes read from the store are believed; a revoked token is refused after that at the
    latest, and merges nothing at once. ``refusal_seconds``: from the head of a request to the
    answer that its token is not good for it. ``stop_seconds``: for what was accepted, when
    told to stop. ``overlap_seconds``: that a token stays good once its agent has asked for another.
    ``wrong_tokens``: of one address that are answered 401 at once, and one a second from then on;
    the others are answered 429. ``fruitless``: requests of one agent at once that change nothing,
    which are uploads that are refused, copies and states, and one a second from then on; more are
    answered 429. ``bounds``: connections open at once.
    """

    open: bool = False
    allowed_hosts: frozenset[str] = frozenset()
    queue: int = 256
    queue_bytes: int = 2**28
    turns: int = 2
    body_seconds: float = 10.0
    idle_seconds: float = 30.0
    remember_seconds: float = 1.0
    refusal_seconds: float = 0.05
    stop_seconds: float = 5.0
    overlap_seconds: float = 86_400.0
    wrong_tokens: int = 60
    fruitless: int = 120
    bounds: ConnectionBounds = BOUNDS
