"""The stored runs of one algorithm in one setting, as arrays: trials x checkpoints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.lab.runs.columns import PARAMETERS, parameter_values

MEASURES = ("reward", "regret", "seconds", "uploads", "scalars", "bytes")
LABELS = ("setting", "algorithm", "radius", "rounds")


@dataclass(frozen=True)
class Curves:
    """Every trial of one algorithm in one setting with one radius.

    ``checkpoints`` are the rounds that were recorded; ``values[measure]`` is a matrix of trials x
    checkpoints, cumulative, its rows in the order of ``trials``.
    """

    setting: str
    algorithm: str
    radius: str
    rounds: int
    trials: tuple[int, ...]
    checkpoints: NDArray[np.int64]
    values: Mapping[str, NDArray[np.float64]]
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Every parameter of the first trial by its column, with ``world`` and ``recipe``."""

    @property
    def family(self) -> str:
        """The name of the recipe in its spec, which the points of a sweep share."""
        return str(self.params.get("recipe") or self.algorithm)

    @property
    def world(self) -> str:
        """The name of the world in its spec, which the points of a sweep share."""
        return str(self.params.get("world") or self.setting)

    def final(self, measure: str) -> NDArray[np.float64]:
        """Return what was reached after the last round, one number per trial."""
        if measure not in self.values:
            raise unknown("Curves.final", measure, self.values)
        return self.values[measure][:, -1]


def curves(runs: pa.Table) -> list[Curves]:
    """Split a table of runs (``records.SCHEMA``) by setting, algorithm, radius and rounds."""
    order = [(name, "ascending") for name in (*LABELS, "trial", "round")]
    table = runs.sort_by(order)
    labels = [table.column(name).to_pylist() for name in LABELS]
    return [_gather(table.slice(start, stop - start)) for start, stop in _stretches(labels)]


def pick(
    found: Iterable[Curves], *, setting: str, algorithm: str, radius: str | None = None
) -> Curves | None:
    """Return the curves of an algorithm in a setting, with this radius or kind of radius.

    "tuned" finds "tuned (0.3)"; None finds any.
    """
    for each in found:
        kind = each.radius.partition(" (")[0]
        here = each.setting == setting and each.algorithm == algorithm
        if here and radius in (None, kind, each.radius):
            return each
    return None


def unfinished(found: Sequence[Curves]) -> list[str]:
    """Return a line for every curve that lacks trials which others have."""
    trials = {trial for each in found for trial in each.trials}
    return [
        f"{each.setting} / {each.algorithm} (radius {each.radius}) has {len(each.trials)} "
        f"of {len(trials)} trials"
        for each in found
        if len(each.trials) < len(trials)
    ]


def _stretches(labels: list[list[object]]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of every stretch of rows that carry the same labels."""
    rows = list(zip(*labels, strict=True))
    start = 0
    for row in range(1, len(rows) + 1):
        if row == len(rows) or rows[row] != rows[start]:
            yield start, row
            start = row


def _gather(table: pa.Table) -> Curves:
    setting, algorithm, radius, rounds = (table.column(name)[0].as_py() for name in LABELS)
    trials = np.unique(table.column("trial").to_numpy())
    at = table.column("round").to_numpy()
    checkpoints = np.unique(at).astype(np.int64)
    shape = (trials.size, checkpoints.size)
    if table.num_rows != trials.size * checkpoints.size or np.any(at.reshape(shape) != checkpoints):
        raise InvalidParameter(
            complaint(
                "curves",
                got=f"several results for one trial of {algorithm} ({radius}) in {setting!r}",
                expected="one run per setting, algorithm, radius, rounds and trial",
                fix="The directory holds runs of another version or spec: use a fresh --out.",
            )
        )
    values = {
        name: table.column(name).to_numpy().astype(np.float64).reshape(shape) for name in MEASURES
    }
    return Curves(
        setting,
        algorithm,
        radius,
        rounds,
        tuple(trials.tolist()),
        checkpoints,
        values,
        _params(table),
    )


def _params(table: pa.Table) -> dict[str, Any]:
    """Return what the first record says of its parameters, without those it does not have."""
    names = [name for name in PARAMETERS.names if name in table.column_names]
    first = table.slice(0, 1).select(names).to_pylist()[0]
    given = parameter_values(first.pop("parameters", "") or "")
    known = {name: value for name, value in first.items() if value is not None}
    return {**given, **known}
