"""A world of named features that are hashed into an arm, as the sidecar does it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import real, whole
from fedbandit.hashing import name_hash, pair_places
from fedbandit.worlds.round import Round
from fedbandit.worlds.simulated.rewards import checked_rewards, paid
from fedbandit.worlds.tape import MOST, block_length, lengths, streams


@dataclass(frozen=True, kw_only=True)
class Hashed:
    """Users and items by name; all pairs of their features are hashed into places.

    Every round a user with ``fields`` attributes, each of ``values`` values, uniform at random,
    is shown ``arms`` different ones of ``items`` items; item i is of category i mod ``categories``.
    Arms are those that the sidecar makes of the context ``{"user": {"a0": "3", "a1": "5", ...}}``
    and the action ``{"item": {"id": "12", "category": "2"}}`` (``fedbandit.features.hashed``): of
    length 1, with a constant and all interactions, and collisions where pairs share a place. The
    active agent is uniform at random.

    The score is ``mean`` plus a sum of weights: a standard normal one for every feature, and one
    with deviation ``interactions`` for every pair of a user's and an item's; the sum is scaled to
    deviation ``signal``. It is not linear in the arm: pairs that share a place have weights of
    their own, as in life. More dimensions make it nearly so. ``rewards`` and ``noise`` are those
    of `Synthetic`.
    """

    dimension: int
    arms: int
    agents: int
    fields: int = 3
    values: int = 4
    items: int = 20
    categories: int = 5
    interactions: float = 0.3
    noise: float = 0.1
    seed: int = 0
    signal: float = 0.7
    mean: float = 3.0
    rewards: str = "ratings"

    def __post_init__(self) -> None:
        counts = ("dimension", "agents", "fields", "values", "items", "categories")
        checked: dict[str, object] = {
            **{name: whole(name, getattr(self, name), least=1, most=MOST) for name in counts},
            "interactions": real("interactions", self.interactions, zero=True),
            "seed": whole("seed", self.seed, least=0),
            **checked_rewards(
                self.rewards, noise=self.noise, signal=self.signal, mean=self.mean, meanless=False
            ),
        }
        why = "a round shows different items"
        checked["arms"] = whole("arms", self.arms, least=1, most=self.items, why=why)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values."""
        return asdict(self)

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        _, agents, contexts, shown, noise = streams(self.seed, 5)
        length = block_length(self.arms * max(self.dimension, 3 * (1 + self.fields)))
        places, signs = self._places
        while True:
            pairs = self._pairs(
                contexts.integers(self.values, size=(length, self.fields)),
                shown.random((length, self.items)).argsort(axis=1)[:, : self.arms],
            )
            arms = _sums(places[pairs], signs[pairs], self.dimension)
            scores: NDArray[np.float64] = self.mean + self._weights[pairs].sum(axis=-1)
            means, rewards = paid(scores, noise, kind=self.rewards, noise=self.noise)
            active = agents.integers(self.agents, size=length).tolist()
            yield from map(Round, active, arms, means, rewards)

    def _pairs(
        self, users: NDArray[np.int64], items: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return rows and columns of `_names` that arms are made of: length x arms x pairs.

        ``users`` has the value of every attribute, ``items`` the item of every arm.
        """
        always = np.zeros((len(users), 1), dtype=np.intp)
        context = np.hstack([always, 1 + self.values * np.arange(self.fields) + users])
        nothing = np.zeros_like(items)
        categories = 1 + self.items + items % self.categories
        action = np.stack([nothing, 1 + items, categories], axis=-1)
        shape = (*items.shape, context.shape[1], action.shape[2])
        rows = np.broadcast_to(context[:, None, :, None], shape)
        columns = np.broadcast_to(action[:, :, None, :], shape)
        flat = (*items.shape, -1)
        return rows.reshape(flat), columns.reshape(flat)

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Place and sign of every pair of a user's feature (or none) and an item's (or none)."""
        users = [f"user.a{field}={v}" for field in range(self.fields) for v in range(self.values)]
        items = [f"item.id={item}" for item in range(self.items)]
        items += [f"item.category={category}" for category in range(self.categories)]
        first, second = (
            np.array([0, *map(name_hash, names)], dtype=np.uint64) for names in (users, items)
        )
        return pair_places(first, second, self.dimension)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """Weight of every such pair in the score."""
        stream = streams(self.seed, 1)[0]
        deviations = np.full(self._places[0].shape, self.interactions)
        deviations[0, :] = deviations[:, 0] = 1.0
        deviations[0, 0] = 0.0
        variance = self.fields + 2 + 2 * self.fields * self.interactions**2
        scale = self.signal / np.sqrt(variance)
        weights: NDArray[np.float64] = stream.standard_normal(deviations.shape)
        weights *= scale * deviations
        return weights


def _sums(
    places: NDArray[np.intp], signs: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """Return the arms of length 1: signs added up at their places; 0 where all of them cancel."""
    rows = np.arange(places[..., 0].size)[:, np.newaxis]
    flat = (rows * dimension + places.reshape(len(rows), -1)).ravel()
    arms = np.zeros((*places.shape[:-1], dimension))
    np.add.at(arms.reshape(-1), flat, signs.ravel())
    sizes = lengths(arms)
    return arms / np.where(sizes > 0, sizes, 1.0)[..., np.newaxis]
