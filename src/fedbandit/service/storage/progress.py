"""The progress of models in SQL: periods, what refused uploads were refused for, and marks."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from fedbandit.service.bookkeeping.progress import (
    FIELDS,
    MINUTE,
    NO_PROGRESS,
    Period,
    Progress,
    Refused,
    Traffic,
    folded,
    progress_of,
    start_of,
    values_of,
)
from fedbandit.service.storage.database import Session

_WHOLE: Final = {
    name for name, value in zip(FIELDS, values_of(NO_PROGRESS), strict=True) if type(value) is int
}
_SUMS: Final = ", ".join(FIELDS)
_COLUMNS: Final = ", ".join(
    f"{name} {'{integer}' if name in _WHOLE else '{real}'} NOT NULL" for name in FIELDS
)
_TABLES: Final = (
    "CREATE TABLE periods (model TEXT NOT NULL, span {integer} NOT NULL, start {integer} NOT NULL, "
    f"{_COLUMNS}, PRIMARY KEY (model, span, start)){{clustered}}",
    "CREATE TABLE refusals (model TEXT NOT NULL, status {integer} NOT NULL, field TEXT NOT NULL, "
    "count {integer} NOT NULL, agent TEXT NOT NULL, message TEXT NOT NULL, at {real} NOT NULL, "
    "PRIMARY KEY (model, status, field)){clustered}",
    "CREATE TABLE marks (model TEXT PRIMARY KEY, theta {blob} NOT NULL)",
)
TABLES: Final = ("periods", "refusals", "marks")
_OF_AGENTS: Final = (
    "rewards {integer} NOT NULL DEFAULT 0",
    "reward_total {real} NOT NULL DEFAULT 0",
    "held {integer} NOT NULL DEFAULT 0",
)
_ADD: Final = (
    f"INSERT INTO periods (model, span, start, {_SUMS}) "
    f"VALUES (?, ?, ?, {', '.join('?' * len(FIELDS))}) ON CONFLICT (model, span, start) DO UPDATE "
    f"SET {', '.join(f'{name} = periods.{name} + excluded.{name}' for name in FIELDS)}"
)
_REFUSED: Final = (
    "INSERT INTO refusals (model, status, field, count, agent, message, at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (model, status, field) DO UPDATE SET "
    "count = refusals.count + excluded.count, agent = excluded.agent, "
    "message = excluded.message, at = excluded.at"
)


def add_progress(session: Session) -> None:
    """6 to 7: what became of models over time, and what agents hold and earned."""
    words = asdict(session.dialect)
    for table in _TABLES:
        session.run(table.format(**words))
    for column in _OF_AGENTS:
        session.run(f"ALTER TABLE agents ADD COLUMN {column.format(**words)}")


def add_periods(session: Session, model: str, periods: Iterable[Period]) -> None:
    """Add to the sums of periods, which may be there already."""
    session.run_many(
        _ADD, [(model, each.span, each.start, *values_of(each.progress)) for each in periods]
    )


def add_minute(session: Session, model: str, at: float, progress: Progress) -> None:
    """Add to the sums of the minute that a time lies in."""
    session.run(_ADD, (model, MINUTE, start_of(at, MINUTE), *values_of(progress)))


def fold(session: Session, model: str, now: float) -> None:
    """Fold periods that are too fine for their age into coarser ones."""
    gone, made = folded(select_periods(session, model), now=now)
    add_periods(session, model, made)
    session.run_many(
        "DELETE FROM periods WHERE model = ? AND span = ? AND start = ?",
        [(model, each.span, each.start) for each in gone],
    )


def select_periods(session: Session, model: str) -> list[Period]:
    """Return the periods of a model, by time."""
    rows = session.run(
        f"SELECT span, start, {_SUMS} FROM periods WHERE model = ? ORDER BY start, span", (model,)
    )
    return [Period(span, start, progress_of(values)) for span, start, *values in rows]


def select_totals(session: Session) -> dict[str, Progress]:
    """Return the sums over all periods, by model."""
    sums = ", ".join(f"SUM({name})" for name in FIELDS)
    rows = session.run(f"SELECT model, {sums} FROM periods GROUP BY model")
    return {model: progress_of(_typed(values)) for model, *values in rows}


def _typed(values: Sequence[float]) -> list[float]:
    """Return sums of whole numbers as such: PostgreSQL makes decimals of them."""
    named = zip(FIELDS, values, strict=True)
    return [int(value) if name in _WHOLE else float(value) for name, value in named]


def select_refusals(session: Session, model: str) -> list[Refused]:
    """Return what uploads of a model were refused for, the latest first."""
    rows = session.run(
        "SELECT status, field, count, agent, message, at FROM refusals WHERE model = ? "
        "ORDER BY at DESC, status, field",
        (model,),
    )
    names = ("status", "field", "count", "agent", "message", "at")
    return [Refused(**dict(zip(names, row, strict=True))) for row in rows]


def write_traffic(session: Session, traffic: Traffic) -> None:
    """Add what happened to a model besides merging."""
    model = traffic.model
    add_minute(session, model, traffic.start, traffic.progress)
    session.run_many(
        _REFUSED,
        [
            (model, each.status, each.field, each.count, each.agent, each.message, each.at)
            for each in traffic.refused
        ],
    )
    session.run_many(
        "UPDATE agents SET held = ? WHERE model = ? AND agent = ? AND held < ?",
        [(version, model, agent, version) for agent, version in sorted(traffic.held.items())],
    )


def select_mark(session: Session, model: str) -> bytes:
    """Return the estimate that was marked last; no bytes if none was."""
    rows = session.run("SELECT theta FROM marks WHERE model = ?", (model,))
    return bytes(rows[0][0]) if rows else b""


def write_mark(session: Session, model: str, theta: bytes) -> None:
    """Mark an estimate, in place of the one before."""
    session.run(
        "INSERT INTO marks (model, theta) VALUES (?, ?) "
        "ON CONFLICT (model) DO UPDATE SET theta = excluded.theta",
        (model, theta),
    )
