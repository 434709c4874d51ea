"""One learner on one machine: an agent and its server in one object, with nothing to carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.core.agent import Agent
from fedbandit.core.checks import arms_not_finite, checked_arms, checked_reward, whole
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.recipe import Recipe
from fedbandit.core.saved import State, part, under
from fedbandit.core.server import Server
from fedbandit.errors import InvalidArms, InvalidParameter, complaint


class Learner:
    """A recipe that learns on one machine: choose, observe, learn, top.

    ::

        learner = fb.Learner(fb.FSCLB(dimension=5, sketch_size=3, agents=1))
        arm = learner.choose(arms)        # arms: K x d
        learner.observe(arm, reward)      # learns at once; there is nothing to deliver

    It holds an agent and a server and carries their messages, as ``simulate`` does for a fleet of
    one. The recipe must be built with agents=1.
    """

    def __init__(self, recipe: Recipe) -> None:
        if not isinstance(recipe, Recipe) or recipe.agents != 1:
            got = f"{recipe.agents} agents" if isinstance(recipe, Recipe) else repr(recipe)
            raise InvalidParameter(
                complaint(
                    "Learner",
                    got=got,
                    expected="a recipe for one agent",
                    fix="Build the recipe with agents=1; for more agents see simulate and connect.",
                )
            )
        self._recipe = recipe
        self._agent, self._server = recipe.agent(0), recipe.server()

    def __repr__(self) -> str:
        return f"<Learner of {self._recipe.name}: {self.count} observations>"

    @property
    def recipe(self) -> Recipe:
        """The algorithm with its parameters."""
        return self._recipe

    @property
    def theta(self) -> Array:
        """A copy of the estimate of theta* that it decides with (d)."""
        return self._agent.theta

    @property
    def count(self) -> int:
        """Number of observations that it was given."""
        return self._server.count + self._agent.pending

    def choose(self, arms: ArrayLike | SparseLike) -> int:
        """Return the index of the arm to play; ``arms`` is K x d, as for ``Agent.choose``."""
        return self._agent.choose(arms)

    def observe(self, arm: int | ArrayLike, reward: float) -> None:
        """Learn the reward of an arm: an index into the arms of the last ``choose``, or features.

        Raises, and changes nothing, for an arm or a reward that is not valid.
        """
        upload = self._agent.observe(arm, reward)
        if upload is not None:
            for directed in self._server.receive(upload):
                self._agent.receive(directed.message)

    def learn(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Learn from a log: ``arms`` (n x d) that were played, and what each of them paid (n).

        The same as ``observe`` row by row. All are checked before the first is learned.
        """
        rows = checked_arms(arms, self._recipe.dimension)
        paid = np.asarray(rewards)
        if isinstance(rows, SparseArms) or paid.shape != (len(rows),):
            raise InvalidArms(
                complaint(
                    "learn",
                    got=f"{len(rows)} arms and rewards of shape {paid.shape}",
                    expected="a dense matrix with a row for each reward",
                    fix="Pass the features of every arm played, and its reward.",
                )
            )
        if not np.isfinite(rows).all():
            raise arms_not_finite(rows)
        checked = [checked_reward(each) for each in paid.tolist()]
        for row, reward in zip(rows, checked, strict=True):
            self.observe(row, reward)

    def top(self, arms: ArrayLike, count: int) -> NDArray[np.int64]:
        """Return the indices of the ``count`` arms with the highest estimated reward, best first.

        It is for using what was learned, so uncertainty adds nothing, and ``observe`` still refers
        to the arms of the last ``choose``. Arms that tie keep their order.
        """
        rows = checked_arms(arms, self._recipe.dimension)
        whole("count", count, least=1, most=len(rows), why="the arms given")
        theta = self._agent.policy.theta
        scores = rows.times(theta) if isinstance(rows, SparseArms) else rows @ theta
        return np.argsort(-scores, kind="stable")[:count].astype(np.int64)

    def state(self) -> State:
        """Return it as a flat dictionary of arrays and scalars, fit for ``numpy.savez``."""
        return under("agent", self._agent.state()) | under("server", self._server.state())

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Learner:
        """Return the learner that ``state()`` saved; it continues with the same bits.

        Raises InvalidState if the state is damaged or was saved with another recipe.
        """
        learner = cls(recipe)
        learner._agent = Agent.restore(recipe, part(state, "agent"))
        learner._server = Server.restore(recipe, part(state, "server"))
        return learner
