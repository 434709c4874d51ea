"""A world whose truth is known, and logs of it: linear rewards, decisions by a softmax."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedbandit.logs import Event

Array = NDArray[np.float64]
D, K = 4, 4
THETA = np.array([0.2, -0.15, 0.1, 0.5])
TOWARDS = np.array([0.5, 0.5, -0.5, 0.0])
"""What the logging policy leans towards."""


@dataclass(frozen=True)
class Rows:
    """n events as arrays; ``target`` (n x K) are the probabilities of the policy to judge."""

    arms: Array
    chosen: NDArray[np.int64]
    probability: Array
    reward: Array
    target: Array

    @property
    def weight(self) -> Array:
        return self.target[np.arange(len(self.chosen)), self.chosen] / self.probability

    @property
    def played(self) -> Array:
        return self.arms[np.arange(len(self.chosen)), self.chosen]

    def events(self) -> list[Event]:
        return [
            Event(id=f"{i}", chosen=int(c), probability=float(p), reward=float(r), arms=arms)
            for i, (c, p, r, arms) in enumerate(
                zip(self.chosen, self.probability, self.reward, self.arms, strict=True)
            )
        ]


def softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = shifted / shifted.sum(axis=-1, keepdims=True)
    return result


def draw(rng: np.random.Generator, rows: int, *, uniform: bool = False) -> Rows:
    """Draw a log; rewards are 0 or 1, with the mean <theta, x>, which is 0.05 to 0.95."""
    arms = drawn_arms(rng, rows)
    logging = np.full((rows, K), 1.0 / K) if uniform else softmax(arms @ TOWARDS)
    chosen = (rng.random((rows, 1)) > logging.cumsum(axis=1)[:, :-1]).sum(axis=1)
    at = np.arange(rows), chosen
    reward = (rng.random(rows) < means(arms)[at]).astype(float)
    return Rows(arms, chosen, logging[at], reward, target(arms))


def drawn_arms(rng: np.random.Generator, rows: int) -> Array:
    """Return arms (rows x K x d); the last feature is a constant."""
    arms = rng.uniform(-1.0, 1.0, (rows, K, D))
    arms[:, :, -1] = 1.0
    return arms


def means(arms: Array) -> Array:
    result: Array = arms @ THETA
    return result


def target(arms: Array) -> Array:
    """Return the probabilities of the policy that is judged: it mostly takes what pays."""
    return softmax(10.0 * arms @ THETA)


def policy(event: Event) -> Array:
    assert event.arms is not None
    return target(event.arms)


@cache
def truth() -> float:
    """Return what the policy earns a decision, to about 2e-4."""
    arms = drawn_arms(np.random.default_rng(99), 100_000)
    return float((target(arms) * means(arms)).sum(axis=1).mean())


@cache
def logged_truth() -> float:
    """Return what the logging policy earns a decision, to about 2e-4."""
    arms = drawn_arms(np.random.default_rng(99), 100_000)
    return float((softmax(arms @ TOWARDS) * means(arms)).sum(axis=1).mean())
