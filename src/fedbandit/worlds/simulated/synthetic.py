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
from fedbandit.worlds.simulated.rewards import checked_rewards, paid
from fedbandit.worlds.tape import MOST, block_length, lengths, streams, with_constant

SPECTRA = ("isotropic", "low-rank", "power-law")
"""The shapes of the arms' covariance."""

SUBSPACES = ("shared", "own")
"""Whether the agents' low-rank arms lie in one subspace or each in its own."""


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Linear rewards on fresh Gaussian arms, as in the paper's synthetic experiments.

    Every round an agent, uniform at random, is shown ``arms`` Gaussian vectors of length
    ``dimension``. Arm x pays <x, theta> plus ``noise`` times a standard normal, drawn for every
    arm whether played or not. theta is uniform on the sphere of radius ``signal``. ``norm`` is the
    length that every arm is scaled to; None leaves arms as drawn.

    ``spectrum`` is the covariance of the arms before scaling:

    - ``"isotropic"``: the identity.
    - ``"low-rank"``: the identity on a random subspace of ``rank`` dimensions (a fifth of
      ``dimension`` unless given), zero outside. theta lies in the same subspace: what lies outside
      it no arm can show, so it would only make the signal weaker by sqrt(rank / dimension).
      ``subspaces="own"`` gives every agent a subspace of its own; theta then depends on none.
    - ``"power-law"``: eigenvalues 1, 2^-decay, 3^-decay, ... (``decay`` is 1 unless given) along
      randomly turned axes. theta does not depend on the axes.

    ``mean`` adds an intercept: the last feature of every arm is a constant 1, rewards are higher
    by ``mean``, and the other ``dimension`` - 1 features are as said above. ``rewards`` makes them
    ``"clicks"`` (0 or 1) or ``"ratings"`` (whole, 1 to 5) whose mean is the arm's score cut to
    their range; ``noise`` is for ``"gaussian"`` alone.

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
    subspaces: str = "shared"
    signal: float = 1.0
    mean: float | None = None
    rewards: str = "gaussian"

    def __post_init__(self) -> None:
        if self.spectrum not in SPECTRA:
            raise unknown("spectrum", str(self.spectrum), SPECTRA)
        if self.subspaces not in SUBSPACES:
            raise unknown("subspaces", str(self.subspaces), SUBSPACES)
        least = 1 if self.mean is None else 2
        checked: dict[str, object] = {
            "dimension": whole("dimension", self.dimension, least=least, most=MOST),
            "arms": whole("arms", self.arms, least=1, most=MOST),
            "agents": whole("agents", self.agents, least=1, most=MOST),
            "seed": whole("seed", self.seed, least=0),
            **checked_rewards(self.rewards, noise=self.noise, signal=self.signal, mean=self.mean),
        }
        if self.norm is not None:
            checked["norm"] = real("norm", self.norm)
        if self.rank is not None:
            self._only_for("rank", "low-rank")
            checked["rank"] = whole("rank", self.rank, least=1, most=self._features)
        if self.decay is not None:
            self._only_for("decay", "power-law")
            checked["decay"] = real("decay", self.decay, zero=True)
        if self.subspaces != "shared":
            self._only_for("subspaces", "low-rank")
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
            "subspaces": self.subspaces,
            "signal": self.signal,
            "mean": self.mean,
            "rewards": self.rewards,
        }

    @cached_property
    def theta(self) -> NDArray[np.float64]:
        """What scores are linear in: ``signal`` long, and ``mean`` at the end if there is one."""
        own = self.subspaces == "own"
        stream = streams(self.seed, 1)[0]
        direction = stream.standard_normal(self._features if own else len(self._deviations()))
        direction /= lengths(direction)
        theta = self.signal * (direction if own else self.turned(direction))
        if self.mean is not None:
            theta = np.append(theta, self.mean)
        theta.setflags(write=False)
        return theta

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield agents and arms, many rounds at a time: length, and length x arms x dimension."""
        _, axes, agents, arms = streams(self.seed, 4)
        own = self.subspaces == "own"
        signs = self._signs(axes, self.agents if own else 1)
        length = block_length(self.arms * self.dimension)
        while True:
            active = agents.integers(self.agents, size=length)
            block = self._draw(arms, length, signs[active, np.newaxis] if own else signs)
            yield active, block if self.mean is None else with_constant(block)

    def turned(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows that are given along the principal axes of the arms as features.

        Axes past the end of a row are 0 in it.
        """
        return self._turn(rows, self._signs(streams(self.seed, 2)[1], 1)[0])

    def _tape(self) -> Iterator[Round]:
        noise = streams(self.seed, 5)[4]
        for active, block in self.blocks():
            scores: NDArray[np.float64] = np.einsum("rkd,d->rk", block, self.theta)
            means, rewards = paid(scores, noise, kind=self.rewards, noise=self.noise)
            yield from map(Round, active.tolist(), block, means, rewards)

    def _draw(
        self, stream: np.random.Generator, length: int, signs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the arms of the next ``length`` rounds, without the constant."""
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
            eigenvalues = np.arange(1, self._features + 1, dtype=np.float64) ** -self._decay
            return np.sqrt(eigenvalues)
        return np.ones(self._features)

    def _signs(self, stream: np.random.Generator, count: int) -> NDArray[np.float64]:
        return 2 * stream.integers(2, size=(count, self._features)).astype(np.float64) - 1

    def _turn(self, rows: NDArray[np.float64], signs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn principal axes into random directions; rows shorter than a direction are padded.

        Hartley transform, random signs, Hartley transform: orthogonal, O(d log d) a row, and it
        spreads every axis over all coordinates. A dense random rotation would go through BLAS,
        whose rounding follows the number of threads.
        """
        if self.spectrum == "isotropic":
            return rows
        return _hartley(signs * _hartley(rows, self._features), self._features)

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
    def _features(self) -> int:
        """How many features an arm has besides the constant."""
        return self.dimension - (self.mean is not None)

    @property
    def _rank(self) -> int:
        return max(1, self._features // 5) if self.rank is None else self.rank

    @property
    def _decay(self) -> float:
        return 1.0 if self.decay is None else self.decay


def _hartley(rows: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return the orthonormal Hartley transform of every row, padded with zeros to ``dimension``."""
    spectrum = np.fft.fft(rows, n=dimension, norm="ortho")
    transformed: NDArray[np.float64] = spectrum.real - spectrum.imag
    return transformed
