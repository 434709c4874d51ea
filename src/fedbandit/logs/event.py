"""A logged decision with its reward, and the count of what could not be used."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedbandit.core.kernels.linalg import Array
from fedbandit.logs.records import LoggedAction


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Event:
    """A decision joined with its reward.

    Either ``arms`` (K x d), or ``context`` and ``actions``. ``chosen`` was played with
    ``probability``, and paid ``reward``. ``own``: what the agent would have done itself, in shadow
    mode (K probabilities); ``means``: what it expected of every arm. ``time`` is in seconds since
    1970, 0 if unknown.
    """

    id: str
    chosen: int
    probability: float
    reward: float
    arms: Array | None = None
    context: Any = None
    actions: Sequence[LoggedAction] | None = None
    agent: str = ""
    time: float = 0.0
    version: int = 0
    own: Array | None = None
    means: Array | None = None

    @property
    def choices(self) -> int:
        """How many arms or actions there were."""
        if self.arms is not None:
            return len(self.arms)
        return len(self.actions or ())


@dataclass(slots=True)
class Tally:
    """What a reader found: ``events`` it returned, and what it left out, by reason.

    ``examples`` has, for each reason, where it was first met.
    """

    events: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def skip(self, reason: str, place: str, *, many: int = 1) -> None:
        """Count something that is left out."""
        self.skipped[reason] += many
        self.examples.setdefault(reason, place)

    def sentences(self) -> list[str]:
        """Return a line for each reason: how many, why, and where the first one is."""
        return [
            f"{count:,} left out: {reason} (first: {self.examples[reason]})"
            for reason, count in self.skipped.most_common()
        ]
