"""Execute the notebooks in docs/notebooks and write them, with their output, as .ipynb files.

``python tools/run_notebooks.py OUT [--short]``. They are kept as plain Python (jupytext's percent
format), so that changes can be read; a cell that raises ends this with its error.
"""

import argparse
import os
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

SOURCES = Path(__file__).parent.parent / "docs" / "notebooks"
PATIENCE = 900


def main() -> None:
    """Execute all notebooks."""
    parser = argparse.ArgumentParser(description="Execute the notebooks.")
    parser.add_argument("out", type=Path, help="directory for the executed notebooks")
    parser.add_argument("--short", action="store_true", help="fewer visits, a few seconds each")
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    if given.short:
        os.environ["FEDBANDIT_SHORT"] = "1"
    given.out.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.py")):
        began = time.monotonic()
        notebook = jupytext.read(source)
        client = NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name="python3",
            resources={"metadata": {"path": str(SOURCES)}},
        )
        client.execute()
        target = given.out / f"{source.stem}.ipynb"
        nbformat.write(notebook, target)  # type: ignore[no-untyped-call]
        print(f"{target}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
