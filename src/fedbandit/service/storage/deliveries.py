"""Which uploads of an agent were merged, and what a relay has yet to deliver itself, in SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.quotas import Senders
from fedbandit.service.storage.contract import Relaying
from fedbandit.service.storage.database import Session, places
from fedbandit.service.storage.rows import lives_of, merged_of, merged_values

_TABLE: Final = """CREATE TABLE relaying (
    model TEXT PRIMARY KEY, base {blob} NOT NULL, outbox {blob} NOT NULL)"""
_AGENT = (
    "lives, known, floor, uploads, observations, received, seen, since, mass, "
    "spent_observations, spent_uploads, spent_at, loose, quarantined, rewards, reward_total, held, "
    "shadow, place"
)
_AGENT_UPSERT = (
    f"INSERT INTO agents (model, agent, {_AGENT}) VALUES ({', '.join('?' * 21)}) "
    "ON CONFLICT (model, agent) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _AGENT.split(", "))
)


def select_merged(
    session: Session, model: str, agents: Sequence[str] | None
) -> dict[str, MergedUploads]:
    """Return the merged uploads of those of some agents, or of all, that ever uploaded."""
    which, values = "model = ?", [model]
    if agents is not None and not agents:
        return {}
    if agents is not None:
        which += f" AND agent IN ({places(agents)})"
        values += agents
    rows = session.run(f"SELECT agent, {_AGENT} FROM agents WHERE {which}", values)
    return {agent: merged_of(lives_of(lives, model, agent), *rest) for agent, lives, *rest in rows}


def count_senders(session: Session, model: str) -> Senders:
    """Count the agents that uploaded, and their observations."""
    ((agents, observations),) = session.run(
        "SELECT COUNT(*), SUM(observations * 1.0) FROM agents WHERE model = ? AND uploads > 0",
        (model,),
    )
    return Senders(agents, int(observations or 0))


def next_place(session: Session, model: str) -> int:
    """Return the place of the next agent that gets one."""
    ((last,),) = session.run("SELECT MAX(place) FROM agents WHERE model = ?", (model,))
    return 0 if last is None else int(last) + 1


def upsert_merged(session: Session, model: str, merged: Mapping[str, MergedUploads]) -> None:
    """Write the merged uploads of some agents."""
    rows = [(model, agent, *merged_values(each)) for agent, each in merged.items()]
    session.run_many(_AGENT_UPSERT, rows)


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
