"""Worlds need numpy; what reads other people's files is imported when a file is read."""

import subprocess
import sys


def test_optional_packages_wait_until_they_are_needed() -> None:
    program = (
        "import sys, fedbandit.worlds as worlds\n"
        "list(worlds.Synthetic(dimension=3, arms=2, agents=1).rounds(3))\n"
        "list(worlds.Classification(data='satimage').rounds(3))\n"
        "print(*sorted({'sklearn', 'pyarrow', 'scipy', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
