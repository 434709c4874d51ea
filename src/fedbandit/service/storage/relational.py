"""The store in SQL, on any ``Database``. What each method promises is written in ``contract``."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from hashlib import sha256

from fedbandit.errors import InvalidParameter, unknown
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.progress import Period, Progress, Refused, Traffic
from fedbandit.service.bookkeeping.quotas import Quotas, Senders
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.storage.contract import Archive, Model, Relaying
from fedbandit.service.storage.database import Database, Row, Session, TakenKey, places
from fedbandit.service.storage.deliveries import (
    count_senders,
    next_place,
    put_relaying,
    select_merged,
    select_relaying,
    upsert_merged,
)
from fedbandit.service.storage.migrations import create_tables, migrate
from fedbandit.service.storage.past import SqlPast
from fedbandit.service.storage.progress import TABLES as PROGRESS_TABLES
from fedbandit.service.storage.progress import (
    add_periods,
    select_periods,
    select_refusals,
    select_totals,
    write_traffic,
)
from fedbandit.service.storage.rows import changed_rules, model_of, shadow_of, written_rules
from fedbandit.service.storage.tokens import insert_tokens, select_tokens, succeed_token
from fedbandit.wire import Limits, ShadowSums

_MODEL = (
    "name, incarnation, recipe, params, fingerprint, "
    "arm_norm, reward, most, version, count, created, rules, mass, snapshot, set_back, told"
)
_OUTLINE = _MODEL.replace("told", "NULL AS told, digest")


class SqlStore:
    """Models, merged uploads, tokens, the past and the progress of models in eleven tables."""

    def __init__(self, database: Database, *, create: bool) -> None:
        self._database = database
        try:
            if create:
                create_tables(database)
            migrate(database)
        except BaseException:
            database.close()
            raise

    @property
    def writers(self) -> int:
        """How many models can be written at once."""
        return self._database.writers

    def create(self, model: Model, state: bytes) -> None:
        """Add a model."""
        with self._writing(f"Model {model.name!r}") as session:
            _insert_model(session, model, state)

    def models(self) -> list[Model]:
        """Return all models, by name."""
        with self._database.session("read") as session:
            rows = session.run(f"SELECT {_MODEL} FROM models ORDER BY name")
        return [model_of(row) for row in rows]

    def model(self, name: str) -> Model:
        """Return one model."""
        with self._database.session("read") as session:
            return _select_model(session, name)

    def state(self, name: str) -> tuple[Model, bytes]:
        """Return a model and its state."""
        with self._database.session("snapshot") as session:
            return _select_model(session, name), _select_state(session, name)

    def outline(self, name: str) -> tuple[Model, bytes]:
        """Return a model without what agents are told, and the digest of its state."""
        with self._database.session("read") as session:
            *row, digest = _select_row(session, name, _OUTLINE, lock="")
        return model_of(row), bytes(digest)

    def delete(self, name: str) -> None:
        """Delete a model and what belongs to it."""
        with self._database.session("write") as session:
            _select_model(session, name, lock=session.dialect.lock)
            tables = ("agents", "tokens", "snapshots", "parts", "groups_of", "relaying")
            for table in (*tables, *PROGRESS_TABLES):
                session.run(f"DELETE FROM {table} WHERE model = ?", (name,))
            session.run("DELETE FROM models WHERE name = ?", (name,))

    @contextmanager
    def lock(self, name: str) -> Iterator["LockedModel"]:
        """Lock a model until the block ends."""
        with self._database.session("write") as session:
            columns, lock = f"{_MODEL}, digest", session.dialect.lock
            *row, digest = _select_row(session, name, columns, lock=lock)
            yield LockedModel(session, model_of(row), bytes(digest))

    def agents(self, model: str) -> dict[str, MergedUploads]:
        """Return the merged uploads of all agents."""
        with self._database.session("snapshot") as session:
            _select_model(session, model)
            return select_merged(session, model, None)

    def merged_uploads(self, model: str, agent: str) -> MergedUploads:
        """Return the merged uploads of one agent."""
        with self._database.session("snapshot") as session:
            return select_merged(session, model, [agent]).get(agent, MergedUploads())

    def shadows(self, model: str) -> list[ShadowSums]:
        """Return how agents compare with the rules that they shadow."""
        asked = "SELECT shadow FROM agents WHERE model = ? AND quarantined = 0"
        with self._database.session("read") as session:
            rows = session.run(f"{asked} AND shadow IS NOT NULL ORDER BY agent", (model,))
        return [sums for (packed,) in rows if (sums := shadow_of(packed)) is not None]

    def tallies(self) -> dict[str, int]:
        """Return how many uploads were merged by the records of all agents."""
        with self._database.session("read") as session:
            rows = session.run("SELECT model, SUM(uploads) FROM agents GROUP BY model")
        return {model: int(uploads) for model, uploads in rows}

    def groups(self, model: str) -> dict[int, bytes]:
        """Return the states or sums of a model's groups."""
        with self._database.session("snapshot") as session:
            return SqlPast(session, model).groups()

    def periods(self, model: str) -> list[Period]:
        """Return what became of a model over time."""
        with self._database.session("snapshot") as session:
            _select_model(session, model)
            return select_periods(session, model)

    def totals(self) -> dict[str, Progress]:
        """Return the sums over all periods, by model."""
        with self._database.session("read") as session:
            return select_totals(session)

    def refusals(self, model: str) -> list[Refused]:
        """Return what uploads of a model were refused for."""
        with self._database.session("read") as session:
            return select_refusals(session, model)

    def add_traffic(self, traffic: Sequence[Traffic]) -> None:
        """Add what happened to models besides merging."""
        with self._database.session("write") as session:
            lock = session.dialect.lock
            for each in sorted(traffic, key=lambda some: (some.model, some.start)):
                if session.run(f"SELECT 1 FROM models WHERE name = ?{lock}", (each.model,)):
                    write_traffic(session, each)

    def archive(self, name: str) -> Archive:
        """Return a model with all that belongs to it."""
        with self._database.session("snapshot") as session:
            model = _select_model(session, name)
            return Archive(
                model=model,
                state=_select_state(session, name),
                merged=select_merged(session, name, None),
                tokens=select_tokens(session, "WHERE model = ?", (name,)),
                parts=list(SqlPast(session, name).all_parts()),
                groups=SqlPast(session, name).groups(),
                relaying=select_relaying(session, name),
                periods=select_periods(session, name),
            )

    def install(self, archive: Archive) -> None:
        """Add a model with all that belongs to it."""
        with self._writing(f"Model {archive.model.name!r}, or one of its tokens") as session:
            _insert_model(session, archive.model, archive.state)
            upsert_merged(session, archive.model.name, archive.merged)
            insert_tokens(session, archive.tokens)
            past = SqlPast(session, archive.model.name)
            past.add_parts(archive.parts)
            past.write_groups(archive.groups)
            if archive.relaying is not None:
                kept = archive.relaying
                put_relaying(session, archive.model.name, outbox=kept.outbox, base=kept.base)
            add_periods(session, archive.model.name, archive.periods)

    def add_token(self, token: Token) -> None:
        """Add a token; its model has to exist."""
        with self._writing(f"Token {token.name!r}") as session:
            if token.model is not None:
                _select_model(session, token.model, lock=session.dialect.lock)
            insert_tokens(session, [token])

    def token(self, digest: bytes) -> Token | None:
        """Return the token with this digest, or None."""
        return self._token("digest", digest)

    def tokens(self) -> list[Token]:
        """Return all tokens; those of admins first."""
        with self._database.session("read") as session:
            tokens = select_tokens(session)
        return sorted(tokens, key=lambda each: (each.model or "", each.agent or "", each.name))

    def token_named(self, name: str) -> Token | None:
        """Return the token with this name, or None."""
        return self._token("name", name)

    def revoke(self, name: str) -> None:
        """Delete a token by its name."""
        with self._database.session("write") as session:
            if not session.run("DELETE FROM tokens WHERE name = ? RETURNING name", (name,)):
                names = [row[0] for row in session.run("SELECT name FROM tokens")]
                raise unknown("token", name, names)

    def succeed(self, digest: bytes, successor: Token, *, ends: float | None) -> bool:
        """Add a successor to a token, which ends then, or is deleted."""
        with self._writing(f"Token {successor.name!r}") as session:
            return succeed_token(session, digest, successor, ends)

    def note_uses(self, uses: Mapping[bytes, float]) -> None:
        """Note when tokens were last used."""
        with self._database.session("write") as session:
            rows = [(when, digest) for digest, when in sorted(uses.items())]
            session.run_many("UPDATE tokens SET used = ? WHERE digest = ?", rows)

    def ping(self) -> None:
        """Raise StoreError unless the store can be read and written, the disk included."""
        with self._database.session("write") as session:
            for change in ("+ 1", "- 1"):  # SQLite skips what would not change a row
                session.run(f"UPDATE fedbandit SET version = version {change}")

    def close(self) -> None:
        """Close files and connections."""
        self._database.close()

    def _token(self, column: str, value: object) -> Token | None:
        with self._database.session("read") as session:
            found = select_tokens(session, f"WHERE {column} = ?", (value,))
        return found[0] if found else None

    @contextmanager
    def _writing(self, what: str) -> Iterator[Session]:
        """Open a transaction in which a key that is taken is the caller's mistake."""
        try:
            with self._database.session("write") as session:
                yield session
        except TakenKey as error:
            fix = "Choose another name, or delete what is there."
            raise InvalidParameter(f"{what} exists already. {fix}") from error


