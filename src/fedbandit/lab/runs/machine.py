"""What the numbers were made with: versions, BLAS, processor."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from fedbandit.core.kernels import compiler


def environment() -> dict[str, str]:
    """Return versions and machine in words, in the order in which a report shows them."""
    return {
        "fedbandit": _version("fedbandit"),
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "numpy": np.__version__,
        "numba": compiler.version() or "not used",
        "BLAS": _blas(),
        "System": platform.platform(),
        "Processor": _processor(),
        "Cores": str(os.cpu_count() or "unknown"),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _blas() -> str:
    """Name what numpy was built with; every run is held to one thread of it."""
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
