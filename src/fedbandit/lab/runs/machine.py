"""What the numbers were made with: versions, BLAS, processor."""

import os
import platform
from pathlib import Path

import numpy as np

from fedbandit import __version__
from fedbandit.core.kernels import compiler


def environment() -> dict[str, str]:
    """Return versions and machine in words, in the order in which a report shows them."""
    return {
        "fedbandit": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "numpy": np.__version__,
        "numba": compiler.version() or "not used",
        "BLAS": _blas(),
        "System": platform.platform(),
        "Processor": _processor(),
        "Cores": str(os.cpu_count() or "unknown"),
    }


def _blas() -> str:
    """Return the BLAS that numpy was built with; every run uses one thread of it."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}, one thread per run"


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        described = ""
    for line in described.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
