"""Kernels compile when first called and not before, and say so when that takes long."""

import os
import subprocess
import sys

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
