"""What a coordinator keeps, and the contract that every store of it fulfils.

A store is named by a URL: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or
``postgresql://user@host/database``. It keeps models, tokens (their hashes), which uploads of each
agent were merged, and the past of a model. Its size depends on models, agents and days alone.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import HOURLY, History, Part, Snapshot
from fedbandit.service.bookkeeping.progress import Period, Progress, Refused, Traffic
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas, Senders
from fedbandit.service.bookkeeping.token import Token
from fedbandit.wire import Limits, ShadowSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as it is stored, all but its state.

    ``incarnation`` tells a model from one of the same name that was deleted before. ``params`` are
    the recipe's, as JSON. ``version`` counts the uploads merged, and the times that something was
    taken out again; ``set_back`` is the version of the last such time, 0 if there was none.
    ``count`` is the number of observations in the state. ``mass`` is what all uploads added to the
    trace of V, but for those of agents that were forgotten. ``snapshot`` is when the last one was
    taken. ``groups`` is the number of groups of agents, 0 for none, and ``told`` the moment or the
    state that agents are told with them (``telling.as_told``); empty for its own. ``weighed``: they
    are weighed (``groups.weighing``); else agents are told the median of their estimates.
    ``watched``: once eight have sent something; till then agents are told its own state.
    ``relays`` is how many levels of relays may be between its agents and this coordinator.
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
    quotas: Quotas = NO_QUOTAS
    history: History = HOURLY
    mass: float = 0.0
    snapshot: float = 0.0
    set_back: int = 0
    groups: int = 0
    told: bytes = b""
    relays: int = 0
    weighed: bool = False
    watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaying:
    """What a relay keeps of a model beside its state, as bytes (see ``service.relay``).

    ``base`` is what upstream said last, ``outbox`` what upstream has not acknowledged yet.
    """

    base: bytes
    outbox: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A model with everything that belongs to it but its snapshots, as of one instant."""

    model: Model
    state: bytes
    merged: Mapping[str, MergedUploads]
    tokens: Sequence[Token]
    parts: Sequence[Part] = ()
    groups: Mapping[int, bytes] = field(default_factory=dict)
    relaying: Relaying | None = None
    periods: Sequence[Period] = ()


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

    def next_place(self) -> int:
        """Return the place that the next agent gets which has none (``MergedUploads.place``)."""
        ...

    def senders(self) -> Senders:
        """Count the agents that uploaded before this block, and their observations."""
        ...

    def write(
        self,
        *,
        state: bytes,
        version: int,
        count: int,
        merged: Mapping[str, MergedUploads],
        mass: float | None = None,
        set_back: int | None = None,
        told: bytes | None = None,
    ) -> None:
        """Replace the state, and the merged uploads of agents asked for in this block before.

        The model's ``mass``, ``set_back`` and ``told`` stay as they are if left out.
        """
        ...

    def set_rules(
        self,
        *,
        limits: Limits,
        quotas: Quotas,
        history: History,
        relays: int | None = None,
        groups: int | None = None,
        watched: bool = False,
    ) -> None:
        """Change what uploads may be, what agents may send, and how the past is kept.

        ``relays`` and ``groups`` stay if left out; ``groups`` that are set are weighed, or
        ``watched``.
        """
        ...

    def relaying(self) -> Relaying | None:
        """Return what a relay keeps of it beside its state; None if it is no relay's model."""
        ...

    def write_relaying(self, *, outbox: bytes, base: bytes | None = None) -> None:
        """Replace what a relay keeps of it, and be a relay's model; ``base`` stays if left out.

        ``write`` has to follow with another state, by whose digest other coordinators notice.
        """
        ...

    @property
    def past(self) -> "Past":
        """Its snapshots and parts."""
        ...


