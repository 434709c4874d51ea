"""Find where FSCLB.lean loses, in worlds drawn at random, on which nothing was tuned.

``python -m benchmarks.random_worlds --first 0 --worlds 100`` draws worlds of any size. Features are
of six kinds (dense, sparse, one-hot, half of each, counts, of low rank) and of different sizes,
with and without an intercept; rewards are of any unit, mean and noise (normal, heavy-tailed,
clicks); agents play equally often or not. In each it plays FedLinUCB, the paper's FSCLB with
l = 0.4 d and FSCLB.lean, all with ``radius="auto"``, and prints a line; worlds in which lean's
regret is more than 1.1 times the larger of the two are marked. World N is the same in every run.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit.worlds import Round

LINE = 1.1
BLOCK = 500  # rounds drawn at a time
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """What a world is like."""

    d: int
    arms: int
    agents: int
    kind: str
    rewards: str
    sizes: float
    """Powers of ten, both ways, by which the sizes of features differ."""
    size: float
    """Of all features."""
    unit: float
    """Of rewards: the spread of the means of the arms of a round, before ``gap``."""
    gap: float
    noise: float
    mean: float | None
    """What the intercept, the first feature, pays in units; None without intercept."""
    skewed: bool
    """Whether agent i plays in proportion to 1 / (i + 1)."""
    mixed: bool
    """Whether features are mixed by a matrix of uneven eigenvalues."""


def drawn(number: int) -> Draw:
    """Return world ``number``."""
    chance = np.random.default_rng([number, 0])
    rewards = str(chance.choice(["normal", "normal", "clicks", "heavy-tailed"]))
    clicks = rewards == "clicks"
    intercept = bool(chance.random() < 0.5)
    mean = float(chance.choice([0.0, 3.0, -5.0, 30.0, 100.0]))
    return Draw(
        d=int(chance.choice([4, 8, 16, 30, 50, 80])),
        arms=int(chance.choice([2, 5, 10, 25])),
        agents=int(chance.choice([1, 3, 10, 40])),
        kind=str(chance.choice(["dense", "sparse", "one-hot", "half", "counts", "low-rank"])),
        rewards=rewards,
        sizes=float(chance.choice([0.0, 0.5, 1.0])),
        size=float(10 ** chance.uniform(-1.5, 1.5)),
        unit=1.0 if clicks else float(10 ** chance.uniform(-2.0, 2.0)),
        gap=float(chance.choice([1.0, 0.3])),
        noise=float(chance.choice([0.01, 0.1, 0.3, 1.0])),
        mean=(0.0 if clicks else mean) if intercept else None,
        skewed=bool(chance.random() < 0.5),
        mixed=bool(chance.random() < 0.3),
    )


class Drawn:
    """A world as drawn; ``trial`` is the seed of its rounds."""

    def __init__(self, number: int, trial: int) -> None:
        self.draw = draw = drawn(number)
        self.dimension, self.agents = draw.d, draw.agents
        self._seed = [number, 1, trial]
        chance = np.random.default_rng([number, 2])
        self._sizes = draw.size * 10 ** (draw.sizes * chance.uniform(-1.0, 1.0, draw.d))
        self._axes = chance.standard_normal((max(2, draw.d // 6), draw.d)) / np.sqrt(draw.d)
        turned = np.linalg.qr(chance.standard_normal((draw.d, draw.d)))[0]
        self._mix = turned * np.exp(chance.uniform(-2.0, 0.0, draw.d)) if draw.mixed else None
        theta = chance.standard_normal(draw.d)
        means = self._arms(chance, BLOCK) @ theta
        self._theta = theta / (means - means.mean(axis=1, keepdims=True)).std()

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds."""
        chance, left = np.random.default_rng(self._seed), n
        while left > 0:
            yield from self._block(chance, left)
            left -= BLOCK

    def _block(self, chance: np.random.Generator, most: int) -> Iterator[Round]:
        arms, draw = self._arms(chance, BLOCK), self.draw
        means = draw.gap * (arms @ self._theta)
        if draw.mean is not None:
            means += draw.mean - draw.gap * self._theta[0] * draw.size
        if draw.rewards == "clicks":
            means = np.clip(0.2 + 0.12 * means, 0.01, 0.99)
            rewards = (chance.random(means.shape) < means) * 1.0
        else:
            heavy = draw.rewards == "heavy-tailed"
            noise = chance.standard_t(3, means.shape) / np.sqrt(3.0) if heavy else None
            noise = chance.standard_normal(means.shape) if noise is None else noise
            rewards = draw.unit * (means + draw.noise * noise)
            means = draw.unit * means
        shares = 1.0 / np.arange(1.0, self.agents + 1.0) if draw.skewed else np.ones(self.agents)
        agents = chance.choice(self.agents, BLOCK, p=shares / shares.sum())
        for i in range(min(BLOCK, most)):
            yield Round(int(agents[i]), arms[i], means[i], rewards[i])

    def _arms(self, chance: np.random.Generator, n: int) -> Array:
        """Return arms of n rounds (n x K x d)."""
        arms = self._features(chance, n * self.draw.arms)
        arms = arms if self._mix is None else arms @ self._mix
        arms = arms * self._sizes
        if self.draw.mean is not None:
            arms[:, 0] = self.draw.size
        return arms.reshape(n, self.draw.arms, self.dimension)

    def _features(self, chance: np.random.Generator, m: int) -> Array:
        """Return m arms (m x d) as they are before they are mixed and sized."""
        d, arms = self.dimension, np.empty((m, self.dimension))
        match self.draw.kind:
            case "dense":
                arms[:] = chance.standard_normal((m, d)) / np.sqrt(d)
            case "sparse":
                arms[:] = chance.standard_normal((m, d)) * (chance.random((m, d)) < 3.0 / d)
            case "one-hot":
                arms = _one_hot(chance, m, np.array_split(np.arange(d), max(1, d // 8)), d)
            case "half":
                arms = _one_hot(chance, m, [np.arange(d // 2, d)], d)
                arms[:, : d // 2] = 0.5 * chance.standard_normal((m, d // 2))
            case "counts":
                arms[:] = 0.3 * chance.poisson(chance.gamma(0.5, 1.0, (m, d)))
            case "low-rank":
                arms[:] = chance.standard_normal((m, len(self._axes))) @ self._axes
        return arms


def _one_hot(chance: np.random.Generator, m: int, fields_: list[NDArray[np.intp]], d: int) -> Array:
    """Return one value of each field, the i-th in proportion to 1 / i."""
    arms = np.zeros((m, d))
    for places in fields_:
        shares = 1.0 / np.arange(1.0, len(places) + 1.0)
        arms[np.arange(m), chance.choice(places, m, p=shares / shares.sum())] = 1.0
    return arms


def regrets(number: int, *, trials: int, rounds: int) -> dict[str, float]:
    """Return the mean regret of each algorithm in a world."""
    found: dict[str, list[float]] = {}
    for trial in range(trials):
        world = Drawn(number, trial)
        size = max(2, int(0.4 * world.dimension))
        lines = {
            "FedLinUCB": fb.FedLinUCB(
                dimension=world.dimension, agents=world.agents, radius="auto"
            ),
            "literal": fb.FSCLB(
                dimension=world.dimension, agents=world.agents, sketch_size=size, radius="auto"
            ),
            "lean": fb.FSCLB.lean(dimension=world.dimension, agents=world.agents),
            "Random": fb.Random(dimension=world.dimension, agents=world.agents, seed=trial),
        }
        for name, recipe in lines.items():
            trace = fb.simulate(recipe, world, rounds=rounds)
            found.setdefault(name, []).append(float(trace.regret[-1]))
    return {name: float(np.mean(each)) for name, each in found.items()}


def main() -> None:
    """Print a line a world."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5000)
    asked = parser.parse_args()
    worse = 0
    for number in range(asked.first, asked.first + asked.worlds):
        found = regrets(number, trials=asked.trials, rounds=asked.rounds)
        share = found["lean"] / max(found["FedLinUCB"], found["literal"], 1e-300)
        worse += share > LINE
        what = drawn(number)
        said = ", ".join(f"{each.name} {_short(getattr(what, each.name))}" for each in fields(what))
        numbers = "  ".join(f"{name} {regret:.4g}" for name, regret in found.items())
        mark = "WORSE" if share > LINE else "     "
        print(f"{number:4} {mark} {share:6.2f}  {numbers}  ({said})", flush=True)
    print(f"lean / larger above {LINE} in {worse} of {asked.worlds} worlds")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
