"""Federated contextual linear bandits that send sketches, not data.

A *recipe* is an algorithm with its parameters; ``simulate`` plays it on a *world*. ``Learner``
learns on one machine; ``connect`` makes an agent on a device that learns with others by way of a
coordinator.

>>> import fedbandit as fb
>>> world = fb.worlds.Synthetic(dimension=5, arms=3, agents=2, seed=0)
>>> recipe = fb.FSCLB(dimension=5, sketch_size=3, agents=2, radius=0.3)
>>> len(fb.simulate(recipe, world, rounds=100).regret)
100
"""

from typing import TYPE_CHECKING

from fedbandit import errors, worlds
from fedbandit.core import theory
from fedbandit.core.agent import Agent
from fedbandit.core.algorithms.baselines import (
    CBSCFD,
    SOFUL,
    AsyncLinUCB,
    Centralised,
    DisLinUCB,
    FedLinUCB,
    LinUCB,
    Random,
)
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.core.learner import Learner
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.messages import Collect, Directed, Download, Upload
from fedbandit.core.parts.drawn import Mixed, Thompson
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.core.theory import Bounds
from fedbandit.features.spec import Features
from fedbandit.independent import Independent
from fedbandit.simulation import Trace, simulate
from fedbandit.worlds import Round, World

if TYPE_CHECKING:
    from fedbandit.client import ConnectedAgent, Decision, connect, enrol, renew
    from fedbandit.logs import LogTo
    from fedbandit.offline import evaluate

__version__ = "0.1.0"

__all__ = [
    "CBSCFD",
    "FSCLB",
    "RECIPES",
    "SOFUL",
    "Agent",
    "AsyncLinUCB",
    "Bounds",
    "Centralised",
    "Collect",
    "ConnectedAgent",
    "Decision",
    "Directed",
    "DisLinUCB",
    "Download",
    "Features",
    "FedLinUCB",
    "Gram",
    "Independent",
    "Learner",
    "LinUCB",
    "LogTo",
    "Mixed",
    "Random",
    "Recipe",
    "Rewards",
    "Round",
    "Server",
    "Sketch",
    "Statistics",
    "Thompson",
    "Trace",
    "Upload",
    "World",
    "connect",
    "enrol",
    "errors",
    "evaluate",
    "renew",
    "simulate",
    "theory",
    "worlds",
]


def __getattr__(name: str) -> object:
    """Import agents on devices, logs and their evaluation at first use: most need none of them."""
    if name in ("ConnectedAgent", "Decision", "connect", "enrol", "renew"):
        from fedbandit import client

        return getattr(client, name)
    if name == "LogTo":
        from fedbandit.logs import LogTo

        return LogTo
    if name == "evaluate":
        from fedbandit.offline import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, also those that are imported at first use."""
    return sorted({*globals(), *__all__})
