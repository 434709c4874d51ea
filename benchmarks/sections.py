"""What is measured: one function for each table, which returns its title, columns and rows."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from tests.core import literal

import fedbandit as fb
from benchmarks import contenders
from benchmarks.device import on_the_device
from benchmarks.play import (
    AGENTS,
    ARMS,
    Federation,
    Player,
    Product,
    alternate,
    median_microseconds,
    settle,
    tape,
)
from benchmarks.published import Published
from fedbandit.core.memory.summary import sketch_of
from fedbandit.lab.study.settings import SETTINGS


@dataclass(frozen=True)
class Table:
    """A title, what the columns are, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def steady_rounds() -> Table:
    """Choose and observe between two syncs, after thousands of rounds."""
    rows = []
    for d, size in contenders.SIZES:
        federation = Federation(contenders.buffered(d, size))
        ours = Player(federation.round)
        settle(ours, d, 4000)
        product = Player(Product(federation).round)
        theirs = Player(Published(d, agents=AGENTS, radius=contenders.RADIUS).round)
        best = Player(Federation(contenders.best_fedlinucb(d)).round)
        for player in (theirs, best):  # what a round costs does not depend on what was learnt
            settle(player, d, 2000 if d <= 100 else 100 if d <= 1000 else 0)
        alternate([ours, product], d, blocks=40, block=200)
        alternate([ours, theirs, best], d, blocks=3 if d > 400 else 12, block=2 if d > 1000 else 20)
        rows.append(
            (
                f"{d}, {size}",
                *(f"{player.steady:.1f}" for player in (ours, theirs, best, product)),
                f"{theirs.steady / ours.steady:.1f}",
                f"{ours.steady / product.steady:.2f}",
            )
        )
    names = ("FSCLB", "FedLinUCB published", "FedLinUCB best", "product")
    ratios = ("published / ours", "ours / product")
    return Table("Steady round, buffered (us)", ("d, l", *names, *ratios), tuple(rows))