class LockedModel:
    """A model that is locked until the transaction ends."""

    def __init__(self, session: Session, model: Model, digest: bytes) -> None:
        self._session, self.model, self.digest = session, model, digest
        self.past = SqlPast(session, model.name)

    def state(self) -> bytes:
        """Return its state."""
        return _select_state(self._session, self.model.name)

    def opened(self, digests: Collection[bytes]) -> dict[bytes, str]:
        """Return the agents of this model that tokens open, by digest."""
        if not digests:
            return {}
        rows = self._session.run(
            f"SELECT digest, agent FROM tokens WHERE digest IN ({places(digests)}) AND model = ? "
            "AND code = 0 AND (expires IS NULL OR expires > ?)",
            [*digests, self.model.name, time.time()],
        )
        return {bytes(digest): agent for digest, agent in rows}

    def merged_uploads(self, agents: Collection[str]) -> dict[str, MergedUploads]:
        """Return the merged uploads of each of some agents."""
        found = select_merged(self._session, self.model.name, sorted(agents))
        return {agent: found.get(agent, MergedUploads()) for agent in agents}

    def next_place(self) -> int:
        """Return the place of the next agent that gets one."""
        return next_place(self._session, self.model.name)

    def senders(self) -> Senders:
        """Count the agents that uploaded, and their observations."""
        return count_senders(self._session, self.model.name)

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
        """Replace the state, and the merged uploads of some agents."""
        self.digest = sha256(state).digest()
        changed = {"state": state, "digest": self.digest, "version": version, "count": count}
        others = {"mass": mass, "set_back": set_back, "told": told}
        changed |= {column: value for column, value in others.items() if value is not None}
        columns = ", ".join(f"{column} = ?" for column in changed)
        values = (*changed.values(), self.model.name)
        self._session.run(f"UPDATE models SET {columns} WHERE name = ?", values)
        upsert_merged(self._session, self.model.name, merged)

    def relaying(self) -> Relaying | None:
        """Return what a relay keeps of it beside its state."""
        return select_relaying(self._session, self.model.name)

    def write_relaying(self, *, outbox: bytes, base: bytes | None = None) -> None:
        """Replace what a relay keeps of it."""
        put_relaying(self._session, self.model.name, outbox=outbox, base=base)

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
        """Change what uploads may be, what agents may send, and how the past is kept."""
        changed = replace(self.model, limits=limits, quotas=quotas, history=history)
        self.model = changed_rules(changed, relays=relays, groups=groups, watched=watched)
        _write_rules(self._session, self.model)


