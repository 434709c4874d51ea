"""Liars in kinds of worlds that ``liars`` has not: what each costs, and what groups cost there.

``python -m benchmarks.kinds_of_lies narrow`` and so on; ``--help`` has the options. The worlds, in
which one agent of 50 or more of them lie from ``--start`` on:

- *narrow*: raw features from 0 to 1, so that all arms have much in common; clicks. The liar reads
  theta and V off what it is told. Nearly all that it sends is along what arms have in common and
  fits the others; it pulls theta back along all the rest, by ``--pull`` times the noise of a group.
- *turn*: fresh arms with a constant in each; clicks. The liar reads theta and V off what it is
  told, and sends ``--share`` of all mass, of each direction alike, with theta turned back in all
  that arms do not have in common, by what five deviations of its noise explain.
- *late*: fresh arms of all features but one, noise 0.1; an arm of that one, better than nearly all,
  is there from half of the run on. The liar says beforehand that it was tried a little. Take more
  than 128 features.
- *hide*: the same ten arms in every round, which pay 1 in 10 to 40 % of cases. The liar says that
  the three best ones pay -1.5.
- *new*: the same, and an arm that pays in 80 % of cases appears after a third of the run. The liar
  has always tried it, and says that it pays 0.2.
- *doubt*: the same, but the new arm pays in half of the cases, and the liar waits until others have
  tried it a few times. Then it says that it paid nothing, half as often as all have tried it, which
  it reads off V: no more than chance explains, so that it is not found out.
- *whisper*: the same, but the liar, from the first ``--start`` of the run on, takes ``--level`` of
  the bonus of the new arm, beta and V being those that it is told: some ten observations.
- *tiny*: ten arms with a feature each; the best, which pays in 80 % of cases, appears after a third
  of the run. One upload says that tiny arms of all features that nobody had tried paid -1.
- *flip*: fresh arms, noise 0.1. The liar says in turns that theta is the opposite of what it is,
  and takes that back, to be told while nobody looks; see it with ``watched-24-slow``: 36 uploads a
  second, a look takes 4 ms.
- *items*: items with a feature each, of which an agent sees some, each seen by ``--see`` agents;
  noise 0.1. Nobody lies: it shows what groups cost where agents share little.
- *mates*: the same, and the liar says that all items pay -1. Printed is the regret of the honest
  agents in its group alone, the largest of 24, who are among those that see the first items.

Printed is the regret of honest agents in per cent of what the best arms have above Random, over the
run and in its last quarter, with standard errors: without and with liars, for each defence.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import fedbandit as fb
from benchmarks.defences import Defence, Weighed, passed, recipes
from benchmarks.lies import Liar
from benchmarks.worlds_of_lies import LONGEST, NEW, Setting, World
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidMessage
from fedbandit.service.models.model import Served, new_model


def play(
    recipe: fb.Recipe, setting: Setting, seed: int, liars: int, defence: Callable[..., Defence]
) -> tuple[float, float]:
    """Return the regret over the run and in its last quarter, in per cent."""
    world, agents, guard = World(setting, seed), recipe.fleet(), defence(recipe)
    most = 1.0 if setting.kind in ("narrow", "turn") else 1.5
    limits = wire.Limits(arm_norm=LONGEST, reward=most, count=10_000)
    served = Served(new_model("m", recipe, limits=limits)[0], recipe)
    first = world.mates if setting.kind == "mates" else range(liars)
    crowd = {agent: Liar(recipe, world) for agent in first[:liars]}
    judged = {*world.mates} if setting.kind == "mates" else {*range(setting.agents)}
    got, best, counts = np.zeros(setting.rounds), np.zeros(setting.rounds), [1]
    who = np.random.default_rng(seed + 7)
    for t in range(setting.rounds):
        i = int(who.integers(setting.agents))
        if i in crowd:
            lying = t >= setting.start * setting.rounds
            lie = crowd[i].lie(guard.download(i), float(np.mean(counts[-50:]))) if lying else None
            try:
                upload = None if lie is None else passed(served, lie)
            except InvalidMessage:
                continue
            if upload is not None:
                guard.merge(i, upload)
            continue
        arms, means = world.offer(i, t)
        chosen = agents[i].choose(arms)
        if i in judged:
            got[t], best[t] = means[chosen] - means.mean(), means.max() - means.mean()
        sent = agents[i].observe(chosen, world.paid(float(means[chosen])))
        if sent is not None:
            counts.append(sent.count)
            guard.merge(i, passed(served, fb.Upload(0, sent.statistics)))
            agents[i].receive(guard.download(i))
    late = slice(3 * setting.rounds // 4, None)
    return _regret(got, best), _regret(got[late], best[late])


def _regret(got: Array, best: Array) -> float:
    return 100.0 * (1.0 - float(got.sum()) / float(best.sum()))


def _defence(name: str) -> Callable[[fb.Recipe], Defence]:
    """Return a defence by its name: none, watched or weighed, and the number of groups."""
    if name == "none":
        return Defence
    how, groups, *slow = name.split("-")
    pace = (1 / 36, 0.004) if slow else (0.0, 0.0)
    return lambda recipe: Weighed(recipe, int(groups), watched=how == "watched", pace=pace)


def lines(setting: Setting, given: argparse.Namespace) -> Iterator[str]:
    """Yield a line for each recipe."""
    crowds = [0] if setting.kind == "items" else [0, given.liars]
    for name, recipe in recipes(setting.dimension, setting.agents, rows=given.rows).items():
        if name not in given.recipes.split(","):
            continue
        shown = []
        for defence in given.defences.split(","):
            for liars in crowds:
                runs = [
                    play(recipe, setting, seed, liars, _defence(defence))
                    for seed in range(given.seeds)
                ]
                mean, error = np.mean(runs, axis=0), np.std(runs, axis=0) / np.sqrt(len(runs))
                shown.append(
                    f"{defence}, {liars} liars: {mean[0]:.0f} ± {error[0]:.0f}"
                    f" ({mean[1]:.0f} ± {error[1]:.0f})"
                )
        yield f"{setting.kind} {name}: " + "; ".join(shown)


def main() -> None:
    """Print a line for each recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "kind", choices=("items", "mates", "narrow", "turn", "hide", "flip", "late", *NEW)
    )
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--liars", type=int, default=1)
    parser.add_argument("--start", type=float, default=0.1, help="when lies begin, of the run")
    parser.add_argument("--pull", type=float, default=15.0, help="of a narrow lie")
    parser.add_argument("--share", type=float, default=0.2, help="of all mass, of one that turns")
    parser.add_argument("--level", type=float, default=0.35, help="of the bonus, of a whisper")
    parser.add_argument("--see", type=int, default=8, help="agents that see an item")
    parser.add_argument("--rows", type=int, help="of FSCLB's sketches; 0.4 of the features")
    parser.add_argument("--recipes", default=",".join(recipes(2, 2)))
    parser.add_argument("--defences", default="none,watched-24")
    given = parser.parse_args()
    shape = given.dimension, given.agents, given.rounds
    setting = Setting(
        given.kind, *shape, given.start, given.pull, given.see, given.level, given.share
    )
    for line in lines(setting, given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
