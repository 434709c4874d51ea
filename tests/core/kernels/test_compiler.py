"""Kernels compile when first called and not before, and say so when that takes long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
import fedbandit as fb
print("numba" in sys.modules)
agent = fb.FSCLB(dimension=3, sketch_size=2, agents=1).agent(0)
print(agent.choose([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("switch", "compiles"), [("1", True), ("0", False)])
def test_importing_compiles_nothing(switch: str, compiles: bool) -> None:
    environment = os.environ | {"FEDBANDIT_COMPILE": switch}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "1", str(compiles)]


WITHOUT = "import sys; sys.modules['numba'] = None\n" + PROGRAM.replace(
    '"numba" in sys.modules', "1"
)


def test_without_numba_the_same_source_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["1", "1", "1"]


KERNEL = """
import logging, sys
import numba
from fedbandit.core.kernels import compiler

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
compiler._WORTH_MENTIONING = 0.0
compile = numba.njit


def without_a_place(function, *, cache=False, **how):
    if cache:
        raise RuntimeError("no locator available")
    return compile(function, **how)


@compiler.kernel
def double(x):
    return 2.0 * x


if "nowhere" in sys.argv:
    numba.njit = without_a_place
assert double(2.0) == 4.0
"""


def test_it_says_what_the_next_process_finds(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    environment = os.environ | {"FEDBANDIT_COMPILE": "1", "NUMBA_CACHE_DIR": str(tmp_path)}

    def said(*words: str) -> str:
        command = [sys.executable, str(tmp_path / "kernel.py"), *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stderr

    first = said()
    assert first.startswith("INFO compiled double in ")
    assert "s; later processes load it from the cache" in first
    assert said() == ""
    assert "s; set NUMBA_CACHE_DIR, so that later processes load it from a cache" in said("nowhere")
