"""Regret of UCB, Thompson sampling and a mixture on the paper's settings, with late rewards too.

Usage: python benchmarks/choices.py [ROUNDS [TRIALS]]. Prints a Markdown table. FSCLB with the
paper's sketch sizes and ten agents, and a world whose arms stay the same; rewards are observed in
batches, every 1, 100 or 1,000 rounds. Each choice has the radius of RADII that did best at the same
batch size on two other seeds.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import mean, stdev

import numpy as np

import fedbandit as fb
from fedbandit.core.agent import Agent
from fedbandit.core.server import Server
from fedbandit.lab.study.settings import AGENTS, SETTINGS, Setting

CHOICES = {"ucb": "ucb", "thompson": "thompson", "Mixed(0.1)": fb.Mixed(0.1)}
BATCHES = (1, 100, 1000)
RADII = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TUNING_SEEDS = (1001, 1002)


@dataclass(frozen=True)
class Same:
    """The same 20 arms in every round: until a reward comes, UCB plays one and the same."""

    name: str = "same 20 arms, d=20"
    dimension: int = 20
    sketch_size: int = 21
    noise: float = 0.5

    def world(self, seed: int) -> "Same.World":
        """Return the tape of one trial."""
        return Same.World(self, seed)

    @dataclass(frozen=True)
    class World:
        """A tape with one seed."""

        of: "Same"
        seed: int

        def rounds(self, n: int) -> Iterator[fb.Round]:
            """Yield the first n rounds."""
            rng, d = np.random.default_rng([7, self.seed]), self.of.dimension
            arms, theta = rng.standard_normal((20, d)), rng.standard_normal(d)
            arms /= np.linalg.norm(arms, axis=1)[:, None]
            means = arms @ theta / np.linalg.norm(theta)
            for _ in range(n):
                agent = int(rng.integers(AGENTS))
                yield fb.Round(
                    agent, arms, means, means + self.of.noise * rng.standard_normal(len(arms))
                )


ALL: tuple[Setting | Same, ...] = (*SETTINGS, Same())


def deliver(agent: Agent, agents: list[Agent], server: Server, x: object, reward: float) -> None:
    """Observe a reward, and carry the upload that follows from it."""
    upload = agent.observe(x, reward)  # type: ignore[arg-type]
    if upload is not None:
        for directed in server.receive(upload):
            agents[directed.agent].receive(directed.message)


def regret(
    setting: Setting | Same, choice: object, radius: float, *, batch: int, seed: int, rounds: int
) -> float:
    """Return the regret of one run whose rewards are observed every ``batch`` rounds."""
    recipe = fb.FSCLB(
        dimension=setting.dimension,
        sketch_size=setting.sketch_size,
        agents=AGENTS,
        radius=radius,
        choice=choice,  # type: ignore[arg-type]
    )
    agents, server = recipe.fleet(), recipe.server()
    total, held = 0.0, []
    for t, this in enumerate(setting.world(seed).rounds(rounds), 1):
        agent = agents[this.agent]
        arm = agent.choose(this.arms)
        total += max(this.means) - this.means[arm]
        held.append((agent, this.arms[arm], float(this.rewards[arm])))
        if t % batch == 0:
            for who, x, reward in held:
                deliver(who, agents, server, x, reward)
            held.clear()
    return float(total)


def tuned(setting: Setting | Same, choice: object, *, batch: int, rounds: int) -> float:
    """Return the radius that did best on other seeds, in half as many rounds."""
    found = {
        radius: mean(
            regret(setting, choice, radius, batch=batch, seed=seed, rounds=rounds // 2)
            for seed in TUNING_SEEDS
        )
        for radius in RADII
    }
    return min(found, key=found.__getitem__)


def main(rounds: int = 10_000, trials: int = 5, settings: tuple[Setting | Same, ...] = ALL) -> None:
    """Print the table, a line as soon as it is known: regrets, and differences to UCB's.

    A difference is of pairs on the same tape, with twice its standard error.
    """
    print("| setting | rewards every | " + " | ".join(CHOICES) + " |")
    print("|---|---|" + "---|" * len(CHOICES), flush=True)
    for setting, batch in product(settings, BATCHES):
        cells, first = [], None
        for choice in CHOICES.values():
            best = tuned(setting, choice, batch=batch, rounds=rounds)
            runs = [
                regret(setting, choice, best, batch=batch, seed=seed, rounds=rounds)
                for seed in range(trials)
            ]
            cells.append(cell(runs, first, best))
            first = first or runs
        print(f"| {setting.name} | {batch:,} | {' | '.join(cells)} |", flush=True)


def cell(runs: list[float], first: list[float] | None, radius: float) -> str:
    """Return a mean with its radius, and the difference to ``first`` if there is one."""
    said = f"{mean(runs):,.0f}"
    if first is not None:
        pairs = [one - other for one, other in zip(runs, first, strict=True)]
        said += f", {mean(pairs):+,.0f} ± {2 * stdev(pairs) / len(pairs) ** 0.5:,.0f}"
    return f"{said} ({radius:g})"


if __name__ == "__main__":
    rounds, trials, *_ = (*map(int, sys.argv[1:]), *(10_000, 5)[len(sys.argv) - 1 :])
    main(rounds, trials)
