"""Worlds in which agents lie, see ``kinds_of_lies``: what each agent is offered, and paid."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.groups.membership import group_of

Offer = tuple[Array, Array]  # arms, and what they pay on average
LONGEST = 1.3
NEW = {"new": 0.8, "doubt": 0.5, "whisper": 0.5, "tiny": 0.8}  # what an arm pays that appears


@dataclass(frozen=True)
class Setting:
    """What is played, see ``main``."""

    kind: str
    dimension: int
    agents: int
    rounds: int
    start: float
    pull: float
    see: int
    level: float
    share: float


def place(agent: int) -> int:
    """Return the group of 24 that an agent is in, as ``Weighed`` sorts them."""
    return group_of(0.5, 24, "", place=agent)


class World:
    """What an agent is offered in each round, and what it is paid."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting, rng, d = setting, np.random.default_rng(seed), setting.dimension
        self.chance = np.random.default_rng(seed + 1000)
        self.clicks = setting.kind not in ("items", "mates", "flip", "late")
        names = range(setting.agents)
        groups = Counter(place(agent) for agent in names)
        largest = groups.most_common(1)[0][0]
        self.mates = [agent for agent in names if place(agent) == largest]
        match setting.kind:
            case "narrow":
                theta = rng.standard_normal(d)
                drawn = self._raw(rng, 1000)
                theta = 0.1 * (theta - theta.mean()) / np.std(drawn @ (theta - theta.mean()))
                self.theta = theta + 0.3 / drawn.sum(axis=1).mean()
            case "turn":
                theta = rng.standard_normal(d - 1)
                theta *= 0.1 * np.sqrt(d - 1) / np.linalg.norm(theta)
                self.theta = np.append(theta, 0.3)
            case "flip":
                self.theta = rng.standard_normal(d)
                self.theta /= np.linalg.norm(self.theta)
            case "late":
                theta = rng.standard_normal(d - 1)
                self.theta = np.append(theta / np.linalg.norm(theta), 0.4)
            case "items" | "mates":
                self.theta = rng.uniform(0.0, 1.0, d)
                seen = [rng.choice(setting.agents, setting.see, replace=False) for _ in range(d)]
                for item in range(2 * setting.see + 8 if setting.kind == "mates" else 0):
                    seen[item][0] = self.mates[1 + item % (len(self.mates) - 1)]
                self.items = [
                    [item for item, who in enumerate(seen) if agent in who]
                    for agent in range(setting.agents)
                ]
            case _:
                arms = np.eye(d)[:10] if setting.kind == "tiny" else rng.standard_normal((10, d))
                self.arms = arms / np.linalg.norm(arms, axis=1, keepdims=True)
                self.pays = rng.uniform(0.1, 0.4, 10)
                self.pays[0] = NEW.get(setting.kind, self.pays[0])

    def _raw(self, rng: np.random.Generator, count: int) -> Array:
        d = self.setting.dimension
        return np.asarray(LONGEST * rng.random((count, d)) / np.sqrt(d))

    def offer(self, agent: int, t: int) -> Offer:
        """Return what an agent may choose from."""
        match self.setting.kind:
            case "narrow":
                arms = self._raw(self.chance, 20)
                return arms, np.clip(arms @ self.theta, 0.0, 1.0)
            case "turn":
                arms = self.chance.standard_normal((20, self.setting.dimension))
                arms /= np.sqrt(self.setting.dimension - 1)
                arms[:, -1] = 1.0
                arms *= np.minimum(1.0, LONGEST / np.linalg.norm(arms, axis=1))[:, None]
                return arms, np.clip(arms @ self.theta, 0.0, 1.0)
            case "late":
                one = np.eye(self.setting.dimension)
                arms = self.chance.standard_normal((15, self.setting.dimension)) * (1.0 - one[-1])
                arms /= np.linalg.norm(arms, axis=1, keepdims=True)
                arms = arms if t < self.setting.rounds // 2 else np.vstack([arms, one[-1]])
                return arms, arms @ self.theta
            case "flip":
                arms = self.chance.standard_normal((20, self.setting.dimension))
                arms /= np.linalg.norm(arms, axis=1, keepdims=True)
                return arms, arms @ self.theta
            case "items" | "mates":
                some = self.chance.permutation(self.items[agent] or [0])[:10]
                return np.eye(self.setting.dimension)[some], self.theta[some]
        late = 1 if self.setting.kind in NEW and t < self.setting.rounds // 3 else 0
        return self.arms[late:], self.pays[late:]

    def paid(self, mean: float) -> float:
        """Return what a choice with this mean pays."""
        if self.clicks:
            return float(self.chance.random() < mean)
        return mean + 0.1 * float(self.chance.standard_normal())
