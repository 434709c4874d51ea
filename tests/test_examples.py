"""The programs in examples/ run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(program: Path, tmp_path: Path) -> None:
    words = ["--out", str(tmp_path / "log")] if program.name == "shop_log.py" else []
    run = subprocess.run(
        [sys.executable, program, *words], capture_output=True, text=True, check=True
    )
    assert run.stdout
