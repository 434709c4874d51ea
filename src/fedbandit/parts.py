"""What a recipe of one's own is made of.

``recipe`` turns a function that returns ``Parts`` into a recipe. Every part is a small protocol:
``Memory``, ``Choice``, ``Radius``, ``Trigger``, ``Reply``; these are the ones of the package.
docs/experiments.md has a recipe with a trigger of its own.
"""

from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.gram_memory import GramMemory
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.parts.choice import UCB, Choice
from fedbandit.core.parts.parts import Parts
from fedbandit.core.parts.radius import Constant, Radius
from fedbandit.core.parts.reply import Reply, ToAll, ToOwed, ToSender
from fedbandit.core.parts.trigger import Growth, GrowthTimesWait, Never, Trigger
from fedbandit.core.recipe import recipe

__all__ = [
    "UCB",
    "Choice",
    "Constant",
    "GramMemory",
    "Growth",
    "GrowthTimesWait",
    "Memory",
    "Never",
    "Parts",
    "Radius",
    "Reply",
    "SketchMemory",
    "ToAll",
    "ToOwed",
    "ToSender",
    "Trigger",
    "recipe",
]
