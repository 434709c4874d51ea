"""A world made from a data set with classes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import whole
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.worlds.recorded.categories import Categories
from fedbandit.worlds.recorded.dataset import Dataset
from fedbandit.worlds.recorded.loading import load_dataset
from fedbandit.worlds.round import Round
from fedbandit.worlds.tape import MOST, block_length, lengths, streams


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Find the class that pays, one instance of every class at a time, as in SOFUL's paper.

    Arm k of a round is an instance of class k: its features standardised over the data set, a
    constant 1 appended, scaled to length 1; so there are as many arms as classes, of dimension p +
    1. The ``target`` class pays 1 and the others 0, without noise. Instances of a class
    come in random order, each once, then shuffled again. The active agent is uniform at random.

    ``data`` is a `Dataset` or a name that `load_dataset` knows: ``"satimage"``,
    ``"mfeat-zernike"``, ``"openml:22"``, ``"path/to.csv"`` (with ``target_column`` where it is not
    clear which column has the labels, and ``categories`` where features are text). ``target`` is
    the index of a class (a number) or its name (text).

    A world is a tape: the same parameters give the same rounds, bit for bit, and a shorter run is
    a prefix of a longer one. Worlds that differ only in ``target`` show the same arms. A round
    costs one copied row per class.
    """

    data: Dataset | str | os.PathLike[str]
    target: int | str = 0
    agents: int = 10
    seed: int = 0
    target_column: str | None = None
    categories: Categories = "refuse"
    dataset: Dataset = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "agents", whole("agents", self.agents, least=1, most=MOST))
        object.__setattr__(self, "seed", whole("seed", self.seed, least=0))
        object.__setattr__(self, "dataset", self._load())
        self.dataset.index_of(self.target)

    @property
    def dimension(self) -> int:
        """Length of an arm: the features and the constant."""
        return int(self.dataset.features.shape[1]) + 1

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values; data by content, not by place."""
        return {
            "data": self.dataset.name,
            "digest": self.dataset.digest,
            "target": self.dataset.index_of(self.target),
            "agents": self.agents,
            "seed": self.seed,
        }

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. Means and rewards are one array that cannot be written."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        labels, classes = self.dataset.labels, len(self.dataset.classes)
        instances = _instances(self.dataset.features)
        agents, *shuffles = streams(self.seed, 1 + classes)
        length = block_length(classes * self.dimension)
        drawn = [
            _shuffled(np.flatnonzero(labels == index), shuffle, length)
            for index, shuffle in enumerate(shuffles)
        ]
        pay = repeat(self._pay())
        while True:
            rows = np.stack([next(each) for each in drawn], axis=1)
            active = agents.integers(self.agents, size=length).tolist()
            yield from map(Round, active, instances[rows], pay, pay)

    def _load(self) -> Dataset:
        if not isinstance(self.data, Dataset):
            return load_dataset(
                self.data, target_column=self.target_column, categories=self.categories
            )
        if self.target_column is not None:
            raise InvalidParameter(
                complaint(
                    "target_column",
                    got=f"{self.target_column!r} with a Dataset",
                    expected="a target column only with the path of a file",
                    fix="Leave target_column out: a Dataset has its labels already.",
                )
            )
        return self.data

    def _pay(self) -> NDArray[np.float64]:
        pay = np.zeros(len(self.dataset.classes))
        pay[self.dataset.index_of(self.target)] = 1.0
        pay.setflags(write=False)
        return pay


def _instances(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return n x (p + 1) arms of length 1: standardised features and a constant.

    Columns are first brought to at most 1 in size: that keeps large ones from overflowing, and
    makes a constant column exactly constant in floating point, so that it is left at 0 instead of
    0 / 0.
    """
    largest = np.abs(features).max(axis=0)
    scaled = features / np.where(largest > 0, largest, 1.0)
    centred = scaled - scaled.mean(axis=0)
    deviation = np.sqrt((centred**2).mean(axis=0))
    standard = centred / np.where(deviation > 0, deviation, 1.0)
    arms = np.hstack([standard, np.ones((len(features), 1))])
    return arms / lengths(arms)[:, np.newaxis]


def _shuffled(
    rows: NDArray[np.intp], shuffle: np.random.Generator, length: int
) -> Iterator[NDArray[np.intp]]:
    """Yield ``length`` rows at a time, for ever: each once in random order, then shuffled again."""
    left = rows[:0]
    while True:
        while len(left) < length:
            left = np.concatenate([left, shuffle.permutation(rows)])
        yield left[:length]
        left = left[length:]
