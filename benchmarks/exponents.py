"""How cost grows with d, l and M, beside the paper's Table 1: ``python -m benchmarks.exponents``.

Slopes of log cost against log size, by least squares; 95 % intervals from Student's t over seeds.
Isotropic unit arms, K = 10. Time: a steady round of one agent, minimum over blocks.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

import fedbandit as fb
from fedbandit.core.kernels import compiler
from fedbandit.core.recipe import Recipe
from fedbandit.lab.analysis.statistics import estimate

SEEDS = range(4)
DIMENSIONS, SIZES, FLEETS = (25, 50, 100, 200), (5, 10, 20, 40), (5, 10, 20, 40)
ROUNDS = 8_000
Make = Callable[[int, int, int], Recipe]


def sketched(d: int, size: int, agents: int) -> Recipe:
    return fb.FSCLB(dimension=d, sketch_size=size, agents=agents, radius=0.3)


def lean(d: int, size: int, agents: int) -> Recipe:
    return fb.FSCLB.lean(dimension=d, sketch_size=size, agents=agents, radius=0.3)


def whole(d: int, size: int, agents: int) -> Recipe:
    del size
    return fb.FedLinUCB(dimension=d, agents=agents, radius=0.3)


def sent(make: Make, d: int, size: int, agents: int, seed: int) -> tuple[float, float, float]:
    """Return uploads, scalars and bytes of a whole run."""
    world = fb.worlds.Synthetic(dimension=d, arms=10, agents=agents, noise=0.1, seed=seed)
    trace = fb.simulate(make(d, size, agents), world, rounds=ROUNDS)
    return float(trace.uploads[-1]), float(trace.scalars[-1]), float(trace.bytes[-1])


def steady(make: Make, d: int, size: int, seed: int) -> float:
    """Return seconds of a round without an upload, on an agent that has learned already."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((200, 10, d))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    agent, server = make(d, size, 1).agent(0), make(d, size, 1).server()
    blocks = []
    for _ in range(12):
        spent = 0.0
        rounds = 0
        for shown in arms:
            start = time.perf_counter()
            upload = agent.observe(agent.choose(shown), 0.1)
            if upload is None:
                spent += time.perf_counter() - start
                rounds += 1
            else:
                for answer in server.receive(upload):
                    agent.receive(answer.message)
        blocks.append(spent / max(rounds, 1))
    return min(blocks)


def slope(sizes: Sequence[int], values: Iterable[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(list(values)), 1)[0])


def told(slopes: Sequence[float]) -> str:
    found = estimate(slopes)
    return f"{found.mean:.2f} ± {0.0 if math.isnan(found.ci95) else found.ci95:.2f}"


def places(axis: str, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return d, l and M for each size along an axis."""
    return [
        {"d": (size, 20, 10), "l": (100, size, 10), "M": (50, 20, size)}[axis] for size in sizes
    ]


def main() -> None:
    compiler.load()
    threadpool_limits(limits=1)
    for name, make in (("FSCLB", sketched), ("FSCLB.lean", lean), ("FedLinUCB", whole)):
        for axis, sizes in (("d", DIMENSIONS), ("l", SIZES), ("M", FLEETS)):
            if axis == "l" and make is whole:
                continue
            runs = [
                [sent(make, d, size, m, s) for d, size, m in places(axis, sizes)] for s in SEEDS
            ]
            for place, what in enumerate(("uploads", "scalars", "bytes")):
                slopes = [slope(sizes, (each[place] for each in row)) for row in runs]
                print(f"{name}: {what} with {axis} {sizes}: {told(slopes)}", flush=True)
        dimensions = (100, 200, 400, 800)
        slopes = [slope(dimensions, (steady(make, d, 20, s) for d in dimensions)) for s in range(2)]
        print(f"{name}: a steady round with d {dimensions}: {told(slopes)}", flush=True)


if __name__ == "__main__":
    main()
