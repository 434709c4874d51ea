"""What agents and server say to each other, as frozen values."""

from dataclasses import dataclass

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Sent
from fedbandit.core.statistics import Statistics


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Agent to server: everything observed since the last upload.

    The paper's upload line leaves out the moment (b), which its server uses.
    """

    agent: int
    statistics: Statistics

    @property
    def summary(self) -> Sent:
        """What stands for X^T X."""
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
        """Cost by the paper's rule."""
        return self.summary.upload_scalars


@dataclass(frozen=True, slots=True, eq=False)
class Download:
    """Server to agent: everything that the server has merged, and the number of uploads merged.

    Theta, H and det V of the paper's download line follow from summary and moment, so the receiver
    computes them.
    """

    statistics: Statistics
    version: int

    @property
    def summary(self) -> Sent:
        """What stands for X^T X."""
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
        """Cost by the paper's rule."""
        return self.summary.download_scalars


@dataclass(frozen=True, slots=True)
class Collect:
    """Server to agent: send what you have (DisLinUCB)."""

    scalars = 0


Message = Download | Collect


@dataclass(frozen=True, slots=True)
class Directed:
    """A message and the agent that it is for."""

    agent: int
    message: Message
