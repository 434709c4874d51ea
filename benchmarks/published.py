"""FedLinUCB as published, in plain numpy: a determinant every round, and nothing else repeated.

The inverse and the estimate are computed once for each download, as any careful program would.
"""

import numpy as np

import fedbandit as fb
from fedbandit.core.kernels.ucb import MARGIN


class Published:
    """All agents and the server of FedLinUCB (He et al. 2022, Algorithm 1), ridge 1, alpha 1."""

    def __init__(self, dimension: int, *, agents: int, radius: float) -> None:
        eye, d = np.eye(dimension), dimension
        self._radius = radius
        self._matrix = [eye for _ in range(agents)]
        self._inverse = [eye for _ in range(agents)]
        self._logdet = [0.0] * agents
        self._theta = [np.zeros(d) for _ in range(agents)]
        self._pending = [np.zeros((d, d)) for _ in range(agents)]
        self._moment = [np.zeros(d) for _ in range(agents)]
        self._server, self._server_moment = eye, np.zeros(d)

    def round(self, this: fb.Round) -> bool:
        """Choose, observe, and exchange if it is time to; say whether it was."""
        m, arms = this.agent, this.arms
        widths = np.sqrt(np.einsum("kd,kd->k", arms @ self._inverse[m], arms))
        k = int(np.argmax(arms @ self._theta[m] + self._radius * widths))
        x = arms[k]
        self._pending[m] += np.outer(x, x)
        self._moment[m] += this.rewards[k] * x
        logdet = np.linalg.slogdet(self._matrix[m] + self._pending[m])[1]
        if logdet - self._logdet[m] <= np.log(2.0) + MARGIN:
            return False
        self._exchange(m)
        return True

    def _exchange(self, m: int) -> None:
        self._server = self._server + self._pending[m]
        self._server_moment = self._server_moment + self._moment[m]
        self._matrix[m] = self._server
        self._inverse[m] = np.linalg.inv(self._server).astype(np.float64, copy=False)
        self._logdet[m] = float(np.linalg.slogdet(self._server)[1])
        self._theta[m] = self._inverse[m] @ self._server_moment
        self._pending[m] = np.zeros_like(self._server)
        self._moment[m] = np.zeros_like(self._server_moment)
