"""Shadow mode: another program decides, the agent says what it would have done.

At each rewarded decision the other program, the *baseline*, took an arm with probability p and got
r. The agent would have taken each arm with the probabilities q, and expected the means m before it
saw r. So m + w (r - m of what was done), with w = q / p of what was done, estimates what the agent
would have earned: the doubly robust estimate, with a model that has never seen the row.

If the baseline leaves something to chance, so that its p are below 1 and what the agent prefers is
taken now and then, that is unbiased whatever the model (*weights*). If it does not, there is no
such evidence where the two disagree: there the estimate is the agent's model alone, and its
interval is widened by the model's own uncertainty (*model*).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, sqrt
from threading import Lock
from typing import Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.logs.event import Event
from fedbandit.offline.estimates import LEAST_REWARDED, LEAST_ROWS
from fedbandit.wire.shadow import WINDOW, ShadowSums

BLOCK = 500
BLOCKS = WINDOW // BLOCK
"""What is reported is over the latest 20 blocks of 500 rewarded decisions: agents get better."""

Basis = Literal["none", "weights", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """How the agent compares with the baseline, over the latest 10,000 rewarded decisions.

    ``decisions`` and ``rewarded``: how many there were. ``agreement``: the probability that the
    agent would have done the same, on average. ``baseline``: the baseline's mean reward.
    ``gain``: what the agent would have earned more a decision, with its 95 % interval; ``basis``:
    where that comes from. ``safe``: whether the interval begins at 0 or above and there is enough
    to conclude from.
    """

    decisions: int = 0
    rewarded: int = 0
    agreement: float = 0.0
    baseline: float = 0.0
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0
    basis: Basis = "none"
    safe: bool = False

    @property
    def sentence(self) -> str:
        """What it comes to, in words."""
        if self.basis == "none":
            return f"Too little to tell: {self.rewarded} rewarded decisions, {LEAST_ROWS} needed."
        told = (
            f"The agent agrees with the baseline in {100 * self.agreement:.0f} % of decisions. It "
            f"would have earned {self.gain:+.3g} a decision ({self.gain_low:+.3g} to "
            f"{self.gain_high:+.3g}) against the baseline's {self.baseline:.3g}."
        )
        if self.basis == "model":
            told += " Where they disagree that is its own model's word: the baseline leaves nothing"
            told += " to chance."
        return told + (" It is safe to switch." if self.safe else " It is not safe to switch yet.")


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a decision before its reward comes.

    ``weight``: q / p of what was done; ``same``: q of it; ``expected``: m over q; ``predicted``: m
    of what was done; ``doubt``: the model's uncertainty about what the agent would do otherwise.
    """

    weight: float
    same: float
    expected: float
    predicted: float
    doubt: float

    @classmethod
    def of(cls, done: int, probability: float, own: Array, means: Array, bonus: Array) -> "Seen":
        """Return it for the arm that was done, with its probability; arrays are of length K."""
        otherwise = own.copy()
        otherwise[done] = 0.0
        return cls(
            float(own[done]) / probability,
            float(own[done]),
            float(own @ means),
            float(means[done]),
            float(otherwise @ bonus),
        )


class ShadowScore:
    """Compares decisions with what the agent would have done. Thread-safe.

    At most ``most`` decisions wait for their rewards.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most, self._lock = most, Lock()
        self._waiting: OrderedDict[str, Seen] = OrderedDict()
        self._blocks: deque[_Block] = deque([_Block()], maxlen=BLOCKS)
        self._decisions = self._rewarded = 0

    def decided(self, id: str, seen: Seen) -> None:
        """Remember a decision until its reward comes."""
        with self._lock:
            self._decisions += 1
            self._waiting[id] = seen
            if len(self._waiting) > self._most:
                self._waiting.popitem(last=False)

    def rewarded(self, id: str, reward: float) -> None:
        """Count a decision's reward; one that was made otherwise is ignored."""
        with self._lock:
            seen = self._waiting.pop(id, None)
            if seen is None:
                return
            self._rewarded += 1
            if self._blocks[-1].full:
                self._blocks.append(_Block())
            self._blocks[-1].rows.append(
                (reward, seen.weight, seen.expected, seen.predicted, seen.same, seen.doubt)
            )

    def report(self) -> Shadow:
        """Return how the two compare now."""
        return shadow_report(self.sums())

    def sums(self) -> ShadowSums:
        """Return the same as sums, which can be added to those of other agents."""
        with self._lock:
            rows = [row for block in self._blocks for row in block.rows]
            decisions, rewarded = self._decisions, self._rewarded
        if not rows:
            return ShadowSums(decisions)
        return _summed(np.array(rows), decisions, rewarded)


class _Block:
    """Up to 500 rows, dropped together when they are old."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []

    @property
    def full(self) -> bool:
        return len(self.rows) >= BLOCK


def _summed(rows: Array, decisions: int, rewarded: int) -> ShadowSums:
    reward, weight, expected, predicted, same, doubt = rows.T
    gain = expected + weight * (reward - predicted) - reward
    return ShadowSums(
        decisions,
        rewarded,
        len(rows),
        paid=int((reward != 0.0).sum()),
        chance=int((weight != same).sum()),
        apart=int((same < 1.0).sum()),
        same=float(same.sum()),
        reward=float(reward.sum()),
        gain=float(gain.sum()),
        gain_squares=float(gain @ gain),
        weight=float(weight.sum()),
        weight_squares=float(weight @ weight),
        doubt=float(doubt.sum()),
    )


def shadow_report(sums: ShadowSums) -> Shadow:
    """Return what sums over the decisions of one agent, or of many, come to."""
    rows = sums.rows
    if not rows:
        return Shadow(decisions=sums.decisions)
    mean_weight = sums.weight / rows
    room = max(0.05, 5.0 * _error(rows, sums.weight, sums.weight_squares))
    by_chance = sums.chance > 0 or not sums.apart
    supported = by_chance and abs(mean_weight - 1.0) <= room
    effective = sums.weight**2 / sums.weight_squares if sums.weight_squares else 0.0
    enough = rows >= LEAST_ROWS and sums.paid >= LEAST_REWARDED
    enough = enough and (effective >= LEAST_ROWS or not supported)
    gain, half = sums.gain / rows, _Z * _error(rows, sums.gain, sums.gain_squares)
    half += 0.0 if supported else sums.doubt / rows
    return Shadow(
        decisions=sums.decisions,
        rewarded=sums.rewarded,
        agreement=sums.same / rows,
        baseline=sums.reward / rows,
        gain=gain if enough else 0.0,
        gain_low=gain - half if enough else 0.0,
        gain_high=gain + half if enough else 0.0,
        basis=("weights" if supported else "model") if enough else "none",
        safe=enough and gain - half >= 0.0,
    )


_Z = 1.959963984540054  # of a 95 % interval


def _error(rows: int, total: float, squares: float) -> float:
    """Return the standard error of a mean; infinite for one row."""
    if rows < 2:
        return inf
    return sqrt(max(squares - total * total / rows, 0.0) / (rows * (rows - 1)))


def shadow_of(events: Iterable[Event]) -> Shadow:
    """Return the same from a log of shadow decisions; others in it are left out.

    A log has no uncertainties, so where it rests on the model the interval is narrower than the
    agent's own.
    """
    score = ShadowScore()
    for event in events:
        if event.own is not None and event.means is not None:
            none = np.zeros(len(event.own))
            seen = Seen.of(event.chosen, event.probability, event.own, event.means, none)
            score.decided(event.id, seen)
            score.rewarded(event.id, event.reward)
    return score.report()
