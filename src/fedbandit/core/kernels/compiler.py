"""The compiler, behind one door: numba where it is installed, plain numpy where it is not.

A function marked ``@kernel`` is ordinary numpy code. It is compiled at its first call, not when it
is imported, and the compiled code is kept on disk for the next process. A kernel may call other
kernels of its own module. ``FEDBANDIT_COMPILE=0`` turns compiling off.

A kernel that must be a loop to be fast, and would crawl as Python, names the numpy function that
stands in for it where nothing is compiled: ``@kernel_or(plain)``. Tests hold the two equal.
"""

import logging
import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from types import FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_NEEDS = ("numba", "scipy")  # numba finds BLAS and LAPACK in scipy

COMPILES: Final = os.environ.get("FEDBANDIT_COMPILE") != "0" and all(map(find_spec, _NEEDS))
"""Whether kernels are compiled in this process."""

_WORTH_MENTIONING = 1.0  # seconds


class Kernel(Generic[P, R]):
    """A function that compiles ``source`` when it is first called, or runs ``plain``.

    ``kernel.run(...)`` is ``kernel(...)`` without the third of a microsecond that the detour costs.
    """

    def __init__(
        self, source: Callable[P, R], plain: Callable[P, R], *, lets_go: bool = False
    ) -> None:
        update_wrapper(self, source)
        self.source, self.plain, self._lets_go = source, plain, lets_go
        self._next_time = "the next process finds it ready"
        quiet = np.errstate(all="ignore")(plain)  # as compiled code is
        self.run: Callable[P, R] = self._compile_and_run if COMPILES else quiet

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it."""
        return self.run(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The function as numba sees it, the kernels that it calls included."""
        import numba

        source = cast(FunctionType, self.source)
        names: dict[str, Any] = dict(source.__globals__)
        for name in source.__code__.co_names:
            if isinstance(other := names.get(name), Kernel):
                names[name] = other.compiled
        linked = update_wrapper(FunctionType(source.__code__, names, source.__name__), source)
        how: dict[str, Any] = {
            "error_model": "numpy",
            "fastmath": {"reassoc", "contract", "arcp"},
            "nogil": self._lets_go,
        }
        try:
            return cast(Callable[P, R], numba.njit(linked, cache=True, **how))
        except RuntimeError:  # nowhere to keep it: a read-only install without a home
            self._next_time = "set NUMBA_CACHE_DIR, and the next process finds it ready"
            return cast(Callable[P, R], numba.njit(linked, **how))

    def _compile_and_run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self.run = self.compiled
        start = perf_counter()
        result = self.run(*args, **kwargs)
        seconds = perf_counter() - start
        if seconds > _WORTH_MENTIONING and cast(Any, self.compiled).stats.cache_misses:
            logging.getLogger("fedbandit").warning(
                "compiled %s in %.1f s; %s", self.source.__name__, seconds, self._next_time
            )
        return result


def version() -> str | None:
    """Return the compiler's version, or None where nothing is compiled."""
    from importlib import metadata  # slow to import, and not needed to decide

    return metadata.version("numba") if COMPILES else None


def load() -> None:
    """Import the compiler now, with the BLAS that it brings, rather than at the first call."""
    if COMPILES:
        for name in _NEEDS:
            import_module(name)
        import_module("scipy.linalg")


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function to be compiled when it is first called."""
    return Kernel(function, function)


def long_kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function that takes so long that other threads should run meanwhile."""
    return Kernel(function, function, lets_go=True)


def kernel_or(plain: Callable[P, R]) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Mark a function to be compiled, and name the one to run where nothing is compiled."""
    return lambda source: Kernel(source, plain)
