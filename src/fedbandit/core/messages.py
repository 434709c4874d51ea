"""What agents and server say to each other, as frozen values."""

from dataclasses import dataclass

import numpy as np

from fedbandit.core.linalg import Array
from fedbandit.core.summary import Summary
from fedbandit.errors import InvalidMessage, complaint


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Agent to server: everything observed since the last upload.

    The paper's upload line leaves out ``moment`` (b), which its server uses.
    """

    agent: int
    summary: Summary
    moment: Array
    count: int

    @property
    def scalars(self) -> int:
        """Cost by the paper's rule."""
        return self.summary.upload_scalars


@dataclass(frozen=True, slots=True, eq=False)
class Download:
    """Server to agent: everything that the server has merged.

    Theta, H and det V of the paper's download line follow from summary and moment, so the receiver
    computes them.
    """

    summary: Summary
    moment: Array
    count: int
    version: int

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


def check_moment(moment: Array, count: int, dimension: int) -> None:
    """Raise InvalidMessage unless moment and count can be a sum of rewarded arms."""
    if moment.shape != (dimension,) or not np.isfinite(moment).all() or count < 0:
        raise InvalidMessage(
            complaint(
                "moment in a message",
                got=f"shape {moment.shape}, count {count}",
                expected=f"{dimension} finite numbers and a count >= 0",
                fix="Agents and server must be built by the same recipe.",
            )
        )
