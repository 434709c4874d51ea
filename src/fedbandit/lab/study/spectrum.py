"""The eigenvalues that a sketch has to hold: those of the arms that were played."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from fedbandit.core.checks import whole
from fedbandit.core.kernels import compiler
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Base
from fedbandit.errors import InvalidParameter
from fedbandit.simulation import simulate
from fedbandit.worlds.round import World

_TOGETHER = 1024  # arms that are added to the Gram matrix in one go


def played_spectrum(recipe: Recipe, world: World, *, rounds: int) -> NDArray[np.float64]:
    """Return the eigenvalues of X^T X, largest first, X being the arms that the recipe plays.

    Played arms, not those that are shown: only they reach a sketch, and their spectrum falls
    faster, since a learner soon plays little but what looks like theta. Eigenvalues within
    rounding of 0 are set to 0. The tape is read twice, once to play and once to collect.
    Cost, beside the run: O(rounds d^2 + d^3).
    """
    compiler.load()  # a BLAS that is loaded later would not be limited
    with threadpool_limits(limits=1):
        return _spectrum(_played(recipe, world, rounds), world.dimension)


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues of the arms played and of one sketch of them, largest first, and its shed."""

    played: NDArray[np.float64]
    sketched: NDArray[np.float64]
    shed: float


def sketched_spectrum(recipe: Recipe, world: World, *, rounds: int) -> Spectra:
    """Return what :func:`played_spectrum` does, and what one sketch of those arms holds of it.

    The recipe must be one with sketches, of a fixed size.
    """
    compiler.load()
    memory = recipe.parts.memory
    pending = memory.pending(Base(memory.empty(), memory))

    def absorbed() -> Iterator[NDArray[np.float64]]:
        for arm in _played(recipe, world, rounds):
            pending.absorb(arm, 0.0, 0.0)
            yield arm

    with threadpool_limits(limits=1):
        played = _spectrum(absorbed(), world.dimension)
        sketch = pending.summary()
    if not isinstance(sketch, Sketch):
        raise InvalidParameter(f"{recipe.name} keeps no sketch of a fixed size. Use FSCLB.")
    sizes = np.sort((sketch.rows**2).sum(axis=1))[::-1]  # rows are orthogonal
    return Spectra(played, sizes, sketch.shed)


def _played(recipe: Recipe, world: World, rounds: int) -> Iterator[NDArray[np.float64]]:
    trace = simulate(recipe, world, rounds=rounds)
    for this, arm in zip(world.rounds(rounds), trace.arm.tolist(), strict=True):
        yield np.asarray(this.arms[arm], dtype=np.float64)


def _spectrum(arms: Iterator[NDArray[np.float64]], dimension: int) -> NDArray[np.float64]:
    gram = np.zeros((dimension, dimension))
    for block in _blocks(arms):
        gram += block.T @ block
    found = np.linalg.eigvalsh(gram)[::-1].astype(np.float64)
    noise = len(found) * np.finfo(np.float64).eps * found[0]
    return np.where(found > noise, found, 0.0)


def tail_share(eigenvalues: ArrayLike, *, sketch_size: int) -> float:
    """Return the share of the trace past the l - 1 largest: what no l - 1 rows can hold.

    0 if the trace is 0.
    """
    kept = whole("sketch_size", sketch_size, least=2) - 1
    spectrum = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    total = float(spectrum.sum())
    return float(spectrum[kept:].sum()) / total if total > 0.0 else 0.0


def _blocks(arms: Iterator[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
    while block := list(islice(arms, _TOGETHER)):
        yield np.stack(block)
