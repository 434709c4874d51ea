"""What people import from the lab: there, documented, and light until it draws."""

import doctest
import subprocess
import sys

from fedbandit import lab

PROGRAM = """
import sys
from fedbandit.lab import advise, run
print("matplotlib" in sys.modules, "jinja2" in sys.modules)
from fedbandit.lab import reproduce
from fedbandit.lab.advice import advise as same
print(same is advise, reproduce.__name__)
"""


def test_every_exported_name_is_there_and_documented() -> None:
    assert {"advise", "reproduce", "run"} <= set(lab.__all__) <= set(dir(lab))
    for name in lab.__all__:
        assert getattr(lab, name).__doc__, name


def test_the_docstring_runs() -> None:
    assert doctest.testmod(lab).failed == 0


def test_importing_the_lab_does_not_import_what_draws() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False False", "True reproduce"]
