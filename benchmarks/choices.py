"""Regret of UCB, Thompson sampling and a mixture on the paper's settings, with late rewards too.

Usage: python benchmarks/choices.py [ROUNDS [TRIALS]]. Prints a Markdown table. FSCLB with the
paper's sketch sizes and ten agents; rewards are observed in batches, every 1, 100 or 1,000 rounds.
Each choice has the radius of RADII that did best at the same batch size on two other seeds.
"""

import sys
from itertools import product
from statistics import mean, stdev

import fedbandit as fb
from fedbandit.core.agent import Agent
from fedbandit.core.server import Server
from fedbandit.lab.study.settings import AGENTS, SETTINGS, Setting

CHOICES = {"ucb": "ucb", "thompson": "thompson", "Mixed(0.1)": fb.Mixed(0.1)}
BATCHES = (1, 100, 1000)
RADII = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TUNING_SEEDS = (1001, 1002)


def deliver(agent: Agent, agents: list[Agent], server: Server, x: object, reward: float) -> None:
    """Observe a reward, and carry the upload that follows from it."""
    upload = agent.observe(x, reward)  # type: ignore[arg-type]
    if upload is not None:
        for directed in server.receive(upload):
            agents[directed.agent].receive(directed.message)


def regret(
    setting: Setting, choice: object, radius: float, *, batch: int, seed: int, rounds: int
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


def main(rounds: int = 10_000, trials: int = 5) -> None:
    """Print the table, a line as soon as it is known."""
    print("| setting | rewards every | " + " | ".join(CHOICES) + " |")
    print("|---|---|" + "---|" * len(CHOICES), flush=True)
    for setting, batch in product(SETTINGS, BATCHES):
        cells = []
        for choice in CHOICES.values():
            tuned = {
                radius: mean(
                    regret(setting, choice, radius, batch=batch, seed=seed, rounds=rounds // 2)
                    for seed in TUNING_SEEDS
                )
                for radius in RADII
            }
            best = min(tuned, key=tuned.__getitem__)
            runs = [
                regret(setting, choice, best, batch=batch, seed=seed, rounds=rounds)
                for seed in range(trials)
            ]
            half = 2.776 * stdev(runs) / trials**0.5 if trials == 5 else stdev(runs)
            cells.append(f"{mean(runs):,.0f} ± {half:,.0f} ({best:g})")
        print(f"| {setting.name} | {batch:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
