"""Compile numeric functions with numba if it is installed; run them as plain numpy if not.

A function marked ``@kernel`` is ordinary numpy code. It is compiled at its first call, not when it
is imported, and the compiled code is cached on disk for the next process. A kernel may call other
kernels, and is then compiled together with them, once more: large ones are better called by Python
one after the other (``@steps_or``). ``FEDBANDIT_COMPILE=0`` turns compiling off.

Sums may be taken in any order (``fastmath``), but in the same one each time. So a loop that adds
up must not write to an array as well: compiled, it may go by the distance of arrays in memory
whether it takes several numbers at once.

A kernel that is written as loops, fast when compiled and slow as Python, names a numpy function to
run without a compiler: ``@kernel_or(plain)``. Tests make sure that the two agree.
"""

import gc
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

_WORTH_MENTIONING = 1.0  # seconds of compiling after which what was compiled is logged
_not_mentioned: dict[str, float] = {}  # seconds that functions took to compile


class Kernel(Generic[P, R]):
    """A function that compiles ``source`` when it is first called, or runs ``plain``.

    ``kernel.run(...)`` is the same as ``kernel(...)`` and 0.3 microseconds faster. ``lets_go``:
    release the GIL while it runs. ``exact``: round every step as Python does. ``part``: other
    kernels alone call it, so it is compiled without what Python needs to call it. ``steps``: it
    is never compiled, but only run if kernels are.
    """

    def __init__(
        self,
        source: Callable[P, R],
        plain: Callable[P, R],
        *,
        lets_go: bool = False,
        exact: bool = False,
        part: bool = False,
        steps: bool = False,
    ) -> None:
        update_wrapper(self, source)
        self.source, self.plain, self._lets_go, self._exact = source, plain, lets_go, exact
        self._part = part
        self._next_time = "later processes load it from the cache"
        quiet = np.errstate(all="ignore")(plain)  # compiled code does not warn either
        self.run: Callable[P, R] = quiet
        if COMPILES and not part:
            self.run = source if steps else self._compile_and_run

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
            "fastmath": set() if self._exact else {"reassoc", "contract", "arcp"},
            "nogil": self._lets_go,
            "no_cpython_wrapper": self._part,
            "no_cfunc_wrapper": True,
        }
        try:
            return cast(Callable[P, R], numba.njit(linked, cache=True, **how))
        except RuntimeError:  # no directory for the cache: a read-only install without a home
            self._next_time = "set NUMBA_CACHE_DIR, so that later processes load it from a cache"
            return cast(Callable[P, R], numba.njit(linked, **how))

    def _compile_and_run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self.run = self.compiled
        start, collects = perf_counter(), gc.isenabled()
        gc.disable()  # a compiler makes many objects and few cycles: 6 % less time
        try:
            result = self.run(*args, **kwargs)
        finally:
            if collects:
                gc.enable()
        if cast(Any, self.compiled).stats.cache_misses:
            _not_mentioned[self.source.__name__] = perf_counter() - start
            seconds = sum(_not_mentioned.values())
            if seconds > _WORTH_MENTIONING:
                names = ", ".join(_not_mentioned)
                _not_mentioned.clear()
                logging.getLogger("fedbandit").info(
                    "compiled %s in %.1f s; %s", names, seconds, self._next_time
                )
        return result


def version() -> str | None:
    """Return numba's version, or None if nothing is compiled."""
    from importlib import metadata  # slow to import, and not needed to decide

    return metadata.version("numba") if COMPILES else None


def load() -> None:
    """Import numba and its BLAS now rather than at the first call of a kernel."""
    if COMPILES:
        for name in _NEEDS:
            import_module(name)
        import_module("scipy.linalg")


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function to be compiled when it is first called."""
    return Kernel(function, function)


def long_kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function as ``kernel`` does; it releases the GIL, since it runs long."""
    return Kernel(function, function, lets_go=True)


def part(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function as ``kernel`` does; only kernels call it. Called by Python it is Python."""
    return Kernel(function, function, part=True)


def exact_kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function as ``kernel`` does; compiled, it returns the bits that Python does."""
    return Kernel(function, function, exact=True)


def kernel_or(
    plain: Callable[P, R], *, exact: bool = False
) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Mark a function to be compiled, and name the one to run without a compiler."""
    return lambda source: Kernel(source, plain, exact=exact)


def steps_or(plain: Callable[P, R]) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Mark a function that calls kernels one after the other, and name the one to run without.

    It stays Python: compiled as one, its kernels would all be compiled again with it.
    """
    return lambda source: Kernel(source, plain, steps=True)
