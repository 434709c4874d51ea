"""A token as it is stored: who may talk, and until when."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who may talk: the SHA-256 of a token, and the one agent of the one model that it opens.

    ``name`` is what people call it by; it is not secret. An admin token has no model and no agent.
    Times are in seconds since 1970: ``expires``, and ``used`` last, to a minute or so; None for
    never. ``lifetime``: seconds that a successor is good for; None for ever. ``code``: it opens
    nothing, and can be exchanged for a token, once.
    """

    digest: bytes
    name: str
    model: str | None
    agent: str | None
    created: float
    expires: float | None = None
    used: float | None = None
    lifetime: float | None = None
    code: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether it has expired."""
        return self.expires is not None and self.expires <= now


MOST_TOKENS: Final = 16
"""Tokens that an agent can have by exchanging one for another, so that none fills the store."""


class TooManyTokens(Exception):
    """An agent has as many tokens as it may have."""
