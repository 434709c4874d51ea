"""Run the notebooks in examples/notebooks, and write them with their output to a directory.

``python tools/notebooks.py OUT`` runs all of them, ``python tools/notebooks.py OUT NAME ...`` some.
"""

import sys
from pathlib import Path

import jupytext
from nbclient import NotebookClient

SOURCES = Path(__file__).parents[1] / "examples" / "notebooks"


def main(out: Path, *names: str) -> None:
    """Run the notebooks of these names, or all."""
    out.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.py")):
        if names and source.stem not in names:
            continue
        print(f"running {source.name}", flush=True)
        notebook = jupytext.read(source)
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
        jupytext.write(notebook, out / f"{source.stem}.ipynb")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
