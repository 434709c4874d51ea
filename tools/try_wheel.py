"""Install a wheel alone into an empty environment, and try what has to work there.

``python tools/try_wheel.py dist/fedbandit-*.whl``: numpy and msgspec are all that may come with it.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ALLOWED = {"fedbandit", "numpy", "msgspec", "pip", "setuptools"}

TRIAL = """
import fedbandit as fb
from fedbandit.errors import Unreachable

world = fb.worlds.Synthetic(dimension=8, arms=5, agents=3, seed=0)
for recipe in (fb.FSCLB.lean(dimension=8, agents=3), fb.FedLinUCB(dimension=8, agents=3)):
    trace = fb.simulate(recipe, world, rounds=300)
    print(recipe.label, round(float(trace.regret[-1]), 2), int(trace.bytes[-1]))
data = fb.worlds.Classification(data="satimage", agents=3)
fb.simulate(fb.LinUCB(dimension=data.dimension, agents=3), data, rounds=50)
try:
    fb.connect("http://127.0.0.1:9", model="m", agent="a", timeout=1.0)
except Unreachable as error:
    print("no coordinator, as it should be:", str(error).partition(":")[0])
"""


def main(wheel: Path) -> None:
    """Install and try it; exit with what is wrong."""
    with tempfile.TemporaryDirectory(prefix="fedbandit-wheel-") as place:
        venv.create(place, with_pip=True)
        bin = Path(place) / ("Scripts" if sys.platform == "win32" else "bin")
        python = str(bin / "python")
        quietly = ["--quiet", "--disable-pip-version-check"]
        _run(python, "-m", "pip", "install", *quietly, str(wheel.resolve()), at=place)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format", "json", at=place))
        installed = {each["name"].lower() for each in listed}
        if installed - ALLOWED:
            raise SystemExit(f"the bare wheel brings more than it may: {installed - ALLOWED}")
        print(_run(python, "-c", TRIAL, at=place), end="")
        command = str(bin / "fedbandit")
        for words in ((), ("--version",), ("list", "--json"), ("doctor", "--json")):
            _run(command, *words, at=place)
        told = _run(command, "run", "none.toml", "--out", "x", at=place, code=2)
        if "pip install 'fedbandit[lab]'" not in told:
            raise SystemExit(f"fedbandit run does not say which extra it needs: {told}")
    print(f"{wheel.name}: works with numpy and msgspec alone")


def _run(*command: str, at: str, code: int = 0) -> str:
    """Run a command outside of the repository; return what it says."""
    done = subprocess.run(
        command,
        cwd=at,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if "PYTHON" not in name},
    )
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
