"""What has left the core agent and not yet reached the coordinator, as a frozen value."""

from dataclasses import dataclass, replace

from fedbandit.core.messages import Upload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outbox:
    """At most one upload in flight, under a number of its own; the rest waits, merged together.

    ``life`` is 16 random bytes, ``born`` what the coordinator said when this life joined first, and
    ``sequence`` the number of the last upload that was put in flight.
    Offline for long costs no more memory than one waiting upload, unless it would stand for more
    observations than the coordinator takes at once: then the next begins.
    """

    life: bytes
    born: int | None = None
    sequence: int = 0
    in_flight: Upload | None = None
    waiting: tuple[Upload, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything has been delivered."""
        return self.in_flight is None and not self.waiting

    @property
    def observations(self) -> int:
        """How many observations are in flight or waiting."""
        flying = 0 if self.in_flight is None else self.in_flight.count
        return flying + sum(upload.count for upload in self.waiting)

    def put(self, upload: Upload, *, most: int) -> "Outbox":
        """Let one more upload wait; no upload stands for more than ``most`` observations."""
        if self.waiting and self.waiting[-1].count + upload.count <= most:
            *before, last = self.waiting
            return replace(self, waiting=(*before, merged(last, upload)))
        return replace(self, waiting=(*self.waiting, upload))

    def frozen(self) -> "Outbox":
        """Put the first that waits in flight. From now on it is sent as it is, until answered."""
        first, *rest = self.waiting
        return replace(self, in_flight=first, sequence=self.sequence + 1, waiting=tuple(rest))

    def joined(self, lives: int) -> "Outbox":
        """Note what the coordinator says about lives before this one, if it joins first."""
        return replace(self, born=lives) if self.born is None else self

    def reborn(self, life: bytes, *, again: bool) -> "Outbox":
        """Begin another life; send ``again``, under its first number, what was in flight, or not.

        Only what the coordinator cannot have merged may be sent again.
        """
        first = (self.in_flight,) if again and self.in_flight is not None else ()
        return Outbox(life=life, waiting=(*first, *self.waiting))

    def delivered(self) -> "Outbox":
        """Let go of what was in flight."""
        return replace(self, in_flight=None)


def merged(first: Upload, second: Upload) -> Upload:
    """Return one upload that stands for both. Cost of a merge of summaries."""
    summary = first.summary.merge(second.summary)
    return Upload(first.agent, summary, first.moment + second.moment, first.count + second.count)
