"""The tables of a new store, and schema changes, applied to a store in place when it is opened.

``MIGRATIONS[n]`` turns schema n into n + 1. To change the schema: raise ``SCHEMA``, add the step
here and have ``create_tables`` take it too. All steps run in one transaction that holds the row
with the schema's number, so of several processes that open a store at once one migrates it and the
others wait. Coordinators of the older version have to be stopped before.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from fedbandit.errors import StoreError
from fedbandit.service.bookkeeping.recipes import current_fingerprint
from fedbandit.service.storage.database import Database, Session
from fedbandit.service.storage.deliveries import add_relaying
from fedbandit.service.storage.past import add_past
from fedbandit.service.storage.progress import add_progress

SCHEMA: Final = 12
_SCHEMA_TABLE = "CREATE TABLE IF NOT EXISTS fedbandit (version {integer} NOT NULL)"
_TABLES = (
    """CREATE TABLE IF NOT EXISTS models (
        name TEXT PRIMARY KEY, incarnation TEXT NOT NULL, recipe TEXT NOT NULL,
        params {blob} NOT NULL, fingerprint TEXT NOT NULL, arm_norm {real} NOT NULL,
        reward {real} NOT NULL, most {integer} NOT NULL, version {integer} NOT NULL,
        count {integer} NOT NULL, created {real} NOT NULL,
        digest {blob} NOT NULL, state {blob} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS tokens (
        digest {blob} PRIMARY KEY, name TEXT NOT NULL UNIQUE, model TEXT, agent TEXT,
        created {real} NOT NULL, expires {real}, used {real}, lifetime {real},
        code {integer} NOT NULL DEFAULT 0)""",
    """CREATE TABLE IF NOT EXISTS agents (
        model TEXT NOT NULL, agent TEXT NOT NULL, known {integer} NOT NULL,
        floor {integer} NOT NULL, uploads {integer} NOT NULL, observations {integer} NOT NULL,
        received {integer} NOT NULL, seen {real} NOT NULL, lives {blob} NOT NULL,
        PRIMARY KEY (model, agent)){clustered}""",
)


def _identify_by_what_decides(session: Session) -> None:
    """3 to 4: a fingerprint is of a recipe's identity, not of its ``repr`` with all parameters."""
    for name, recipe, params, old in session.run(
        "SELECT name, recipe, params, fingerprint FROM models"
    ):
        if isinstance(params, bytes | memoryview):  # SQLite keeps anything in any column
            new = current_fingerprint(recipe, bytes(params), old)
            session.run("UPDATE models SET fingerprint = ? WHERE name = ?", (new, name))


def _let_tokens_live(session: Session) -> None:
    """5 to 6: tokens expire, are noted when used, have successors; some are enrolment codes."""
    real, integer = session.dialect.real, session.dialect.integer
    for column in (f"expires {real}", f"used {real}", f"lifetime {real}"):
        session.run(f"ALTER TABLE tokens ADD COLUMN {column}")
    session.run(f"ALTER TABLE tokens ADD COLUMN code {integer} NOT NULL DEFAULT 0")


def _keep_shadows(session: Session) -> None:
    """8 to 9: agents tell how they compare with the rules that they shadow."""
    session.run(f"ALTER TABLE agents ADD COLUMN shadow {session.dialect.blob}")


def _let_groups_be_sums(_session: Session) -> None:
    """9 to 10: groups may be sums, which earlier versions cannot read; the tables stay."""


def _let_all_be_told(_session: Session) -> None:
    """10 to 11: what agents are told may be a state, not just a moment; the tables stay."""


def _keep_places(session: Session) -> None:
    """11 to 12: agents are put into groups by who came first; those of before have no place."""
    session.run(f"ALTER TABLE agents ADD COLUMN place {session.dialect.integer}")
    session.run("CREATE INDEX agents_by_place ON agents (model, place)")


MIGRATIONS: Final[Mapping[int, Callable[[Session], None]]] = {
    3: _identify_by_what_decides,
    4: add_past,
    5: _let_tokens_live,
    6: add_progress,
    7: add_relaying,
    8: _keep_shadows,
    9: _let_groups_be_sums,
    10: _let_all_be_told,
    11: _keep_places,
}


def create_tables(database: Database) -> None:
    """Create the tables of a new store; leave one that has a schema's number to ``migrate``."""
    with database.session("write") as session:
        words = asdict(session.dialect)
        if session.dialect.alone:
            session.run(session.dialect.alone)
        session.run(_SCHEMA_TABLE.format(**words))
        if session.run("SELECT version FROM fedbandit"):
            return
        for table in _TABLES:
            session.run(table.format(**words))
        add_past(session)
        add_progress(session)
        add_relaying(session)
        _keep_shadows(session)
        _keep_places(session)
        session.run("INSERT INTO fedbandit VALUES (?)", (SCHEMA,))


def migrate(
    database: Database,
    migrations: Mapping[int, Callable[[Session], None]] = MIGRATIONS,
    *,
    schema: int = SCHEMA,
) -> None:
    """Bring a store to ``schema``; raise StoreError if there is no way from the one it has."""
    with database.session("read") as session:
        found = schema_of(session)
    if found == schema:
        return
    with database.session("write") as session:
        found = schema_of(session, lock=session.dialect.lock)  # another process may have been first
        for step in range(found, schema):
            if step not in migrations:
                break
            migrations[step](session)
            found = step + 1
        if found != schema:
            raise _no_way(found, schema)
        session.run("UPDATE fedbandit SET version = ?", (schema,))


def schema_of(session: Session, *, lock: str = "") -> int:
    """Return the number of a store's schema."""
    versions = [row[0] for row in session.run(f"SELECT version FROM fedbandit{lock}")]
    if len(versions) != 1:
        message = f"The store's table fedbandit has {len(versions)} rows instead of one."
        raise StoreError(f"{message} Restore a backup.")
    return int(versions[0])


def _no_way(found: int, schema: int) -> StoreError:
    if found > schema:
        fix = "Use the version of fedbandit that last wrote to it, or a newer one."
    else:
        fix = "Open it once with an older version of fedbandit that migrates it."
    known = f"this version of fedbandit reads schema {schema}"
    return StoreError(f"The store has schema {found}; {known}. {fix}")
