"""The parts that make an algorithm."""

from dataclasses import dataclass

from fedbandit.core.memory.contract import Memory
from fedbandit.core.parts.choice import UCB, Choice
from fedbandit.core.parts.radius import Constant, Radius
from fedbandit.core.parts.reply import Reply, ToSender
from fedbandit.core.parts.trigger import Never, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One row of the comparison table: what is remembered, when agents talk, who is answered.

    ``own_data``: decide on everything that the agent has seen, rather than on its last download.
    ``shared``: all agents are one learner.
    """

    memory: Memory
    choice: Choice = UCB
    radius: Radius = Constant(0.0)
    trigger: Trigger = Never()
    reply: Reply = ToSender()
    own_data: bool = False
    shared: bool = False
