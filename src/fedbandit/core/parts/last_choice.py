"""What an agent chose last, with which policy: the arms that a reward can be given for."""

from math import isnan, nan

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.core.checks import checked_arm, never_shown
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.parts.choice import Choice, Chosen, Policy
from fedbandit.core.saved import State


class LastChoice:
    """The last choice of an agent; changes in place. Before the first, ``chosen`` is None.

    ``policy`` is what it was made with: squared widths of its arms are those of this policy.
    ``number`` is that of the decision.
    """

    __slots__ = ("chosen", "number", "policy")

    def __init__(self) -> None:
        self.chosen: Chosen | None = None
        self.policy: Policy | None = None
        self.number = 0

    def probability(self, rule: Choice, policy: Policy, agent: int) -> float | None:
        """Return the probability of the arm that was chosen; None if it cannot be told any more.

        A rule that has only estimates makes one now, if ``policy`` is still the one it chose with.
        """
        chosen = self.chosen
        if chosen is None or chosen.arm < 0:
            return None
        if isnan(chosen.probability):
            if self.policy is not policy:
                return None
            estimates = rule.probabilities(policy, chosen, agent, self.number)
            chosen.probability = float(estimates[chosen.arm])
        return chosen.probability

    def played(self, arm: int | ArrayLike, policy: Policy, dimension: int) -> tuple[Array, float]:
        """Return an arm's features x (d) and x^T V^{-1} x, for the V of ``policy``.

        ``arm`` is an index into the arms of this choice, or the features of an arm.
        """
        if type(arm) is int or isinstance(arm, np.integer):
            chosen = self.chosen
            if chosen is None or not 0 <= arm < len(chosen.arms):
                raise never_shown(arm, None if chosen is None else len(chosen.arms))
            x = chosen.arms[arm]
            if self.policy is policy:
                return x, chosen.squared_widths.item(arm)
        else:
            x = checked_arm(arm, dimension)
        return x, max(0.0, float(x.dot(policy.reading.solve(x))))

    def state(self, policy: Policy, dimension: int) -> State:
        """Return the arms, and their squared widths if they are those of ``policy``."""
        chosen = self.chosen
        shown = np.empty((0, dimension)) if chosen is None else chosen.arms
        current = chosen is not None and self.policy is policy
        return {
            "shown": shown.dense() if isinstance(shown, SparseArms) else np.array(shown),
            "widths": chosen.squared_widths.copy() if chosen and current else np.zeros(0),
        }

    def restore(self, shown: Array, widths: Array, policy: Policy) -> None:
        """Continue from a saved one; which arm was chosen is not saved."""
        if not len(shown):
            return
        current = len(widths) == len(shown)
        self.chosen = Chosen(-1, nan, shown, widths if current else np.empty(len(shown)))
        self.policy = policy if current else None