class Past(Protocol):
    """The snapshots and parts of a model that is locked (see ``bookkeeping.history``)."""

    def groups(self, snapshot: int | None = None) -> dict[int, bytes]:
        """Return the states of the groups, by number: as of now, or of a snapshot."""
        ...

    def write_groups(self, states: Mapping[int, bytes]) -> None:
        """Replace the states of some groups; an empty one is taken away."""
        ...

    def take_snapshot(self, at: float) -> None:
        """Keep the state and those of the groups as they are stored now, and note the time.

        A snapshot of this version that is there already is replaced.
        """
        ...

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots, by version."""
        ...

    def snapshot_state(self, version: int) -> bytes:
        """Return the state that a snapshot holds; raise UnknownName if there is none."""
        ...

    def drop_snapshots(self, versions: Collection[int]) -> None:
        """Delete snapshots."""
        ...

    def add_parts(self, parts: Sequence[Part]) -> None:
        """Add parts; those of one agent differ in ``last``."""
        ...

    def parts(self, agent: str, after: int = 0) -> list[Part]:
        """Return the parts of an agent with ``last`` > ``after``, by ``last``."""
        ...

    def all_parts(self) -> Iterator[Part]:
        """Return the parts of all agents, a few at a time, by agent and ``last``."""
        ...

    def drop_parts(self, agent: str | None, *, after: int, upto: int | None) -> None:
        """Delete the parts of an agent, or of all, with ``after`` < ``last`` <= ``upto``.

        ``upto`` None: all later ones.
        """
        ...

    def scale_mass(self, share: float) -> None:
        """Multiply the mass of the model, and that of every agent, by ``share``."""
        ...

    def add_progress(self, at: float, progress: Progress) -> None:
        """Add to the sums of the minute that a time lies in (see ``bookkeeping.progress``)."""
        ...

    def fold_progress(self, now: float) -> None:
        """Fold periods that are too fine for their age into coarser ones."""
        ...

    def mark(self) -> bytes:
        """Return the estimate that was marked last; no bytes if none was."""
        ...

    def write_mark(self, theta: bytes) -> None:
        """Mark an estimate, in place of the one before."""
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
      model go its merged uploads, its tokens and its past.
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

    def outline(self, name: str) -> tuple[Model, bytes]:
        """Return a model without what agents are ``told``, and the SHA-256 of its state.

        Both are short. What agents are told changes with the state alone.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a model and what belongs to it."""
        ...

    def lock(self, name: str) -> AbstractContextManager[Locked]:
        """Lock a model until the block ends."""
        ...

    def agents(self, model: str) -> dict[str, MergedUploads]:
        """Return the merged uploads of all agents that ever uploaded, or are quarantined."""
        ...

    def merged_uploads(self, model: str, agent: str) -> MergedUploads:
        """Return the merged uploads of one agent, which may be none."""
        ...

    def shadows(self, model: str) -> list[ShadowSums]:
        """Return how agents compare with the rules that they shadow, for each that told of it.

        By the name of the agent; those that are quarantined are left out.
        """
        ...

    def tallies(self) -> dict[str, int]:
        """Return how many uploads were merged by the records of all agents, by model."""
        ...

    def groups(self, model: str) -> dict[int, bytes]:
        """Return the states or sums of a model's groups, by number, without its lock."""
        ...

    def periods(self, model: str) -> list[Period]:
        """Return what became of a model over time, by start and span."""
        ...

    def totals(self) -> dict[str, Progress]:
        """Return the sums over all periods, by model; models without any are left out."""
        ...

    def refusals(self, model: str) -> list[Refused]:
        """Return what uploads of a model were refused for, the latest first."""
        ...

    def add_traffic(self, traffic: Sequence[Traffic]) -> None:
        """Add what happened to models besides merging; models that are gone are left out.

        Refusals are counted by status and field, and say the last agent, message and time. What
        agents hold is raised to ``held``, but for those that never uploaded.
        """
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

    def token_named(self, name: str) -> Token | None:
        """Return the token with this name, or None."""
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
