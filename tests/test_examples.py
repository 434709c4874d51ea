"""The programs in examples/ run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(program: Path) -> None:
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert run.stdout
