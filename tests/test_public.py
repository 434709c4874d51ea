"""What users import: complete, documented, and light."""

import doctest
import subprocess
import sys

import pytest

import fedbandit as fb


def test_every_public_name_is_there_and_documented() -> None:
    for name in fb.__all__:
        thing = getattr(fb, name)
        assert isinstance(thing, dict) or thing.__doc__, name


def test_the_module_docstring_runs() -> None:
    assert doctest.testmod(fb).failed == 0


LAB = [
    "joblib",
    "rich",
    "matplotlib",
    "pyarrow",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "jinja2",
    "pandas",
    "polars",
]

BARE = f"""
import sys
for name in {LAB!r}:
    sys.modules[name] = None
import fedbandit as fb
world = fb.worlds.Classification(data="satimage", agents=2)
recipe = fb.FSCLB(dimension=world.dimension, sketch_size=5, agents=2)
print(fb.simulate(recipe, world, rounds=50))
"""


def test_the_bare_package_needs_numpy_and_msgspec_alone() -> None:
    run = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Trace(rounds=50")


@pytest.mark.parametrize("name", ["lab", "cli", "testing"])
def test_importing_the_package_does_not_import_the_upper_rooms(name: str) -> None:
    program = (
        f"import sys, fedbandit; print('fedbandit.{name}' in sys.modules, 'pytest' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False"]
