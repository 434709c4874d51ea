"""What relays keep of their models beside the state, in SQL."""

from dataclasses import asdict
from typing import Final

from fedbandit.service.storage.contract import Relaying
from fedbandit.service.storage.database import Session

_TABLE: Final = """CREATE TABLE relaying (
    model TEXT PRIMARY KEY, base {blob} NOT NULL, outbox {blob} NOT NULL)"""


def add_relaying(session: Session) -> None:
    """Add the table for what relays keep."""
    session.run(_TABLE.format(**asdict(session.dialect)))


def select_relaying(session: Session, model: str) -> Relaying | None:
    """Return what a relay keeps of a model; None if it is no relay's."""
    rows = session.run("SELECT base, outbox FROM relaying WHERE model = ?", (model,))
    return Relaying(base=bytes(rows[0][0]), outbox=bytes(rows[0][1])) if rows else None


def put_relaying(session: Session, model: str, *, outbox: bytes, base: bytes | None) -> None:
    """Replace what a relay keeps of a model, with or without the base."""
    if base is None:
        session.run("UPDATE relaying SET outbox = ? WHERE model = ?", (outbox, model))
        return
    session.run(
        "INSERT INTO relaying (model, base, outbox) VALUES (?, ?, ?) ON CONFLICT (model) "
        "DO UPDATE SET base = excluded.base, outbox = excluded.outbox",
        (model, base, outbox),
    )
