"""A key stands for everything that decides a record, and for nothing else."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.errors import InvalidParameter
from fedbandit.lab import Task
from fedbandit.lab.runs.task import CHECKPOINTS, checkpoints
from tests.lab.tiny import ROOT, task, world

PACKAGE = Path(fb.__file__).parent
PRINT_KEY = "from tests.lab.tiny import task; print(task().key)"

OTHERS: dict[str, dict[str, Any]] = {
    "setting": {"setting": "hard"},
    "algorithm": {"algorithm": "sketched"},
    "radius label": {"radius": "tuned"},
    "rounds": {"rounds": 51},
    "trial": {"trial": 1},
    "recipe parameter": {"recipe": fb.FSCLB(dimension=4, sketch_size=3, agents=2, radius=0.31)},
    "bounds": {
        "recipe": fb.FSCLB(
            dimension=4, sketch_size=3, agents=2, radius=0.3, bounds=fb.Bounds(delta=0.02)
        )
    },
    "recipe": {"recipe": fb.CBSCFD(dimension=4, sketch_size=3, agents=2, radius=0.3)},
    "world seed": {"world": world(seed=1)},
    "world parameter": {"world": world(noise=0.2)},
    "world": {"world": fb.worlds.Classification(data="satimage", agents=2)},
}


@dataclass(frozen=True)
class Own:
    """A user's world with whatever params."""

    params: Any
    dimension: int = 4
    agents: int = 2

    def rounds(self, n: int) -> Any:
        return world().rounds(n)


def test_every_part_changes_the_key_and_no_two_alike() -> None:
    keys = {name: task(**change).key for name, change in OTHERS.items()}
    assert len({task().key, *keys.values()}) == 1 + len(OTHERS)


def test_equal_tasks_have_equal_keys_in_another_process() -> None:
    assert task() == task()
    assert _key(PRINT_KEY, cwd=ROOT) == task().key
    assert len(task().key) == 32


def test_order_of_params_does_not_matter() -> None:
    one, other = Own({"a": 1, "b": [2.5, "x"]}), Own({"b": [2.5, "x"], "a": 1})
    assert task(world=one).key == task(world=other).key


def test_numpy_and_checkpoints_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = task().key
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "0.0")
        other_numpy = task().key
    with monkeypatch.context() as patch:
        patch.setattr("fedbandit.lab.runs.task.CHECKPOINTS", CHECKPOINTS + 1)
        other_checkpoints = task().key
    assert len({before, other_numpy, other_checkpoints}) == 3
    assert task().key == before


@pytest.mark.parametrize(
    ("file", "decides"),
    [
        ("core/kernels/linalg.py", True),
        ("lab/runs/progress.py", False),
    ],
)
def test_sources_that_compute_are_part_of_the_key(tmp_path: Path, file: str, decides: bool) -> None:
    package = tmp_path / "fedbandit"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    edited = package / file
    edited.write_text(edited.read_text(encoding="utf-8") + "\n# a change\n", encoding="utf-8")
    key = _key(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {PRINT_KEY}", cwd=ROOT)
    assert (key != task().key) == decides


def test_source_of_a_users_own_world_is_part_of_the_key(tmp_path: Path) -> None:
    keys = []
    for agent in (0, 1):
        source = (
            "class Mine:\n    dimension, agents, params = 4, 2, {}\n"
            f"    def rounds(self, n):\n        return iter([{agent}])\n"
        )
        (tmp_path / "mine.py").write_text(source, encoding="utf-8")
        code = (
            f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.dont_write_bytecode = True;"
            "from mine import Mine; from tests.lab.tiny import task; print(task(world=Mine()).key)"
        )
        keys.append(_key(code, cwd=tmp_path))
    assert len(set(keys)) == 2


METHODS = {
    "method": "    def rounds(self, n): return {}",
    "nested": "    def rounds(self, n): return [x + {} for x in range(n)]",
    "property": "    @property\n    def seed(self): return {}",
    "cached": "    @cached_property\n    def seed(self): return {}",
    "static": "    @staticmethod\n    def seed(n={}): return n",
    "default": "    def rounds(self, n, *, k={}): return k",
    "constant": "    seed = {}",
    "list": "    seeds = [{}]",
    "dict": "    seeds = dict(a={})",
    "array": "    seeds = np.full(3, {})",
}


@pytest.mark.parametrize("inherited", [False, True])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_class_typed_at_a_prompt_is_known_by_what_it_does(method: str, inherited: bool) -> None:
    def typed(number: int) -> Any:
        head = "class Base:\n    dimension, agents, params = 4, 2, {}\n"
        tail = "\nclass Mine(Base): pass" if inherited else "\nMine = Base"
        names: dict[str, Any] = {
            "__name__": "__main__",
            "cached_property": cached_property,
            "np": np,
        }
        exec(head + method.format(number) + tail, names)
        return names["Mine"]()

    first, again, other = (task(world=typed(number)).key for number in (1, 1, 2))
    assert first == again != other


def test_base_of_a_users_own_world_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Child(Own):
        pass

    before = task(world=Child({})).key
    assert task(world=Child({})).key == before
    monkeypatch.setattr(Own, "rounds", lambda _self, _n: iter(()))
    assert task(world=Child({})).key != before


def test_sets_in_the_code_are_alike_in_every_process() -> None:
    lines = (
        "from tests.lab.tiny import task",
        "class Mine:",
        "    dimension, agents, params = 4, 2, {}",
        "    def rounds(self, n): return n in {'a', 'b', 'c', 'd', 'e'}",
        "print(task(world=Mine()).key)",
    )
    assert len({_key("\n".join(lines), cwd=ROOT) for _ in range(2)}) == 1


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    one = task(rounds=np.int64(50), trial=np.int32(0))
    assert (type(one.rounds), type(one.trial)) == (int, int)
    assert one.key == task().key


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (None, "without params"),
        ({"x": np.zeros(2)}, "ndarray"),
        ({"x": float("nan")}, "not JSON compliant"),
    ],
)
def test_world_that_cannot_be_named_is_refused(params: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        task(world=Own(params))


@pytest.mark.parametrize("change", [{"rounds": 0}, {"rounds": 2.5}, {"trial": -1}, {"trial": True}])
def test_numbers_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=f"Task {next(iter(change))} must be"):
        task(**change)


def test_names_itself_for_people() -> None:
    assert str(task(trial=3)) == "easy / sketch (radius 0.3), trial 3"
    assert isinstance(task(), Task)


@given(st.integers(1, 10**6))
def test_checkpoints_are_evenly_spaced_and_end_at_the_end(rounds: int) -> None:
    points = checkpoints(rounds)
    steps = np.diff([0, *points])
    assert points[-1] == rounds
    assert len(points) == min(rounds, CHECKPOINTS)
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1


def _key(code: str, *, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
