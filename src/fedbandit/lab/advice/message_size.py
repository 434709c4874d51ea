"""How many bytes a message has, before any is sent."""

from dataclasses import replace

import numpy as np

from fedbandit import wire
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.messages import Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Base, Rewards, Statistics

_COUNT = 100  # observations in it: a number of one byte, as is the agent's


def message_bytes(recipe: Recipe) -> int:
    """Return the bytes of a recipe's upload once its sketch is full, or of its d x d matrix.

    An upload is made and encoded, so this cannot differ from what travels but by the few bytes
    that large counts and agent numbers take. A download has one number more, and no sums of rewards
    where rows are narrow. Rows that take as many bits as they need (``wire="fitted"``) are those of
    100 arms of length 1; what travels takes one or two bits a number more or less. Cost O(l d).
    """
    memory, d = recipe.parts.memory, recipe.dimension
    summary = memory.empty().summary
    if isinstance(summary, Sketch):
        summary = replace(summary, rows=np.eye(min(summary.size - 1, d), d))
    if isinstance(summary, LossyRows):
        arms = np.random.default_rng(0).standard_normal((_COUNT, d))
        summary = nothing_lost(arms / np.linalg.norm(arms, axis=1, keepdims=True))
    full = Statistics(summary, np.zeros(d), _COUNT, Rewards(_COUNT))
    return len(wire.encode(Upload(0, memory.uploaded(full, Base(memory.empty(), memory)))))
