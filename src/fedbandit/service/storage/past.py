"""The past of models in SQL: quotas and totals since schema 5, snapshots, and parts by agent."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import inf
from typing import Final

from fedbandit.errors import unknown
from fedbandit.service.bookkeeping.history import Part, Snapshot
from fedbandit.service.bookkeeping.progress import Progress
from fedbandit.service.storage.database import Session
from fedbandit.service.storage.progress import add_minute, fold, select_mark, write_mark

_TABLES: Final = (
    """CREATE TABLE snapshots (
        model TEXT NOT NULL, version {integer} NOT NULL, count {integer} NOT NULL,
        at {real} NOT NULL, size {integer} NOT NULL, state {blob} NOT NULL,
        PRIMARY KEY (model, version))""",
    """CREATE TABLE parts (
        model TEXT NOT NULL, agent TEXT NOT NULL, first {integer} NOT NULL,
        last {integer} NOT NULL, data {blob} NOT NULL,
        PRIMARY KEY (model, agent, last))""",
    """CREATE TABLE groups_of (
        model TEXT NOT NULL, version {integer} NOT NULL, number {integer} NOT NULL,
        state {blob} NOT NULL, PRIMARY KEY (model, version, number))""",
)
_COLUMNS: Final = {
    "models": (
        "rules TEXT NOT NULL DEFAULT '{{}}'",
        "mass {real} NOT NULL DEFAULT 0",
        "snapshot {real} NOT NULL DEFAULT 0",
        "set_back {integer} NOT NULL DEFAULT 0",
        "told {blob}",
    ),
    "agents": (
        "since {real} NOT NULL DEFAULT 0",
        "mass {real} NOT NULL DEFAULT 0",
        "spent_observations {real} NOT NULL DEFAULT 0",
        "spent_uploads {real} NOT NULL DEFAULT 0",
        "spent_at {real} NOT NULL DEFAULT 0",
        "loose {integer} NOT NULL DEFAULT 0",
        "quarantined {integer} NOT NULL DEFAULT 0",
    ),
}
_AT_ONCE: Final = 64  # parts that are read together
_LARGEST: Final = 2**63 - 1  # that a column holds; no version is as large
_LEAST_MASS: Final = 1e-300  # what is lighter counts as nothing
_NOW: Final = -1  # in place of the version of a snapshot


def add_past(session: Session) -> None:
    """4 to 5: quotas, what agents spent of them, quarantine, snapshots and parts."""
    words = asdict(session.dialect)
    for table, columns in _COLUMNS.items():
        for column in columns:
            session.run(f"ALTER TABLE {table} ADD COLUMN {column.format(**words)}")
    for made in _TABLES:
        session.run(made.format(**words))


class SqlPast:
    """Snapshots and parts of a locked model. What each promises is in ``contract``."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        self._run, self._run_many = session.run, session.run_many

    def groups(self, snapshot: int | None = None) -> dict[int, bytes]:
        """Return the states of the groups."""
        which = (self._name, _NOW if snapshot is None else snapshot)
        rows = self._run(
            "SELECT number, state FROM groups_of WHERE model = ? AND version = ? ORDER BY number",
            which,
        )
        return {number: bytes(state) for number, state in rows}

    def write_groups(self, states: Mapping[int, bytes]) -> None:
        """Replace the states of some groups; an empty one is taken away."""
        self._run_many(
            "INSERT INTO groups_of (model, version, number, state) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (model, version, number) DO UPDATE SET state = excluded.state",
            [(self._name, _NOW, number, state) for number, state in states.items() if state],
        )
        self._run_many(
            "DELETE FROM groups_of WHERE model = ? AND version = ? AND number = ?",
            [(self._name, _NOW, number) for number, state in states.items() if not state],
        )

    def take_snapshot(self, at: float) -> None:
        """Keep the states as they are stored now."""
        self._run(
            "INSERT INTO snapshots (model, version, count, at, size, state) "
            "SELECT name, version, count, ?, length(state) + "
            "(SELECT COALESCE(SUM(length(g.state)), 0) FROM groups_of g "
            "WHERE g.model = models.name AND g.version = ?), state FROM models WHERE name = ? "
            "ON CONFLICT (model, version) DO UPDATE SET count = excluded.count, at = excluded.at, "
            "size = excluded.size, state = excluded.state",
            (at, _NOW, self._name),
        )
        self._run(
            "INSERT INTO groups_of (model, version, number, state) "
            "SELECT g.model, m.version, g.number, g.state FROM groups_of g, models m "
            "WHERE g.model = ? AND g.version = ? AND m.name = g.model "
            "ON CONFLICT (model, version, number) DO UPDATE SET state = excluded.state",
            (self._name, _NOW),
        )
        self._run("UPDATE models SET snapshot = ? WHERE name = ?", (at, self._name))

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots."""
        rows = self._run(
            "SELECT version, count, at, size FROM snapshots WHERE model = ? ORDER BY version",
            (self._name,),
        )
        return [Snapshot(*row) for row in rows]

    def snapshot_state(self, version: int) -> bytes:
        """Return the state that a snapshot holds."""
        which = (self._name, min(version, _LARGEST))
        rows = self._run("SELECT state FROM snapshots WHERE model = ? AND version = ?", which)
        if not rows:
            raise unknown("version", str(version), [str(each.version) for each in self.snapshots()])
        return bytes(rows[0][0])

    def drop_snapshots(self, versions: Collection[int]) -> None:
        """Delete snapshots."""
        rows = [(self._name, version) for version in versions]
        for table in ("snapshots", "groups_of"):
            self._run_many(f"DELETE FROM {table} WHERE model = ? AND version = ?", rows)

    def add_parts(self, parts: Sequence[Part]) -> None:
        """Add parts."""
        self._run_many(
            "INSERT INTO parts (model, agent, first, last, data) VALUES (?, ?, ?, ?, ?)",
            [(self._name, each.agent, each.first, each.last, each.data) for each in parts],
        )

    def parts(self, agent: str, after: int = 0) -> list[Part]:
        """Return the parts of an agent after a version."""
        rows = self._run(
            "SELECT first, last, data FROM parts WHERE model = ? AND agent = ? AND last > ? "
            "ORDER BY last",
            (self._name, agent, after),
        )
        return [Part(agent, first, last, bytes(data)) for first, last, data in rows]

    def all_parts(self) -> Iterator[Part]:
        """Return the parts of all agents, a few at a time."""
        agent, last = "", -1
        while True:
            rows = self._run(
                "SELECT agent, first, last, data FROM parts "
                "WHERE model = ? AND (agent > ? OR (agent = ? AND last > ?)) "
                f"ORDER BY agent, last LIMIT {_AT_ONCE}",
                (self._name, agent, agent, last),
            )
            for agent, first, last, data in rows:
                yield Part(agent, first, last, bytes(data))
            if len(rows) < _AT_ONCE:
                return

    def drop_parts(self, agent: str | None, *, after: int, upto: int | None) -> None:
        """Delete the parts of an agent, or of all."""
        which, values = "model = ? AND last > ?", [self._name, after]
        if agent is not None:
            which, values = f"{which} AND agent = ?", [*values, agent]
        if upto is not None:
            which, values = f"{which} AND last <= ?", [*values, upto]
        self._run(f"DELETE FROM parts WHERE {which}", values)

    def scale_mass(self, share: float) -> None:
        """Multiply the mass of the model and of its agents."""
        least = _LEAST_MASS / share if share > 0.0 else inf  # PostgreSQL refuses to underflow
        for table, name in (("models", "name"), ("agents", "model")):
            self._run(
                f"UPDATE {table} SET mass = CASE WHEN mass >= ? THEN mass * ? ELSE 0 END "
                f"WHERE {name} = ?",
                (least, share, self._name),
            )

    def add_progress(self, at: float, progress: Progress) -> None:
        """Add to the sums of a minute."""
        add_minute(self._session, self._name, at, progress)

    def fold_progress(self, now: float) -> None:
        """Fold periods that are too fine for their age."""
        fold(self._session, self._name, now)

    def mark(self) -> bytes:
        """Return the estimate that was marked last."""
        return select_mark(self._session, self._name)

    def write_mark(self, theta: bytes) -> None:
        """Mark an estimate."""
        write_mark(self._session, self._name, theta)
