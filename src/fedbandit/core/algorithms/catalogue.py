"""Every algorithm of the library by its name."""

from collections.abc import Callable
from typing import Final

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
from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.core.recipe import Recipe

RECIPES: Final[dict[str, Callable[..., Recipe]]] = {
    "FSCLB": FSCLB,
    "FSCLB.lean": FSCLB.lean,
    "FedLinUCB": FedLinUCB,
    "AsyncLinUCB": AsyncLinUCB,
    "DisLinUCB": DisLinUCB,
    "LinUCB": LinUCB,
    "Centralised": Centralised,
    "SOFUL": SOFUL,
    "CBSCFD": CBSCFD,
    "Random": Random,
}
"""Every recipe by its name."""