def _insert_model(session: Session, model: Model, state: bytes) -> None:
    limits = astuple(model.limits)
    identity = (model.name, model.incarnation, model.recipe, model.params, model.fingerprint)
    written = (state, sha256(state).digest())
    counts = (model.version, model.count, model.created)
    past = (written_rules(model), model.mass, model.snapshot, model.set_back, model.told)
    session.run(
        f"INSERT INTO models ({_MODEL}, state, digest) VALUES ({', '.join('?' * 18)})",
        (*identity, *limits, *counts, *past, *written),
    )


def _write_rules(session: Session, model: Model) -> None:
    """Store the limits and rules of a model."""
    session.run(
        "UPDATE models SET arm_norm = ?, reward = ?, most = ?, rules = ? WHERE name = ?",
        (*astuple(model.limits), written_rules(model), model.name),
    )


def _select_model(session: Session, name: str, *, lock: str = "") -> Model:
    return model_of(_select_row(session, name, _MODEL, lock=lock))


def _select_row(session: Session, name: str, columns: str, *, lock: str) -> Row:
    rows = session.run(f"SELECT {columns} FROM models WHERE name = ?{lock}", (name,))
    if not rows:
        names = [row[0] for row in session.run("SELECT name FROM models")]
        raise unknown("model", name, names)
    return rows[0]


def _select_state(session: Session, name: str) -> bytes:
    return bytes(session.run("SELECT state FROM models WHERE name = ?", (name,))[0][0])
