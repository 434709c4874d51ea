"""Learners of other packages, so that a figure can show them beside ours.

Each is a linear model over the features of the arms shown, learns one reward at a time, and is used
through the public interface of its package (extra ``peers``). They have no messages: in a
simulation every agent has one of its own (``fedbandit.Independent``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import fraction, real, whole
from fedbandit.errors import missing_extra
from fedbandit.independent import Chooser

Array = NDArray[np.float64]


class VowpalWabbit:
    """Vowpal Wabbit's contextual bandit with features of actions (``--cb_explore_adf``).

    Plays the best action but for a share ``epsilon`` of the rounds, in which it draws one. It has
    no confidence bounds; ``--coin`` learns without a rate to be tuned.
    """

    def __init__(self, *, epsilon: float = 0.0, seed: int = 0, agent: int = 0) -> None:
        if epsilon:
            fraction("epsilon", epsilon)
        with _package("vowpalwabbit"):
            from vowpalwabbit import pyvw
        self._vw: Any = pyvw
        self._label = self._vw.LabelType.CONTEXTUAL_BANDIT
        flags = f"--cb_explore_adf --epsilon {epsilon} --coin --noconstant --quiet"
        self._workspace = self._vw.Workspace(flags)
        self._chance = np.random.default_rng([whole("seed", seed, least=0), agent])
        self._shown: list[Any] = []
        self._chances: list[float] = []

    def choose(self, arms: Array) -> int:
        """Draw an action by the chances that it gives them."""
        self._finish()
        self._shown = [self._example(row) for row in arms.tolist()]
        self._chances = self._workspace.predict(self._shown)
        weights = np.array(self._chances)
        return int(self._chance.choice(len(weights), p=weights / weights.sum()))

    def observe(self, arm: int, reward: float) -> None:
        """Learn the cost of the action, which is its reward with the other sign."""
        if self._shown:
            chance = max(self._chances[arm], 1e-6)
            self._shown[arm].set_label_string(f"0:{-reward}:{chance}")
            self._workspace.learn(self._shown)
            self._finish()

    def _example(self, row: list[float]) -> Any:
        example = self._vw.Example(self._workspace, None, self._label)
        example.push_feature_dict(self._workspace, {"a": list(enumerate(row))})
        example.setup_example()
        return example

    def _finish(self) -> None:
        """Give examples back that were shown and not learned."""
        if self._shown:
            self._workspace.finish_example(self._shown)
            self._shown = []


class MABWiser:
    """MABWiser's LinUCB with a single arm, whose contexts are the features of the arms shown."""

    def __init__(self, *, radius: float = 0.5, ridge: float = 1.0) -> None:
        with _package("mabwiser"):
            from mabwiser import mab
        alpha, ridge = real("radius", radius, zero=True), real("ridge", ridge)
        policy = mab.LearningPolicy.LinUCB(alpha=alpha, l2_lambda=ridge)
        self._mab = mab.MAB(arms=[0], learning_policy=policy, n_jobs=1)
        self._decision, self._fitted = np.zeros(1, dtype=np.int64), False

    def choose(self, arms: Array) -> int:
        """Compare the single arm's bounds in K contexts; it cannot score before it has data."""
        self._shown = arms.copy()
        if not self._fitted:
            return 0
        bounds = self._mab.predict_expectations(self._shown)
        return int(np.argmax([each[0] for each in ([bounds] if len(arms) == 1 else bounds)]))

    def observe(self, arm: int, reward: float) -> None:
        """Fit one row."""
        self._mab.partial_fit(self._decision, np.array([reward]), self._shown[arm : arm + 1])
        self._fitted = True


class ContextualBandits:
    """LinUCB by contextualbandits' linear regression, which keeps numbers in 32 bits."""

    def __init__(self, *, radius: float = 0.5, ridge: float = 1.0) -> None:
        with _package("contextualbandits"):
            from contextualbandits import linreg
        self._radius, ridge = real("radius", radius, zero=True), real("ridge", ridge)
        self._model = linreg.LinearRegression(lambda_=ridge, fit_intercept=False, method="sm")

    def choose(self, arms: Array) -> int:
        """Score the arms as rows."""
        self._shown = arms.astype(np.float32)
        return int(self._model.predict_ucb(self._shown, self._radius).argmax())

    def observe(self, arm: int, reward: float) -> None:
        """Update the inverse by one row."""
        self._model.partial_fit(self._shown[arm : arm + 1], np.array([reward], dtype=np.float32))


PEERS: Mapping[str, Callable[..., Chooser]] = {
    "VowpalWabbit": VowpalWabbit,
    "MABWiser": MABWiser,
    "ContextualBandits": ContextualBandits,
}
"""The learners of other packages by the names that spec files use."""


@contextmanager
def _package(name: str) -> Iterator[None]:
    """Say which extra to install if a package cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(name, "peers", f"fedbandit.peers, {name}") from error
