"""The messages between agents and server, as frozen values."""

from dataclasses import dataclass

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Sent
from fedbandit.core.statistics import Statistics


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Agent to server: the statistics of all observations since its last upload.

    ``agent`` is the sender's index. The upload line of the paper (Alg. 1) leaves out the moment b,
    which its server uses; here it is sent.
    """

    agent: int
    statistics: Statistics

    @property
    def summary(self) -> Sent:
        """The summary of X^T X: a Gram matrix or a sketch."""
        summary: Sent = self.statistics.summary
        return summary

    @property
    def moment(self) -> Array:
        """Sum of r x."""
        return self.statistics.moment

    @property
    def count(self) -> int:
        """Number of observations."""
        return self.statistics.count

    @property
    def scalars(self) -> int:
        """How many numbers this message has, counted as the paper does."""
        scalars: int = self.statistics.summary.upload_scalars
        return scalars


@dataclass(frozen=True, slots=True, eq=False)
class Download:
    """Server to agent: the statistics of everything merged; ``version`` counts the uploads merged.

    The download line of the paper (Alg. 2) sends theta, H and det V; they follow from summary and
    moment, and the receiver computes them.
    """

    statistics: Statistics
    version: int

    @property
    def summary(self) -> Sent:
        """The summary of X^T X: a Gram matrix or a sketch."""
        summary: Sent = self.statistics.summary
        return summary

    @property
    def moment(self) -> Array:
        """Sum of r x."""
        return self.statistics.moment

    @property
    def count(self) -> int:
        """Number of observations."""
        return self.statistics.count

    @property
    def scalars(self) -> int:
        """How many numbers this message has, counted as the paper does."""
        scalars: int = self.statistics.summary.download_scalars
        return scalars


@dataclass(frozen=True, slots=True)
class Collect:
    """Server to agent: upload what is pending now (DisLinUCB)."""

    scalars = 0


Message = Download | Collect


@dataclass(frozen=True, slots=True)
class Directed:
    """A message and the agent that it is for."""

    agent: int
    message: Message
