"""Rules for choosing an arm that draw: Thompson sampling, and mixtures with chance.

Draws follow from the seed, the agent and the number of the decision alone. So a restored agent
draws what it would have drawn, and a decision can be looked at again later.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from math import nan
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import arms_not_finite, fraction, real, whole
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import first_best, first_best_of_each
from fedbandit.core.parts.choice import UCB, Choice, Chosen, Policy, Ucb, uniform_draw
from fedbandit.errors import InvalidParameter, complaint, unknown

DRAWS: Final = 1000
"""Draws behind a probability of Thompson sampling, besides the one that decided."""

_ESTIMATING = 1  # ends the seed of draws that estimate, so that they differ from those that decide
_SLICE = 2**20  # numbers that are drawn at once


@dataclass(frozen=True, slots=True)
class Thompson:
    """Thompson sampling: the arm that is best for a theta drawn around the estimate.

    theta is drawn from a normal distribution with the estimate as its mean and the covariance
    (scale beta)^2 V^-1. beta is the recipe's ``radius``, so ``radius="auto"`` suits rewards of any
    size. A decision costs O(K l d) on a sketch and O(K d^2) on a Gram matrix, which takes O(d^3)
    the first time after it has changed.

    The probability of an arm has no formula. It is estimated by 1,000 draws more, only when it is
    asked for: (1 + n) / 1,001 for the arm that was played, where n of them have it best. That is
    off by about sqrt(p / 1000), and never 0. Weights 1 / p by it are on average those by the true
    p, times 1 - (1 - p)^1001.
    """

    scale: float = 1.0
    _: KW_ONLY
    seed: int = 0

    learns = True
    exact = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real("scale", self.scale, zero=True))
        whole("seed", self.seed, least=0)

    def choose(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        agent: int,
        number: int,
        into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm; its probability is not estimated yet (NaN)."""
        with np.errstate(all="ignore"):
            if isinstance(arms, SparseArms):
                dense, widths = arms.dense(), policy.reading.sparse_squared_widths(arms)
            else:
                dense, widths = arms, policy.reading.squared_widths(arms)
            arm = first_best(self.scores(policy, dense, agent, number))
        if arm < 0 or not np.isfinite(widths.sum()):
            raise arms_not_finite(dense)
        if isinstance(arms, SparseArms):
            return Chosen(arm, nan, arms, widths)
        return _written(into, arm, nan, arms, widths)

    def choose_many(
        self, policy: Policy, arms: Array, agent: int, number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions, one after the other."""
        chosen = [self.choose(policy, each, agent, number + b).arm for b, each in enumerate(arms)]
        return np.array(chosen, dtype=np.int64)

    def probabilities(self, policy: Policy, chosen: Chosen, agent: int, number: int, /) -> Array:
        """Return how often each arm is best among 1,001 draws, the one that decided included."""
        arms = chosen.arms
        dense = arms.dense() if isinstance(arms, SparseArms) else arms
        many = len(dense)
        if many == 1:
            return np.ones(1)
        means, spread = self._law(policy, dense)
        if spread.shape[1] > many:
            triangle = np.asarray(np.linalg.qr(spread.T, mode="r"))
            spread = triangle.T  # the same covariance, with K columns
        rng = np.random.default_rng([self.seed, agent, number, _ESTIMATING])
        decided = self.scores(policy, dense, agent, number)
        counts = np.bincount([first_best(decided)], minlength=many)
        at_once, left = max(1, _SLICE // max(many, spread.shape[1])), DRAWS
        while left:
            now = min(left, at_once)
            scores = means + rng.standard_normal((now, spread.shape[1])) @ spread.T
            counts += np.bincount(first_best_of_each(scores), minlength=many)
            left -= now
        return counts / (DRAWS + 1.0)

    def scores(self, policy: Policy, arms: Array, agent: int, number: int) -> Array:
        """Return what the arms (K x d) are worth by the theta of this decision's draw (K)."""
        means, spread = self._law(policy, arms)
        rng = np.random.default_rng([self.seed, agent, number])
        return means + spread @ rng.standard_normal(spread.shape[1])

    def _law(self, policy: Policy, arms: Array) -> tuple[Array, Array]:
        """Return means (K) and a matrix M of K rows: M M^T is the covariance of the scores."""
        spread = policy.reading.whitened(arms) * (self.scale * policy.radius)
        return arms @ policy.theta, spread


@dataclass(frozen=True, slots=True)
class Mixed:
    """Any arm with probability ``epsilon``, all alike; else the arm that ``over`` chooses.

    So no probability is below epsilon / K, which later evaluations of the logs want. ``over``:
    ``"ucb"``, ``"thompson"`` or ``Thompson(...)``. Probabilities are exact over UCB.
    """

    epsilon: float
    _: KW_ONLY
    over: Ucb | Thompson | Literal["ucb", "thompson"] = "ucb"
    seed: int = 0

    learns = True

    def __post_init__(self) -> None:
        fraction("epsilon", self.epsilon)
        whole("seed", self.seed, least=0)
        over = choice_of(self.over)
        if not isinstance(over, Ucb | Thompson):
            expected, fix = "'ucb', 'thompson' or fb.Thompson(...)", "Mix once."
            raise InvalidParameter(complaint("over", got=repr(over), expected=expected, fix=fix))
        object.__setattr__(self, "over", over)

    @property
    def exact(self) -> bool:
        """Whether its probabilities are exact."""
        return self._base.exact

    @property
    def _base(self) -> Choice:
        return choice_of(self.over)

    def choose(
        self,
        policy: Policy,
        arms: Array | SparseArms,
        agent: int,
        number: int,
        into: Chosen | None = None,
        /,
    ) -> Chosen:
        """Choose one arm, at the cost of ``over``."""
        chosen = self._base.choose(policy, arms, agent, number, into)
        any_arm = self.any_arm(agent, number, len(arms))
        least = self.epsilon / len(arms)
        same = any_arm is None or any_arm == chosen.arm
        chosen.probability = least + (1.0 - self.epsilon) * chosen.probability if same else least
        if not self.exact:
            chosen.probability = nan
        if any_arm is not None:
            chosen.arm = any_arm
        return chosen

    def choose_many(
        self, policy: Policy, arms: Array, agent: int, number: int, /
    ) -> NDArray[np.int64]:
        """Choose for B decisions."""
        chosen = self._base.choose_many(policy, arms, agent, number)
        for b in range(len(arms)):
            any_arm = self.any_arm(agent, number + b, arms.shape[1])
            chosen[b] = chosen[b] if any_arm is None else any_arm
        return chosen

    def probabilities(self, policy: Policy, chosen: Chosen, agent: int, number: int, /) -> Array:
        """Return epsilon / K, and 1 - epsilon times the probabilities of ``over``."""
        base = self._base.choose(policy, chosen.arms, agent, number)
        kept = self._base.probabilities(policy, base, agent, number)
        return self.epsilon / len(kept) + (1.0 - self.epsilon) * kept

    def any_arm(self, agent: int, number: int, many: int) -> int | None:
        """Return an arm drawn uniformly, with probability epsilon; else None."""
        draw = uniform_draw(self.seed, agent, number)
        return min(int(draw / self.epsilon * many), many - 1) if draw < self.epsilon else None


AnyChoice = Literal["ucb", "thompson"] | Thompson | Mixed
"""How the parameter ``choice`` of recipes is given."""

_WORDS: Final[Mapping[str, Choice]] = {"ucb": UCB, "thompson": Thompson()}
_RULES: Final[Mapping[str, type]] = {"thompson": Thompson, "mixed": Mixed}


def choice_of(given: object) -> Choice:
    """Return the rule that a recipe was asked for: by a word, as itself, or as ``plain`` has it."""
    if isinstance(given, Ucb | Thompson | Mixed):
        return given
    if isinstance(given, str):
        if given not in _WORDS:
            raise unknown("choice", given, [*_WORDS, "mixed"])
        return _WORDS[given]
    if isinstance(given, Mapping) and given.get("rule") in _RULES:
        rule = _RULES[given["rule"]]
        known = [field.name for field in fields(rule)]
        values = {str(name): value for name, value in given.items() if name != "rule"}
        for name in values:
            if name not in known:
                raise unknown(f"parameter of choice {given['rule']!r}", name, known)
        if rule is Thompson or "epsilon" in values:
            made: Choice = rule(**values)
            return made
    fix = "Write choice='thompson', or fb.Thompson(scale=0.5), or fb.Mixed(0.1, over='ucb')."
    expected = "'ucb', 'thompson', fb.Thompson or fb.Mixed"
    raise InvalidParameter(complaint("choice", got=repr(given), expected=expected, fix=fix))


def plain(choice: Choice) -> str | dict[str, Any]:
    """Return a rule as JSON can hold it, without what is at its default."""
    if isinstance(choice, Ucb):
        return "ucb"
    rule = "thompson" if isinstance(choice, Thompson) else "mixed"
    params: dict[str, Any] = {}
    for field in fields(choice):  # type: ignore[arg-type]
        value = getattr(choice, field.name)
        value = plain(value) if field.name == "over" else value
        if value != field.default:
            params[field.name] = value
    return {"rule": rule, **params} if params else rule


def _written(
    into: Chosen | None, arm: int, probability: float, arms: Array, widths: Array
) -> Chosen:
    """Return the result, written over ``into`` if that is of the same shape."""
    if into is None or type(into.arms) is SparseArms or len(into.arms) != len(arms):
        return Chosen(arm, probability, arms.copy(), widths)
    into.arms[...], into.squared_widths[...] = arms, widths
    into.arm, into.probability = arm, probability
    return into
