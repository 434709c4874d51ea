"""Why an arm was chosen: what each feature adds to its score, and what the next best one lacks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedbandit.client.decisions import Basis, Decision
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.parts.drawn import Mixed, Thompson
from fedbandit.errors import InvalidParameter

UNKNOWN = "(added for the unknown)"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a feature, or a pair of features, adds to a score."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """The arm that would have been chosen next, by the scores that decided.

    ``gap``: by how much its score is lower (below 0 if chance chose another arm than the best).
    ``differences``: by how much the chosen arm gains over it, feature by feature, the largest gains
    first; they add up to ``gap``. ``would_win``: the fewest of these names, so that the runner-up
    would win if it had as much from them as the chosen arm; empty if it is ahead.
    """

    index: int
    action: str | None
    score: float
    gap: float
    differences: tuple[Contribution, ...]
    would_win: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an arm was chosen.

    ``contributions``, the largest first, add up to ``mean``, the estimated reward; with ``added``,
    what is added for the unknown, that is ``score``. For UCB ``added`` is the bonus; for Thompson
    sampling it is where the draw of this decision was beside the mean. ``by_chance``: the arm was
    drawn uniformly, whatever the scores (``fb.Mixed``). ``by_baseline``: it is what the caller's
    own rule took, in shadow mode. ``runner_up``: the best of the others; None if there is none.
    """

    index: int
    action: str | None
    score: float
    mean: float
    added: float
    contributions: tuple[Contribution, ...]
    by_chance: bool
    by_baseline: bool
    runner_up: RunnerUp | None

    def __str__(self) -> str:
        called = f"arm {self.index}" if self.action is None else self.action
        how = "was drawn at random; its score is" if self.by_chance else "was chosen with"
        how = "is what the baseline took; its score is" if self.by_baseline else how
        lines = [f"{called} {how} {self.score:.4g} = {self.mean:.4g} expected + {self.added:.4g}"]
        lines += [f"  {each.value:+.4g}  {each.name}" for each in self.contributions[:8]]
        left = self.contributions[8:]
        if left:
            lines.append(f"  {sum(each.value for each in left):+.4g}  from {len(left)} more")
        lines.append(f"  {self.added:+.4g}  {UNKNOWN}")
        if self.runner_up is not None:
            lines += _said_of(self.runner_up)
        return "\n".join(lines)


def explain(decision: Decision) -> Explanation:
    """Return why the first place of a decision is what it is, from what the decision holds."""
    if not isinstance(decision, Decision):
        raise InvalidParameter(
            "explain: this is no decision that holds what it was made with. Pass one that decide "
            "returned."
        )
    basis, index = decision.basis, decision.index
    scores = _deciding(basis, decision)
    contributions = _contributions(basis, index)
    others = [k for k in basis.pick.offered if k != index]
    return Explanation(
        index=index,
        action=decision.action,
        score=float(scores[index]),
        mean=float(decision.mean[index]),
        added=float(scores[index] - decision.mean[index]),
        contributions=_sorted(contributions),
        by_chance=decision.preferred is None and _by_chance(basis),
        by_baseline=decision.preferred is not None,
        runner_up=_runner_up(basis, decision, scores, contributions, others) if others else None,
    )


def _runner_up(
    basis: Basis,
    decision: Decision,
    scores: Array,
    ours: dict[str, float],
    others: Sequence[int],
) -> RunnerUp:
    index = max(others, key=lambda k: scores[k])
    theirs = _contributions(basis, index)
    added = scores - decision.mean
    gains = {name: ours.get(name, 0.0) - theirs.get(name, 0.0) for name in ours | theirs}
    gains[UNKNOWN] = float(added[decision.index] - added[index])
    gap = float(scores[decision.index] - scores[index])
    differences = tuple(
        Contribution(name, gain)
        for name, gain in sorted(gains.items(), key=lambda each: (-each[1], each[0]))
        if gain
    )
    return RunnerUp(
        index=index,
        action=None if basis.encoded is None else basis.encoded.ids[index],
        score=float(scores[index]),
        gap=gap,
        differences=differences,
        would_win=_fewest(differences, gap),
    )


def _fewest(gains: Sequence[Contribution], gap: float) -> tuple[str, ...]:
    """Return the names of the largest gains that together are more than the gap, or reach it."""
    names, left = [], gap
    for each in gains:
        if left <= 0.0 or each.value <= 0.0:
            break
        names.append(each.name)
        left -= each.value
    return tuple(names)


def _contributions(basis: Basis, index: int) -> dict[str, float]:
    """Return what every term, or every coordinate if there are no names, adds to the mean."""
    theta = basis.policy.theta
    if basis.encoded is None:
        arm = np.asarray(basis.arms[index])
        return {f"feature {j}": float(arm[j] * theta[j]) for j in np.nonzero(arm)[0]}
    added: dict[str, float] = {}
    for term in basis.encoded.terms(index):
        added[term.name] = added.get(term.name, 0.0) + term.value * float(theta[term.place])
    return added


def _deciding(basis: Basis, decision: Decision) -> Array:
    """Return the scores that were compared: of UCB, or of the theta that was drawn."""
    rule = basis.rule.over if isinstance(basis.rule, Mixed) else basis.rule
    if isinstance(rule, Thompson):
        arms = basis.arms.dense() if isinstance(basis.arms, SparseArms) else basis.arms
        return rule.scores(basis.policy, arms, basis.chance, basis.pick.number)
    return decision.mean + decision.bonus


def _by_chance(basis: Basis) -> bool:
    rule, pick = basis.rule, basis.pick
    return (
        isinstance(rule, Mixed)
        and rule.any_arm(basis.chance, pick.number, len(pick.offered)) is not None
    )


def _sorted(contributions: dict[str, float]) -> tuple[Contribution, ...]:
    ordered = sorted(contributions.items(), key=lambda each: (-abs(each[1]), each[0]))
    return tuple(Contribution(name, value) for name, value in ordered)


def _said_of(other: RunnerUp) -> list[str]:
    called = f"arm {other.index}" if other.action is None else other.action
    if other.gap < 0.0:
        return [f"{called} has the better score, {other.score:.4g}"]
    lines = [f"next is {called} with {other.score:.4g}, {other.gap:.4g} less"]
    if other.would_win:
        lines.append(f"  it would win with as much from: {', '.join(other.would_win)}")
    return lines
