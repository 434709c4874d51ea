"""Where arms and rewards come from.

A world is any object with ``dimension``, ``agents`` and ``rounds(n)``; these are the ones that
come with the package.
"""

from collections.abc import Mapping

from fedbandit.worlds.bundled import BUNDLED
from fedbandit.worlds.classification import Classification
from fedbandit.worlds.dataset import Dataset
from fedbandit.worlds.drifting import Drifting
from fedbandit.worlds.hashed import Hashed
from fedbandit.worlds.items import Items
from fedbandit.worlds.late import Late
from fedbandit.worlds.loading import load_dataset
from fedbandit.worlds.round import Round, World
from fedbandit.worlds.synthetic import Synthetic

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
