"""What a coordinator keeps, and the contract that every store of it fulfils.

A store is named by a URL: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or
``postgresql://user@host/database``. It keeps models, tokens (their hashes) and, for each agent of a
model, which uploads were merged. Its size depends on the number of models and agents, not on the
number of uploads.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from fedbandit.service.models.deduplication import MergedUploads
from fedbandit.wire import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as it is stored, all but its state.

    ``incarnation`` tells a model from one of the same name that was deleted before. ``params`` are
    the recipe's, as JSON. ``version`` counts the uploads merged, ``count`` their observations.
    """

    name: str
    incarnation: str
    recipe: str
    params: bytes
    fingerprint: str
    limits: Limits
    version: int
    count: int
    created: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A model with everything that belongs to it, as of one instant."""

    model: Model
    state: bytes
    merged: Mapping[str, MergedUploads]
    tokens: Sequence[Token]


class Locked(Protocol):
    """A model that is locked: it changes through this alone until the block ends."""

    @property
    def model(self) -> Model:
        """The model, as it is now."""
        ...

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its state, as it is now or as it was written, known without reading it."""
        ...

    def state(self) -> bytes:
        """Return its state, as it is now."""
        ...

    def opened(self, digests: Collection[bytes]) -> dict[bytes, str]:
        """Return the agents of this model that tokens open now, by digest.

        Unknown and expired ones are left out, and so are codes.
        """
        ...

    def merged_uploads(self, agents: Collection[str]) -> dict[str, MergedUploads]:
        """Return the merged uploads of each of some agents, which may be none."""
        ...

    def write(
        self, *, state: bytes, version: int, count: int, merged: Mapping[str, MergedUploads]
    ) -> None:
        """Replace the state, and the merged uploads of agents asked for in this block before."""
        ...


class Store(Protocol):
    """Models, merged uploads and tokens, durable.

    - Every method is one transaction: it happens whole or not at all, and once it has returned,
      what it wrote outlives a crash of this program and of the machine.
    - ``lock`` is one transaction too. What ``write`` wrote is there once the block has ended, and
      none of it if the block raised. Blocks on one model take turns, also those of other processes
      and machines; each sees what the ones before it wrote. If the commit itself fails, both are
      possible; the next block sees which.
    - A model's name is unique. Unknown names raise UnknownName, taken ones InvalidParameter. With a
      model go its merged uploads and its tokens.
    - A store that cannot be reached, read or written raises StoreError, and works again once the
      cause is gone.
    - Methods may be called from any thread.
    """

    @property
    def writers(self) -> int:
        """How many models it can write at once; with more, blocks of ``lock`` take turns."""
        ...

    def create(self, model: Model, state: bytes) -> None:
        """Add a model."""
        ...

    def models(self) -> list[Model]:
        """Return all models, by name."""
        ...

    def model(self, name: str) -> Model:
        """Return one model."""
        ...

    def state(self, name: str) -> tuple[Model, bytes]:
        """Return a model and its state, of one instant."""
        ...

    def delete(self, name: str) -> None:
        """Delete a model and what belongs to it."""
        ...

    def lock(self, name: str) -> AbstractContextManager[Locked]:
        """Lock a model until the block ends."""
        ...

    def merged_uploads(self, model: str, agent: str) -> MergedUploads:
        """Return the merged uploads of one agent, which may be none."""
        ...

    def tallies(self) -> dict[str, tuple[int, int]]:
        """Return what agents' merged uploads add up to, by model: uploads and observations."""
        ...

    def archive(self, name: str) -> Archive:
        """Return a model with all that belongs to it."""
        ...

    def install(self, archive: Archive) -> None:
        """Add a model with all that belongs to it."""
        ...

    def add_token(self, token: Token) -> None:
        """Add a token; its model has to exist."""
        ...

    def token(self, digest: bytes) -> Token | None:
        """Return the token with this digest, or None."""
        ...

    def tokens(self) -> list[Token]:
        """Return all tokens, by model, agent and name; those of admins first."""
        ...

    def revoke(self, name: str) -> None:
        """Delete a token by its name."""
        ...

    def succeed(self, digest: bytes, successor: Token, *, ends: float | None) -> bool:
        """Add a successor to the token with this digest; return False if there is no such token.

        The old one expires at ``ends``, unless it does before; None: it is deleted. Of several that
        ask at once for a token that is deleted, one gets a successor. Expired tokens of the same
        agent are deleted. Raises TooManyTokens, and changes nothing, if it has ``MOST_TOKENS``
        others.
        """
        ...

    def note_uses(self, uses: Mapping[bytes, float]) -> None:
        """Note when tokens were last used, by digest; leave unknown ones out."""
        ...

    def ping(self) -> None:
        """Raise StoreError unless the store can be read and written, the disk included."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
