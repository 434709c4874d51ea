"""The parts that make an algorithm."""

from dataclasses import dataclass

from fedbandit.core.memory.contract import Memory
from fedbandit.core.parts.choice import UCB, Choice
from fedbandit.core.parts.radius import Constant, Radius
from fedbandit.core.parts.reply import Reply, ToSender
from fedbandit.core.parts.trigger import Never, Trigger
from fedbandit.features.spec import Features


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one algorithm is made of.

    - ``memory``: how X^T X is remembered, as a matrix or a sketch.
    - ``choice``: which arm is played; ``radius``: the beta of its UCB.
    - ``trigger``: when an agent uploads; ``reply``: which agents the server answers then.
    - ``own_data``: agents decide on all data of their own too, not on their last download alone.
    - ``shared``: all agents are one learner.
    - ``features``: how named features become arms; None if nothing is declared.
    """

    memory: Memory
    choice: Choice = UCB
    radius: Radius = Constant(0.0)
    trigger: Trigger = Never()
    reply: Reply = ToSender()
    own_data: bool = False
    shared: bool = False
    features: Features | None = None