def whole_runs() -> Table:
    """Everything but the world, from the first round on; fewer rounds where d is large."""
    rows = []
    for d, size in contenders.SIZES[:-1]:
        rounds = 20_000 if d <= 400 else 2_000
        players = {
            "buffered": Player(Federation(contenders.buffered(d, size)).round),
            "paper": Player(Federation(contenders.paper(d, size)).round),
            "published": Player(Published(d, agents=AGENTS, radius=contenders.RADIUS).round),
            "best FedLinUCB": Player(Federation(contenders.best_fedlinucb(d)).round),
        }
        alternate(list(players.values()), d, blocks=rounds // 100, block=100)
        spent = {name: player.whole for name, player in players.items()}
        slow = _literal(d, size, {50: 10_000, 100: 5_000, 400: 1_000, 1000: 200}[d])
        rows.append(
            (
                f"{d}, {size}",
                f"{rounds:,}",
                *(f"{value:.1f}" for value in (*spent.values(), slow)),
                f"{spent['published'] / spent['buffered']:.1f}",
                f"{spent['published'] / spent['paper']:.1f}",
                f"{slow / spent['paper']:.1f}",
            )
        )
    names = ("buffered", "paper", "published", "best FedLinUCB", "literal")
    ratios = ("published / buffered", "published / paper", "literal / paper")
    return Table("Whole runs (us a round)", ("d, l", "rounds", *names, *ratios), tuple(rows))


def settings() -> Table:
    """Whole runs at the paper's four settings: what ``simulate`` counts, beside the published."""
    rounds, rows = 20_000, []
    for setting in SETTINGS:
        d, size, world = setting.dimension, setting.sketch_size, setting.world(0)
        recipes = {
            "buffered": contenders.buffered(d, size),
            "lean": fb.FSCLB.lean(dimension=d, agents=AGENTS),
            "paper": contenders.paper(d, size),
            "best FedLinUCB": contenders.best_fedlinucb(d),
            "Random": fb.Random(dimension=d, agents=AGENTS),
        }
        spent: dict[str, list[float]] = {name: [] for name in ("published", *recipes)}
        for _ in range(3):
            theirs = Player(Published(d, agents=AGENTS, radius=contenders.RADIUS).round)
            ahead = world.rounds(rounds)
            while block := list(islice(ahead, 1000)):
                theirs.play(block)
            spent["published"].append(theirs.whole)
            for name, recipe in recipes.items():
                seconds = fb.simulate(recipe, world, rounds=rounds).seconds.sum()
                spent[name].append(1e6 * float(seconds) / rounds)
        best = {name: min(runs) for name, runs in spent.items()}
        shares = (best[name] / best["published"] for name in ("buffered", "lean", "paper"))
        rows.append(
            (
                setting.name,
                *(f"{value:.1f}" for value in best.values()),
                *(f"{100 * share:.0f} %" for share in shares),
            )
        )
    names = ("published", "buffered", "lean", "paper", "best FedLinUCB", "Random")
    shares_of = ("buffered / published", "lean / published", "paper / published")
    title = f"Whole runs at the paper's settings, {rounds:,} rounds (us a round, best of 3)"
    return Table(title, ("", *names, *shares_of), tuple(rows))


def _literal(d: int, size: int, rounds: int) -> float:
    """Microseconds a round of the literal FSCLB, which does the same in every round."""
    world = list(islice(tape(d), rounds))
    start = perf_counter()
    literal.fsclb(world, d=d, size=size, M=AGENTS, alpha=1.0, lam=1.0, beta=contenders.RADIUS)
    return 1e6 * (perf_counter() - start) / rounds


def everyone() -> Table:
    """Every learner in its best form, whole runs."""
    columns = []
    for (d, size), rounds in zip(contenders.SIZES[:3], (20_000, 20_000, 2_000), strict=True):
        recipes = contenders.everyone(d, size)
        players = {name: Player(Federation(recipe).round) for name, recipe in recipes.items()}
        alternate(list(players.values()), d, blocks=rounds // 100, block=100)
        columns.append([(name, f"{player.whole:.1f}") for name, player in players.items()])
    rows = tuple((at[0][0], *(cell for _, cell in at)) for at in zip(*columns, strict=True))
    sizes = tuple(f"d = {d}, l = {size}" for d, size in contenders.SIZES[:3])
    title = "Everyone in best form, whole runs (us a round; 20,000 rounds, 2,000 at d = 400)"
    return Table(title, ("", *sizes), rows)


def growth() -> Table:
    """Time of a steady round against d and against l, and the slope in logs.

    One agent, as on a device: ten would take turns at evicting each other's sketches from the
    caches, the sooner the larger they are.
    """
    rows = []
    for title, sizes in (
        ("d, at l = 50", [(d, 50) for d in (500, 1000, 2000, 5000, 10_000, 20_000)]),
        ("l, at d = 4000", [(4000, size) for size in (20, 40, 80, 160)]),
    ):
        ours, floor = [], []
        for d, size in sizes:
            federation = Federation(contenders.buffered(d, size, agents=1))
            player = Player(federation.round)
            settle(player, d, 600, agents=1)
            product = Player(Product(federation).round)
            alternate([player, product], d, blocks=10, block=40, agents=1)
            ours.append(player.steady)
            floor.append(product.steady)
        along = [d if title.startswith("d") else size for d, size in sizes]
        for what, spent in (("FSCLB", ours), ("product", floor)):
            slope = np.polyfit(np.log(along), np.log(spent), 1)[0]
            times = ", ".join(f"{x}: {t:.0f}" for x, t in zip(along, spent, strict=True))
            rows.append((title, what, times, f"{slope:.2f}"))
    return Table("Growth of a steady round", ("against", "", "us", "slope in logs"), tuple(rows))


def server_merge() -> Table:
    """One merge at d = 1000, l = 50, against the eigh and the two products that it needs."""
    d, size = 1000, 50
    rng = np.random.default_rng(0)
    one, other = (sketch_of(rng.standard_normal((200, d)), shed=0.0, size=size) for _ in range(2))
    stacked = np.vstack([one.rows, other.rows])
    gram = stacked @ stacked.T
    turn = np.linalg.eigh(gram)[1][:, : size - 1]

    def bare() -> object:
        np.linalg.eigh(stacked @ stacked.T)
        return turn.T @ stacked

    ours = median_microseconds(lambda: one.merge(other), repeats=10)
    least = median_microseconds(bare, repeats=10)
    row = (f"{ours:.0f}", f"{least:.0f}", f"{ours / least:.2f}")
    return Table(
        "Server merge, d = 1000, l = 50 (us)", ("merge", "eigh and products", "ratio"), (row,)
    )


def linucb() -> Table:
    """LinUCB against a plain numpy loop with Sherman-Morrison."""
    rows = []
    for d in (20, 50, 100, 400):
        rounds = list(islice(tape(d, agents=1), 2000))
        ours = Player(Federation(fb.LinUCB(dimension=d, radius=contenders.RADIUS)).round)
        loop = Player(_ShermanMorrison(d).round)
        for start in range(0, len(rounds), 100):
            for player in (ours, loop):
                player.play(rounds[start : start + 100])
        rows.append(
            (str(d), f"{ours.steady:.1f}", f"{loop.steady:.1f}", f"{loop.steady / ours.steady:.2f}")
        )
    return Table(
        "LinUCB (us a round)", ("d", "ours", "plain numpy loop", "loop / ours"), tuple(rows)
    )


class _ShermanMorrison:
    """LinUCB as one would write it: numpy, rank-one updates, no checks."""

    def __init__(self, d: int) -> None:
        self._inverse, self._moment = np.eye(d), np.zeros(d)

    def round(self, this: fb.Round) -> bool:
        arms, inverse = this.arms, self._inverse
        widths = np.sqrt(np.einsum("kd,kd->k", arms @ inverse, arms))
        k = int(np.argmax(arms @ (inverse @ self._moment) + contenders.RADIUS * widths))
        solved = inverse @ arms[k]
        inverse -= np.outer(solved, solved) / (1.0 + arms[k] @ solved)
        self._moment += this.rewards[k] * arms[k]
        return False


def batches() -> Table:
    """Decisions one at a time against many at once, a decision."""
    rows, many = [], 64
    for d, size in contenders.SIZES[:4]:
        federation = Federation(contenders.buffered(d, size))
        settle(Player(federation.round), d, 1000)
        agent = federation.agents[0]
        arms = np.stack([this.arms for this in islice(tape(d), many)])

        def one(agent: fb.Agent = agent, arms: NDArray[np.float64] = arms) -> None:
            for each in arms:
                agent.choose(each)

        def all_at_once(agent: fb.Agent = agent, arms: NDArray[np.float64] = arms) -> None:
            agent.choose_many(arms)

        single, batch = (median_microseconds(act, repeats=5) / many for act in (one, all_at_once))
        rows.append((f"{d}, {size}", f"{single:.1f}", f"{batch:.1f}", f"{single / batch:.2f}"))
    return Table(
        f"Batches of {many} decisions (us a decision)",
        ("d, l", "choose", "choose_many", "ratio"),
        tuple(rows),
    )


def sparse_arms() -> Table:
    """K = 10 arms of 10 entries each, as a CSR matrix and written out."""
    rows, rng = [], np.random.default_rng(0)
    for d in (1000, 10_000, 100_000):
        agent = fb.FSCLB(dimension=d, sketch_size=20, agents=1, radius=contenders.RADIUS).agent(0)
        server = fb.FSCLB(dimension=d, sketch_size=20, agents=1, radius=contenders.RADIUS).server()
        for _ in range(30):
            upload = agent.observe(rng.standard_normal(d) / np.sqrt(d), 1.0)
            for answer in server.receive(upload) if upload else []:
                agent.receive(answer.message)
        arms = scipy.sparse.random(ARMS, d, density=10 / d, format="csr", rng=rng)
        written = arms.toarray()
        few = median_microseconds(partial(agent.choose, arms), repeats=10)
        all_of_them = median_microseconds(partial(agent.choose, written), repeats=10)
        rows.append((f"{d:,}", f"{few:.0f}", f"{all_of_them:.0f}", f"{all_of_them / few:.1f}"))
    return Table(
        "Sparse arms, 10 entries of d each, l = 20 (us a decision)",
        ("d", "CSR", "dense", "dense / CSR"),
        tuple(rows),
    )


def device() -> Table:
    """Decide and reward of a connected agent that no coordinator answers, journal on disk."""
    rows = []
    for act, spent in on_the_device().items():
        least, median, most = np.percentile(spent, (0, 50, 99))
        rows.append((act, f"{least:.1f}", f"{median:.1f}", f"{most:.1f}"))
    title = "On the device, d = 100, K = 10, journal on disk (us)"
    return Table(title, ("", "least", "median", "p99"), tuple(rows))


CROWD = """
import resource, fedbandit as fb, numpy as np
recipe = fb.FSCLB(dimension=100, sketch_size=20, agents=100_000, radius=0.3)
world = fb.worlds.Synthetic(dimension=100, arms=10, agents=100_000, seed=0)
trace = fb.simulate(recipe, world, rounds=300_000)
print(trace.uploads[-1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def memory() -> Table:
    """100,000 simulated agents at d = 100, l = 20, in a process of their own."""
    run = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True)
    uploads, gib = run.stdout.split()
    row = ("100,000", "300,000", uploads, f"{float(gib):.2f}")
    return Table("Memory, d = 100, l = 20", ("agents", "rounds", "uploads", "peak GiB"), (row,))


SECTIONS: dict[str, Callable[[], Table]] = {
    "steady": steady_rounds,
    "settings": settings,
    "whole": whole_runs,
    "everyone": everyone,
    "growth": growth,
    "merge": server_merge,
    "linucb": linucb,
    "batches": batches,
    "sparse": sparse_arms,
    "device": device,
    "memory": memory,
}
