"""Where arms and rewards come from.

A world is any object with ``dimension``, ``agents`` and ``rounds(n)``; these are the ones that
come with the package.
"""

from collections.abc import Mapping

from fedbandit.worlds.bundled import BUNDLED
from fedbandit.worlds.classification import Classification
from fedbandit.worlds.dataset import Dataset
from fedbandit.worlds.loading import load_dataset
from fedbandit.worlds.round import Round, World
from fedbandit.worlds.synthetic import Synthetic

__all__ = [
    "BUNDLED",
    "WORLDS",
    "Classification",
    "Dataset",
    "Round",
    "Synthetic",
    "World",
    "load_dataset",
]

WORLDS: Mapping[str, type[Synthetic] | type[Classification]] = {
    "synthetic": Synthetic,
    "classification": Classification,
}
"""The worlds by the names that spec files use; their signatures list their parameters."""
