"""Where arms and rewards come from.

A world is any object with ``dimension``, ``agents`` and ``rounds(n)``; these are the ones that
come with the package.
"""

from collections.abc import Mapping

from fedbandit.worlds.recorded.bundled import BUNDLED
from fedbandit.worlds.recorded.classification import Classification
from fedbandit.worlds.recorded.dataset import Dataset
from fedbandit.worlds.recorded.loading import load_dataset
from fedbandit.worlds.round import Round, World
from fedbandit.worlds.simulated.drifting import Drifting
from fedbandit.worlds.simulated.hashed import Hashed
from fedbandit.worlds.simulated.items import Items
from fedbandit.worlds.simulated.late import Late
from fedbandit.worlds.simulated.synthetic import Synthetic

__all__ = [
    "BUNDLED",
    "WORLDS",
    "AnyWorld",
    "Classification",
    "Dataset",
    "Drifting",
    "Hashed",
    "Items",
    "Late",
    "Round",
    "Synthetic",
    "World",
    "load_dataset",
]

AnyWorld = Synthetic | Classification | Late | Drifting | Items | Hashed
"""The worlds of the package."""

WORLDS: Mapping[str, type[AnyWorld]] = {
    "synthetic": Synthetic,
    "classification": Classification,
    "late": Late,
    "drifting": Drifting,
    "items": Items,
    "hashed": Hashed,
}
"""The worlds by the names that spec files use; their signatures list their parameters."""
