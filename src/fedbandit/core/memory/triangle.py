"""A Gram matrix as its upper triangle, rounded for sending so that it never becomes smaller."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.memory.summary import Gram

GramWire = Literal["full", "float64", "float32", "float16", "int8"]
GRAM_WIRES: Final[tuple[GramWire, ...]] = get_args(GramWire)

EXACT: Final = "float64"
"""The width in which nothing is rounded."""

MOST_ROUNDINGS: Final = 3
"""Of an observation: when it was made, joined with others while waiting, and under a new life."""

_LOWER_HALF, _UPPER_HALF = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)
_SHORT = 2.0**-20  # relative step of a float64 whose lower half is 0
_SAFE, _SLIP = 1.0 + 1e-9, 1e-15  # for the rounding of the bound's own arithmetic


@dataclass(frozen=True, slots=True)
class TriangleCodes:
    """How a number from -1 to 1 is written: ``top`` times it, as ``dtype``.

    ``unit`` bounds the rounding error of such a number.
    """

    dtype: str
    top: float
    unit: float


TRIANGLE_CODES: Final = {
    "float64": TriangleCodes("<f8", 1.0, 0.0),
    "float32": TriangleCodes("<f4", 1.0, 2.0**-25),
    "float16": TriangleCodes("<f2", 1.0, 2.0**-12),
    "int8": TriangleCodes("|i1", 127.0, 1.0 / 254.0),
}
"""The widths by name."""


@dataclass(frozen=True, eq=False)
class Triangle:
    """A Gram matrix as it is sent: its ``diagonal`` g (d), and the numbers above it as ``codes``.

    ``codes`` are row after row. In float64 they are the numbers themselves, and nothing is rounded.
    In narrower widths they stand for ratios c_ij from -1 to 1, a number being c_ij sqrt(g_i g_j);
    for a Gram matrix A such ratios exist, because |a_ij| <= sqrt(a_ii a_jj). Each g_i is a_ii
    rounded up to 4 bytes. ``raised`` is what makes up for rounding. With D = diag(g) and A' the
    matrix that diagonal and ratios alone give, let

        N = D^(-1/2) (A - A') D^(-1/2) <= raised I,    B = A' + raised D.

    Then A = A' + D^(1/2) N D^(1/2) <= B. This ``matrix`` B is what the triangle stands for: at
    least A in every direction, and exact in coordinates that were never played (g_i = 0). ``shed``
    bounds the largest eigenvalue of B - X^T X, with everything that was added before.
    """

    width: str
    diagonal: Array
    codes: NDArray[Any]
    raised: float
    shed: float
    trusted: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagonal", read_only(self.diagonal))
        object.__setattr__(self, "codes", read_only(self.codes))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return len(self.diagonal)

    @property
    def upload_scalars(self) -> int:
        """Matrix and moment, d (d + 1) / 2 + d; where rounded, raised and shed as well."""
        d = self.dimension
        return d * (d + 1) // 2 + d + 2 * (self.width != EXACT)

    download_scalars = upload_scalars

    @cached_property
    def matrix(self) -> Array:
        """B (d x d), symmetric to the last bit. Cost O(d^2), once."""
        d = self.dimension
        whole = np.zeros((d, d))
        whole[above(d)] = self.codes
        whole += whole.T
        if self.width != EXACT:
            roots = np.sqrt(self.diagonal)
            whole *= np.outer(roots, roots) / TRIANGLE_CODES[self.width].top
        whole.flat[:: d + 1] = (1.0 + self.raised) * self.diagonal
        return read_only(whole)

    @property
    def room(self) -> float:
        """The share by which rounding may have enlarged the trace; ``shed`` is at most twice that.

        An entry of N is at most u = ``TriangleCodes.unit``, so raised is at most u (d - 1), and g_i
        at most 1 + 2^-20 times a_ii. The result allows for three roundings. It is 0 in float64.
        """
        if self.width == EXACT:
            return 0.0
        once = TRIANGLE_CODES[self.width].unit * self.dimension + _SHORT
        return float((1.0 + once) ** MOST_ROUNDINGS - 1.0 + 1e-6)

    def gram(self) -> Gram:
        """Return it as a Gram matrix that can be read."""
        return Gram(self.matrix, self.shed)


def triangle_of(gram: Gram, width: str) -> Triangle:
    """Return a Gram matrix as it is sent in this width. Cost O(d^2), O(d^3) if it is rounded."""
    d, diagonal = gram.dimension, gram.matrix.diagonal() + 0.0
    if width == EXACT:
        return Triangle(width, diagonal, gram.matrix[above(d)], 0.0, gram.shed)
    diagonal = _rounded_up(diagonal)
    roots = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    ratios = gram.matrix / roots[:, None] / roots
    form = TRIANGLE_CODES[width]
    scaled = form.top * np.clip(ratios[above(d)], -1.0, 1.0)
    codes = (np.rint(scaled) if np.issubdtype(form.dtype, np.integer) else scaled).astype(
        form.dtype
    )
    plain = Triangle(width, (diagonal > 0.0).astype(np.float64), codes, 0.0, 0.0)
    error = ratios - plain.matrix  # the N of ``Triangle``
    if not error.any():
        return Triangle(width, diagonal, codes, 0.0, gram.shed)
    eigenvalues = np.linalg.eigvalsh(error)
    raised = max(0.0, _SAFE * float(eigenvalues[-1])) + _SLIP * d
    added = _SAFE * (raised - float(eigenvalues[0])) * float(diagonal.max())
    return Triangle(width, diagonal, codes, raised, gram.shed + added)


@lru_cache(maxsize=8)
def above(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries above the diagonal, row after row."""
    rows, columns = np.triu_indices(dimension, 1)
    return rows, columns


def _rounded_up(numbers: Array) -> Array:
    """Return the next float64 numbers >= 0 whose lower 32 bits are 0: four bytes hold each."""
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    return ((bits + _LOWER_HALF) & _UPPER_HALF).view(np.float64)
