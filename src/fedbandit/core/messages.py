"""What agents and server say to each other, as frozen values."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.memory.summary import Sent
from fedbandit.errors import InvalidMessage, complaint


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Agent to server: everything observed since the last upload.

    The paper's upload line leaves out ``moment`` (b), which its server uses.
    """

    agent: int
    summary: Sent
    moment: Array
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "moment", read_only(np.asarray(self.moment)))

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

    summary: Sent
    moment: Array
    count: int
    version: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "moment", read_only(np.asarray(self.moment)))

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
    fits = (
        moment.dtype == np.float64
        and moment.shape == (dimension,)
        and (isfinite(moment.sum()) or bool(np.isfinite(moment).all()))  # a sum may overflow
        and isinstance(count, int | np.integer)
        and count >= 0
    )
    if not fits:
        raise InvalidMessage(
            complaint(
                "moment and count in a message",
                got=f"{moment.dtype} of shape {moment.shape}, count {count!r}",
                expected=f"{dimension} finite float64 and a whole number of at least 0",
                fix="Agents and server must be built by the same recipe.",
            )
        )
