"""Experiments that take milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import fedbandit as fb
from fedbandit.lab import Task

ROOT = Path(__file__).parents[2]
"""Where programs that import these tests must start."""

WORLD = {"kind": "synthetic", "dimension": 4, "arms": 3, "agents": 2}
SPEC: Mapping[str, Any] = {
    "name": "tiny",
    "rounds": 50,
    "trials": 3,
    "seed": 7,
    "worlds": {"easy": WORLD, "noisy one": {**WORLD, "noise": 1.0}},
    "recipes": {
        "sketch": {"kind": "FSCLB", "sketch_size": 3, "radius": 0.3},
        "floor": {"kind": "Random"},
    },
}


@dataclass(frozen=True)
class Broken:
    """A world that fails in round 5, in the way it is told."""

    error: type[BaseException]
    dimension: int = 4
    agents: int = 2

    @property
    def params(self) -> dict[str, object]:
        return {"error": self.error.__name__}

    def rounds(self, n: int) -> Any:
        yield from fb.worlds.Synthetic(dimension=4, arms=3, agents=2).rounds(min(n, 5))
        raise self.error("the tape is torn")


def world(**changes: Any) -> fb.worlds.Synthetic:
    given: dict[str, Any] = {"dimension": 4, "arms": 3, "agents": 2, "seed": 0, **changes}
    return fb.worlds.Synthetic(**given)


def task(**changes: Any) -> Task:
    plain = Task(
        setting="easy",
        algorithm="sketch",
        radius="0.3",
        recipe=fb.FSCLB(dimension=4, sketch_size=3, agents=2, radius=0.3),
        world=world(),
        rounds=50,
        trial=0,
    )
    return replace(plain, **changes)


def tasks(count: int) -> list[Task]:
    return [task(trial=trial, world=world(seed=trial)) for trial in range(count)]


def without_seconds(table: pa.Table) -> pa.Table:
    """What must not depend on the machine, in an order that does not depend on the files."""
    plain = table.drop_columns(["seconds"])
    return plain.sort_by([("key", "ascending"), ("round", "ascending")])


def toml(content: Mapping[str, Any], *, path: str = "") -> str:
    """Write nested dicts of numbers and text as TOML."""
    values = {key: value for key, value in content.items() if not isinstance(value, Mapping)}
    lines = [f"[{path}]"] if path else []
    lines += [f"{key} = {_value(value)}" for key, value in values.items()]
    for key, value in content.items():
        if isinstance(value, Mapping):
            inner = f'"{key}"' if " " in key else key
            lines.append(toml(value, path=f"{path}.{inner}" if path else inner))
    return "\n".join(lines)


def write_spec(path: Path, **changes: Any) -> Path:
    path.write_text(toml({**SPEC, **changes}), encoding="utf-8")
    return path


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
