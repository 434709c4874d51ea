"""What happens to models besides merging, collected until it is written to the store."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from operator import itemgetter
from typing import Final

from fedbandit.service.bookkeeping.progress import (
    FIELDS,
    MINUTE,
    Progress,
    Refused,
    Traffic,
    start_of,
    values_of,
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
        self._sums: dict[tuple[str, int], Counter[str]] = {}
        self._held: dict[str, dict[str, int]] = {}
        self._refused: dict[tuple[str, int, str], Refused] = {}

    def synced(self, model: str, *, merged: bool, received: int, sent: int) -> None:
        """Count an answer; the bytes of a merged upload were counted when it was merged."""
        sums = self._sums_now(model)
        sums["sent"] += sent
        if not merged:
            sums["copies"] += 1
            sums["received"] += received

    def joined(self, model: str, agent: str, told: Told) -> None:
        """Count a state that was told to an agent that joins or catches up."""
        sums = self._sums_now(model)
        sums["joins"] += told.whole
        sums["sent"] += len(told.body)
        version = told.version
        if version is not None and sum(map(len, self._held.values())) < _MOST:
            self._held.setdefault(model, {})[agent] = version

    def refused(self, model: str, agent: str, refusal: Refusal) -> None:
        """Count an upload that was refused, if that says something about the upload."""
        if refusal.status in _UNCOUNTED or refusal.field == "authorization":
            return
        self._sums_now(model)["refused"] += 1
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
            Traffic(model=model, start=start, progress=Progress(**sums), held={})
            for (model, start), sums in sorted(self._sums.items(), key=itemgetter(0))
        ]
        last = {each.model: place for place, each in enumerate(taken)}
        for model, place in last.items():
            refused = tuple(each for (name, *_), each in self._refused.items() if name == model)
            held = self._held.get(model, {})
            taken[place] = replace(taken[place], held=held, refused=refused)
        self._sums, self._held, self._refused = {}, {}, {}
        return taken

    def put_back(self, traffic: list[Traffic]) -> None:
        """Count again what could not be written; versions that agents hold are dropped."""
        for each in traffic:
            sums = self._sums.setdefault((each.model, each.start), Counter())
            for name, value in zip(FIELDS, values_of(each.progress), strict=True):
                sums[name] += int(value)
            for old in each.refused:
                place = each.model, old.status, old.field
                new = self._refused.get(place)
                self._refused[place] = replace(new, count=new.count + old.count) if new else old

    def _sums_now(self, model: str) -> Counter[str]:
        """Return the sums of this minute, by field of ``Progress``, to be added to."""
        key = model, start_of(self._clock(), MINUTE)
        if key not in self._sums:
            self._sums[key] = Counter()
        return self._sums[key]
