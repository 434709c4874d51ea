"""A world of Gaussian arms and a linear reward."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import real, whole
from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.worlds.round import Round
from fedbandit.worlds.tape import MOST, block_length, lengths, streams

SPECTRA = ("isotropic", "low-rank", "power-law")
"""The shapes of the arms' covariance."""


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Linear rewards on fresh Gaussian arms, as in the paper's synthetic experiments.

    Every round an agent, uniform at random, is shown ``arms`` Gaussian vectors of length
    ``dimension``. Arm x pays <x, theta> plus ``noise`` times a standard normal, drawn for every
    arm whether played or not. theta is uniform on the unit sphere. ``norm`` is the length that
    every arm is scaled to; None leaves arms as drawn.

    ``spectrum`` is the covariance of the arms before scaling:

    - ``"isotropic"``: the identity.
    - ``"low-rank"``: the identity on a random subspace of ``rank`` dimensions (a fifth of
      ``dimension`` unless given), zero outside. theta lies in the same subspace: what lies outside
      it no arm can show, so it would only make the signal weaker by sqrt(rank / dimension).
    - ``"power-law"``: eigenvalues 1, 2^-decay, 3^-decay, ... (``decay`` is 1 unless given) along
      randomly turned axes. theta does not depend on the axes.

    A world is a tape: the same parameters give the same rounds, bit for bit, and a shorter run is a
    prefix of a longer one. A round costs one normal draw per number in ``arms``, and for the two
    spectra that turn also two Fourier transforms per arm.
    """

    dimension: int
    arms: int
    agents: int
    noise: float = 0.1
    seed: int = 0
    spectrum: str = "isotropic"
    rank: int | None = None
    decay: float | None = None
    norm: float | None = 1.0

    def __post_init__(self) -> None:
        if self.spectrum not in SPECTRA:
            raise unknown("spectrum", str(self.spectrum), SPECTRA)
        checked: dict[str, object] = {
            "dimension": whole("dimension", self.dimension, least=1, most=MOST),
            "arms": whole("arms", self.arms, least=1, most=MOST),
            "agents": whole("agents", self.agents, least=1, most=MOST),
            "noise": real("noise", self.noise, zero=True),
            "seed": whole("seed", self.seed, least=0),
        }
        if self.norm is not None:
            checked["norm"] = real("norm", self.norm)
        if self.rank is not None:
            self._only_for("rank", "low-rank")
            checked["rank"] = whole("rank", self.rank, least=1, most=self.dimension)
        if self.decay is not None:
            self._only_for("decay", "power-law")
            checked["decay"] = real("decay", self.decay, zero=True)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values with defaults filled in."""
        return {
            "dimension": self.dimension,
            "arms": self.arms,
            "agents": self.agents,
            "noise": self.noise,
            "seed": self.seed,
            "spectrum": self.spectrum,
            "rank": self._rank if self.spectrum == "low-rank" else None,
            "decay": self._decay if self.spectrum == "power-law" else None,
            "norm": self.norm,
        }

    @cached_property
    def theta(self) -> NDArray[np.float64]:
        """The true parameter, of length 1."""
        stream, axes, *_ = streams(self.seed, 2)
        direction = stream.standard_normal(len(self._deviations()))
        theta = self._turn(direction / lengths(direction), self._signs(axes))
        theta.setflags(write=False)
        return theta

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        _, axes, agents, arms, noise = streams(self.seed, 5)
        signs = self._signs(axes)
        length = block_length(self.arms * self.dimension)
        while True:
            block = self._draw(arms, length, signs)
            means: NDArray[np.float64] = np.einsum("rkd,d->rk", block, self.theta)
            rewards = means + self.noise * noise.standard_normal(means.shape)
            active = agents.integers(self.agents, size=length).tolist()
            yield from map(Round, active, block, means, rewards)

    def _draw(
        self, stream: np.random.Generator, length: int, signs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the arms of the next ``length`` rounds: length x arms x dimension."""
        deviations = self._deviations()
        block = stream.standard_normal((length, self.arms, len(deviations)))
        if self.spectrum != "isotropic":
            block = self._turn(block * deviations, signs)
        if self.norm is not None:
            block *= (self.norm / lengths(block))[..., np.newaxis]
        return block

    def _deviations(self) -> NDArray[np.float64]:
        """Return an arm's standard deviations along its principal axes, those that are not 0."""
        if self.spectrum == "low-rank":
            return np.ones(self._rank)
        if self.spectrum == "power-law":
            eigenvalues = np.arange(1, self.dimension + 1, dtype=np.float64) ** -self._decay
            return np.sqrt(eigenvalues)
        return np.ones(self.dimension)

    def _signs(self, stream: np.random.Generator) -> NDArray[np.float64]:
        return 2 * stream.integers(2, size=self.dimension).astype(np.float64) - 1

    def _turn(self, rows: NDArray[np.float64], signs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn principal axes into random directions; rows shorter than ``dimension`` are padded.

        Hartley transform, random signs, Hartley transform: orthogonal, O(d log d) a row, and it
        spreads every axis over all coordinates. A dense random rotation would go through BLAS,
        whose rounding follows the number of threads.
        """
        if self.spectrum == "isotropic":
            return rows
        return _hartley(signs * _hartley(rows, self.dimension), self.dimension)

    def _only_for(self, name: str, spectrum: str) -> None:
        if self.spectrum != spectrum:
            raise InvalidParameter(
                complaint(
                    name,
                    got=f"{getattr(self, name)!r} with spectrum {self.spectrum!r}",
                    expected=f"{name} only with spectrum {spectrum!r}",
                    fix=f"Leave {name} out, or set spectrum={spectrum!r}.",
                )
            )

    @property
    def _rank(self) -> int:
        return max(1, self.dimension // 5) if self.rank is None else self.rank

    @property
    def _decay(self) -> float:
        return 1.0 if self.decay is None else self.decay


def _hartley(rows: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return the orthonormal Hartley transform of every row, padded with zeros to ``dimension``."""
    spectrum = np.fft.fft(rows, n=dimension, norm="ortho")
    transformed: NDArray[np.float64] = spectrum.real - spectrum.imag
    return transformed
