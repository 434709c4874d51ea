"""The data sets inside the package, so that the reproduction needs no network."""

from functools import cache
from importlib.resources import files

import numpy as np

from fedbandit.errors import unknown
from fedbandit.worlds.recorded.dataset import Dataset

BUNDLED = ("satimage", "mfeat-zernike")
"""Names of the data sets inside the package; ``data/NOTICE.md`` says where they come from."""


@cache
def load_bundled(name: str) -> Dataset:
    """Return one of the data sets inside the package: features as published, not standardised.

    Read once per process: a data set cannot be changed.
    """
    if name not in BUNDLED:
        raise unknown("data set", name, BUNDLED)
    source = files("fedbandit.worlds") / "data" / f"{name}.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        classes = tuple(arrays["classes"].tolist())
        return Dataset(name, arrays["X"], arrays["y"], classes)
