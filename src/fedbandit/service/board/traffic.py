"""What happens to models besides merging, collected until it is written to the store."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from fedbandit.service.models.progress import (
    MINUTE,
    NO_PROGRESS,
    Progress,
    Refused,
    Traffic,
    start_of,
)
from fedbandit.service.refusal import Refusal

_UNCOUNTED: Final = frozenset(  # says nothing about an upload: no token, no model, come back later
    (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
)
_LONGEST = 300  # characters of a message
_MOST = 20_000  # agents whose versions wait to be written


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent was told that joins or catches up.

    ``whole``: with everything merged. ``version``: which one it has now; None: as before.
    """

    body: bytes
    whole: bool
    version: int | None


class TrafficTally:
    """Counts answers, joins and refused uploads by model. Used by the event loop alone."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._progress: dict[tuple[str, int], Progress] = {}
        self._held: dict[str, dict[str, int]] = {}
        self._refused: dict[tuple[str, int, str], Refused] = {}

    def synced(self, model: str, *, merged: bool, received: int, sent: int) -> None:
        """Count an answer; the bytes of a merged upload were counted when it was merged."""
        if merged:
            self._add(model, Progress(sent=sent))
        else:
            self._add(model, Progress(sent=sent, copies=1, received=received))

    def joined(self, model: str, agent: str, told: Told) -> None:
        """Count a state that was told to an agent that joins or catches up."""
        self._add(model, Progress(joins=int(told.whole), sent=len(told.body)))
        version = told.version
        if version is not None and sum(map(len, self._held.values())) < _MOST:
            self._held.setdefault(model, {})[agent] = version

    def refused(self, model: str, agent: str, refusal: Refusal) -> None:
        """Count an upload that was refused, if that says something about the upload."""
        if refusal.status in _UNCOUNTED or refusal.field == "authorization":
            return
        self._add(model, Progress(refused=1))
        key = model, int(refusal.status), refusal.field
        before = self._refused.get(key)
        self._refused[key] = Refused(
            status=int(refusal.status),
            field=refusal.field,
            count=1 + (before.count if before else 0),
            agent=agent,
            message=str(refusal)[:_LONGEST],
            at=self._clock(),
        )

    def take(self) -> list[Traffic]:
        """Return what was counted since the last call."""
        taken = [
            Traffic(model=model, start=start, progress=progress, held={})
            for (model, start), progress in sorted(self._progress.items())
        ]
        last = {each.model: place for place, each in enumerate(taken)}
        for model, place in last.items():
            refused = tuple(each for (name, *_), each in self._refused.items() if name == model)
            held = self._held.get(model, {})
            taken[place] = replace(taken[place], held=held, refused=refused)
        self._progress, self._held, self._refused = {}, {}, {}
        return taken

    def put_back(self, traffic: list[Traffic]) -> None:
        """Count again what could not be written; versions that agents hold are dropped."""
        for each in traffic:
            key = each.model, each.start
            self._progress[key] = self._progress.get(key, NO_PROGRESS).plus(each.progress)
            for old in each.refused:
                place = each.model, old.status, old.field
                new = self._refused.get(place)
                self._refused[place] = replace(new, count=new.count + old.count) if new else old

    def _add(self, model: str, progress: Progress) -> None:
        key = model, start_of(self._clock(), MINUTE)
        self._progress[key] = self._progress.get(key, NO_PROGRESS).plus(progress)
