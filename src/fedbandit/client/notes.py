"""What is kept of decisions beside the journal: the log, and how shadow decisions compare."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedbandit.client.decisions import Decision
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.errors import InvalidMessage, InvalidParameter, complaint
from fedbandit.logs.records import Decided, LoggedAction
from fedbandit.logs.writer import LogWriter
from fedbandit.offline.shadow import Seen, Shadow, ShadowScore
from fedbandit.wire import ShadowSums, check_shadow


@dataclass(frozen=True, slots=True)
class Baseline:
    """What another program does, in shadow mode: the arm, and with which probability."""

    index: int
    probability: float


class Notes:
    """Keeps them. Thread-safe."""

    def __init__(self, log: LogWriter | None = None) -> None:
        self._log, self._shadow = log, ShadowScore()

    @property
    def lost(self) -> int:
        """How many records of the log could not be written."""
        return 0 if self._log is None else self._log.lost

    @property
    def shadow(self) -> Shadow:
        """How the agent compares with the baseline of shadow decisions."""
        return self._shadow.report()

    def shadow_sums(self) -> ShadowSums | None:
        """Return the same as sums, for the coordinator; None without a shadow decision."""
        sums = self._shadow.sums()
        try:
            check_shadow(sums)
        except InvalidMessage:  # probabilities so small that sums of squares overflow
            return None
        return sums if sums.decisions else None

    def decided(
        self, made: Decision, *, active: bool, baseline: Baseline | None, version: int
    ) -> None:
        """Note a decision, made with the download of this version."""
        if baseline is not None:
            own = made.probabilities
            seen = Seen.of(baseline.index, baseline.probability, own, made.mean, made.bonus)
            self._shadow.decided(made.id, seen)
        if self._log is not None:
            for k in range(len(made.places)):
                now = self._log.now()
                self._log.decided(_record(made, k, now, active=active, version=version))

    def activated(self, id: str) -> None:
        """Note that a deferred decision was put into effect."""
        if self._log is not None:
            self._log.activated(id)

    def rewarded(self, id: str, value: float) -> None:
        """Note a reward."""
        self._shadow.rewarded(id, value)
        if self._log is not None:
            self._log.rewarded(id, value)

    def defaulted(self, id: str, value: float) -> None:
        """Note that the default reward was assumed."""
        self._shadow.rewarded(id, value)
        if self._log is not None:
            self._log.rewarded(id, value, default=True)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def baseline_of(
    given: int | str | None, probability: float, ids: Sequence[str | None], offered: Sequence[int]
) -> Baseline | None:
    """Return the baseline of a decision, checked; None if there is none."""
    if given is None:
        return None
    at = ids.index(given) if isinstance(given, str) and given in ids else given
    if not isinstance(at, int | np.integer) or isinstance(at, bool) or at not in offered:
        expected = f"the id of an action, or an index from 0 to {len(ids) - 1}, not excluded"
        fix = "Give the arm that your own rule takes."
        raise InvalidParameter(complaint("baseline", got=repr(given), expected=expected, fix=fix))
    if not 0.0 < probability <= 1.0:
        fix = "Give the probability with which your own rule took that arm; 1 if it always does."
        got, expected = repr(probability), "a number above 0 and at most 1"
        raise InvalidParameter(
            complaint("baseline_probability", got=got, expected=expected, fix=fix)
        )
    return Baseline(int(at), float(probability))


def _record(made: Decision, k: int, now: float, *, active: bool, version: int) -> Decided:
    """Return the record of place ``k``, with those arms alone that there were to choose from."""
    place, basis, pick = made.places[k], made.basis, made.basis.picks[k]
    offered, shadow = list(pick.offered), made.preferred is not None
    arms, context, actions = None, None, None
    if basis.encoded is None:
        dense = basis.arms.dense() if isinstance(basis.arms, SparseArms) else basis.arms
        arms = dense[offered].tolist()
    else:
        context, features = basis.encoded.given
        actions = [
            LoggedAction(id=basis.encoded.ids[i] or "", features=features[i]) for i in offered
        ]
    return Decided(
        id=place.id,
        chosen=offered.index(place.index),
        probability=place.probability,
        time=now,
        version=version,
        arms=arms,
        context=context,
        actions=actions,
        deferred=not active or k > 0,
        own=pick.probabilities[offered].tolist() if shadow else None,
        means=made.mean[offered].tolist() if shadow else None,
    )
