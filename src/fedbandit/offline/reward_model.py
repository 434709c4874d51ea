"""A ridge model of rewards, fitted so that no row is predicted by a model that has seen it."""

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array

FOLDS = 5


class RewardModel:
    """One ridge regression with a constant a fold, each fitted on the rows of all other folds."""

    def __init__(self, dimension: int, *, folds: int = FOLDS, ridge: float = 1.0) -> None:
        self._grams = np.zeros((folds, dimension + 1, dimension + 1))
        self._moments = np.zeros((folds, dimension + 1))
        self._ridge, self.folds = ridge, folds
        self._thetas: Array | None = None

    def add(self, folds: NDArray[np.int64], arms: Array, rewards: Array) -> None:
        """Add rows: fold (n), the arm that was played (n x d), its reward (n)."""
        extended = _with_constant(arms)
        for fold in np.unique(folds):
            rows = extended[folds == fold]
            self._grams[fold] += rows.T @ rows
            self._moments[fold] += rows.T @ rewards[folds == fold]
        self._thetas = None

    def predicted(self, fold: int, arms: Array) -> Array:
        """Return what the arms (K x d) of a row of this fold are expected to pay."""
        theta = self.thetas[fold]
        return np.asarray(arms @ theta[:-1] + theta[-1])

    @property
    def thetas(self) -> Array:
        """The coefficients for the rows of each fold (folds x (d + 1)), the constant last."""
        if self._thetas is None:
            grams = self._grams.sum(axis=0) - self._grams
            grams += self._ridge * np.eye(grams.shape[1])
            moments = self._moments.sum(axis=0) - self._moments
            self._thetas = np.linalg.solve(grams, moments[:, :, None])[:, :, 0]
        return self._thetas


def _with_constant(arms: Array) -> Array:
    return np.column_stack([arms, np.ones(len(arms))])
