"""What people import for their tests: there, documented, and told what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedbandit as fb
from fedbandit import testing


def test_every_exported_name_is_there_and_documented() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__doc__, name


@pytest.mark.parametrize("package", ["pytest", "uvicorn"])
def test_what_is_not_installed_is_named_with_its_extra(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import fedbandit.testing"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"needs {package}" in run.stderr
    assert "pip install 'fedbandit[testing]'" in run.stderr


def test_a_recipe_that_is_not_served_is_refused_before_anything_starts() -> None:
    with (
        pytest.raises(fb.errors.InvalidParameter),
        testing.coordinator(fb.LinUCB(dimension=2)),
    ):
        pass


RECIPE = fb.FSCLB(dimension=5, sketch_size=3, agents=2)


def test_a_coordinator_in_one_line() -> None:
    with testing.coordinator(RECIPE) as served, served.connect("phone") as agent:
        agent.reward(agent.decide([[1.0, 0.0, 0.0, 0.0, 0.0]]).id, 1.0)
        assert agent.sync(everything=True)
        assert served.state().count == 1
        with pytest.raises(fb.errors.Refused):
            fb.connect(served.url, model=served.model, agent="tablet", token=served.token("phone"))


CLASS = """
from fedbandit.core.parts.parts import Parts
from fedbandit.core.memory.gram_memory import GramMemory
from fedbandit.core.recipe import recipe
from fedbandit.testing import RecipeContract, StoreContract
import pytest

@recipe()
def Mine(*, dimension: int, agents: int) -> Parts:
    return Parts(memory=GramMemory(dimension, ridge=1.0))

class TestMine(RecipeContract):
    @pytest.fixture
    def recipe(self):
        return Mine(dimension=3, agents=2)

class TestMyStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        return lambda: None
"""


def test_pytest_collects_a_subclass_and_says_what_it_lacks(tmp_path: Path) -> None:
    (file := tmp_path / "test_mine.py").write_text(CLASS)
    chosen = "rebuilt_from or be_pinged"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "Mine is not in fedbandit.RECIPES. Give the test class a fixture" in run.stdout
    assert "store.ping()" in run.stdout
