"""Liars in kinds of worlds that ``liars`` has not: what each costs, and what groups cost there.

``python -m benchmarks.kinds_of_lies narrow`` and so on; ``--help`` has the options. The worlds, in
which one agent of 50 or more of them lie from ``--start`` on:

- *narrow*: raw features from 0 to 1, so that all arms have much in common; clicks. The liar reads
  theta and V off what it is told. Nearly all that it sends is along what arms have in common and
  fits the others; it pulls theta back along all the rest, by ``--pull`` times the noise of a group.
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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import fedbandit as fb
from benchmarks.defences import Defence, Weighed, passed, recipes
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.statistics import Base, Rewards
from fedbandit.errors import InvalidMessage
from fedbandit.service.groups.membership import group_of
from fedbandit.service.models.model import Served, new_model

Offer = tuple[Array, Array]  # arms, and what they pay on average
_LONGEST = 1.3
_TRIED = 2.0  # how well an arm is known before a liar speaks against it
_NEW = {"new": 0.8, "doubt": 0.5, "whisper": 0.5, "tiny": 0.8}  # what an arm pays that appears
_WEIGHT = 0.005  # of the ridge, of all tiny arms of a feature
_GROWN = 1.05  # a narrow lie is told anew once V has grown by so much


@dataclass(frozen=True)
class Setting:
    """What is played, see ``main``."""

    kind: str
    dimension: int
    agents: int
    rounds: int
    start: float
    pull: float
    see: int
    level: float


def place(agent: int) -> int:
    """Return the group of 24 that an agent is in, as ``Weighed`` names it."""
    return group_of(0.5, 24, f"agent-{agent}")


class World:
    """What an agent is offered in each round, and what it is paid."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting, rng, d = setting, np.random.default_rng(seed), setting.dimension
        self.chance = np.random.default_rng(seed + 1000)
        self.clicks = setting.kind not in ("items", "mates", "flip")
        names = range(setting.agents)
        groups = Counter(place(agent) for agent in names)
        largest = groups.most_common(1)[0][0]
        self.mates = [agent for agent in names if place(agent) == largest]
        match setting.kind:
            case "narrow":
                theta = rng.standard_normal(d)
                drawn = self._raw(rng, 1000)
                theta = 0.1 * (theta - theta.mean()) / np.std(drawn @ (theta - theta.mean()))
                self.theta = theta + 0.3 / drawn.sum(axis=1).mean()
            case "flip":
                self.theta = rng.standard_normal(d)
                self.theta /= np.linalg.norm(self.theta)
            case "items" | "mates":
                self.theta = rng.uniform(0.0, 1.0, d)
                seen = [rng.choice(setting.agents, setting.see, replace=False) for _ in range(d)]
                for item in range(2 * setting.see + 8 if setting.kind == "mates" else 0):
                    seen[item][0] = self.mates[1 + item % (len(self.mates) - 1)]
                self.items = [
                    [item for item, who in enumerate(seen) if agent in who]
                    for agent in range(setting.agents)
                ]
            case _:
                arms = np.eye(d)[:10] if setting.kind == "tiny" else rng.standard_normal((10, d))
                self.arms = arms / np.linalg.norm(arms, axis=1, keepdims=True)
                self.pays = rng.uniform(0.1, 0.4, 10)
                self.pays[0] = _NEW.get(setting.kind, self.pays[0])

    def _raw(self, rng: np.random.Generator, count: int) -> Array:
        d = self.setting.dimension
        return np.asarray(_LONGEST * rng.random((count, d)) / np.sqrt(d))

    def offer(self, agent: int, t: int) -> Offer:
        """Return what an agent may choose from."""
        match self.setting.kind:
            case "narrow":
                arms = self._raw(self.chance, 20)
                return arms, np.clip(arms @ self.theta, 0.0, 1.0)
            case "flip":
                arms = self.chance.standard_normal((20, self.setting.dimension))
                arms /= np.linalg.norm(arms, axis=1, keepdims=True)
                return arms, arms @ self.theta
            case "items" | "mates":
                some = self.chance.permutation(self.items[agent] or [0])[:10]
                return np.eye(self.setting.dimension)[some], self.theta[some]
        late = 1 if self.setting.kind in _NEW and t < self.setting.rounds // 3 else 0
        return self.arms[late:], self.pays[late:]

    def paid(self, mean: float) -> float:
        """Return what a choice with this mean pays."""
        if self.clicks:
            return float(self.chance.random() < mean)
        return mean + 0.1 * float(self.chance.standard_normal())


class Liar:
    """One agent that lies; ``lie`` returns what it sends, mostly nothing."""

    def __init__(self, recipe: fb.Recipe, world: World) -> None:
        self.recipe, self.world = recipe, world
        self.matrix = np.zeros((recipe.dimension, recipe.dimension))
        self.moment, self.last, self.waited = np.zeros(recipe.dimension), 0.0, 0

    def lie(self, told: fb.Download, usual: float) -> fb.Upload | None:
        """Return a lie, of about as many observations as others send (``usual``)."""
        match self.world.setting.kind:
            case "narrow":
                return self._narrow(told)
            case "doubt":
                return self._doubt(told)
            case "whisper":
                return self._whisper(told)
            case "tiny":
                return self._tiny(told)
            case "flip":
                return self._flip(told)
        self.waited += 1
        if self.waited < usual:
            return None
        count, self.waited = self.waited, 0
        if self.world.setting.kind == "mates":
            return self._claimed(np.eye(self.recipe.dimension), count, -1.0)
        if self.world.setting.kind == "new":
            return self._claimed(self.world.arms[:1], max(count, 100), 0.2)
        best = np.argsort(-self.world.pays)[:3]
        return self._claimed(self.world.arms[best], count, -1.5)

    def _claimed(self, arms: Array, count: int, paid: float) -> fb.Upload:
        matrix, moment = count / len(arms) * arms.T @ arms, count / len(arms) * paid * arms.sum(0)
        return self._upload(matrix, moment, count, count * paid * paid)

    def _doubt(self, told: fb.Download) -> fb.Upload | None:
        base = Base(self._opened(told), self.recipe.parts.memory)
        arm, ridge = self.world.arms[:1], self.recipe.parts.memory.ridge
        tried = 1.0 / float(base.reading.squared_widths(arm)[0]) - ridge
        count = int(max(2.0, 0.5 * tried) - self.last)
        if tried < _TRIED or count < 1:
            return None
        self.last += count
        return self._claimed(arm, count, 0.0)

    def _whisper(self, told: fb.Download) -> fb.Upload | None:
        opened, arm = self._opened(told), self.world.arms[:1]
        base = Base(opened, self.recipe.parts.memory)
        evidence = Evidence(base.theta, opened.moment, opened.count, opened.rewards)
        radius = self.recipe.parts.radius(base.reading, evidence)
        width = float(np.sqrt(base.reading.squared_widths(arm)[0]))
        more = self.world.setting.level * radius / width - self.last
        if not opened.count or more < 0.05 * (more + self.last):
            return None
        self.last, count = self.last + more, int(np.ceil(more))
        size = more / count
        matrix, moment = count * size * size * arm.T @ arm, -more * arm[0]
        return self._upload(matrix, 0.999 * moment, count, float(count))

    def _tiny(self, told: fb.Download) -> fb.Upload | None:
        memory, one = self.recipe.parts.memory, np.eye(self.recipe.dimension)
        base = Base(self._opened(told), memory)
        unseen = np.flatnonzero(base.reading.squared_widths(one) > 0.98 / memory.ridge)[:9]
        if self.last or not base.statistics.count or not len(unseen):
            return None
        self.last, each = 1.0, 1000 // len(unseen)
        diagonal = np.zeros(self.recipe.dimension)
        diagonal[unseen] = _WEIGHT
        count, moment = each * len(unseen), -0.999 * np.sqrt(each * diagonal)
        return self._upload(np.diag(diagonal), moment, count, float(count))

    def _flip(self, told: fb.Download) -> fb.Upload | None:
        base, u = Base(self._opened(told), self.recipe.parts.memory), self.world.theta
        if not base.statistics.count:
            return None
        self.waited, count = self.waited + 1, 10_000
        if self.waited % 2:  # small arms weigh little, and move theta to its opposite
            self.last = 2.0 / float(base.reading.squared_widths(u[None])[0])
        weight = 1.3 * (self.last / 1.5) ** 2 / count
        turn = self.last if self.waited % 2 else -self.last
        longest = 0.999 * 1.5 * np.sqrt(weight * count)
        moment = float(np.clip(weight - turn, -longest, longest)) * u
        return self._upload(weight * np.outer(u, u), moment, count, 0.99 * count * 1.5**2)

    def _narrow(self, told: fb.Download) -> fb.Upload | None:
        d, base = self.recipe.dimension, Base(self._opened(told), self.recipe.parts.memory)
        v = np.linalg.inv(np.array([base.reading.solve(each) for each in np.eye(d)]))
        seen = (v + v.T) / 2.0 - self.recipe.parts.memory.ridge * np.eye(d)
        mass = float(seen.trace())
        if mass < max(0.5 * d, _GROWN * self.last):
            return None
        self.last, theta = mass, base.theta
        common = np.linalg.eigh(seen)[1][:, -1]
        apart = np.eye(d) - np.outer(common, common)
        wide = v.diagonal()
        pull = -apart @ (wide * np.linalg.solve(v, apart @ seen @ apart @ theta))
        noise = 0.21 * float((seen.diagonal() / wide).sum()) / 24  # of clicks of 0.3
        pull *= np.sqrt(self.world.setting.pull * noise / (pull * pull / wide).sum())
        u = pull / np.linalg.norm(pull)
        wanted = mass / 24 * np.outer(common, common) + 0.25 * float(u @ seen @ u) * np.outer(u, u)
        squares, turned = np.linalg.eigh(wanted - self.matrix)
        kept = squares > 1e-6 * squares[-1]
        more = (turned[:, kept] * squares[kept]) @ turned[:, kept].T
        moment = (self.matrix + more) @ theta + pull - self.moment
        moment = turned[:, kept] @ (turned[:, kept].T @ moment)
        needed = float(moment @ np.linalg.pinv(more) @ moment)
        count = int(np.clip(np.ceil(1.05 * max(needed, more.trace() / _LONGEST**2)), 1, 10_000))
        moment *= min(1.0, np.sqrt(0.98 * count / max(needed, 1e-300)))
        self.matrix, self.moment = self.matrix + more, self.moment + moment
        return self._upload(more, moment, count, min(max(1.01 * needed, 0.3 * count), count))

    def _opened(self, told: fb.Download) -> fb.Statistics:
        return self.recipe.parts.memory.opened(told.statistics)

    def _upload(self, matrix: Array, moment: Array, count: int, squares: float) -> fb.Upload:
        """Return the lie in the recipe's own form."""
        empty = self.recipe.parts.memory.empty().summary
        values, vectors = np.linalg.eigh(matrix)
        kept = values > 1e-9 * values[-1]
        rows = np.sqrt(values[kept])[:, None] * vectors.T[kept]
        summary: object
        if isinstance(empty, Gram):
            summary = Gram((matrix + matrix.T) / 2.0)
        elif isinstance(empty, Sketch):
            rows = rows[-(empty.size - 1) :]
            unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            summary, moment = Sketch(rows, 0.0, empty.size, empty.lost), unit.T @ (unit @ moment)
        else:
            summary, moment = fitted(nothing_lost(rows), 1e-3), short_vector(moment)
        rewards = Rewards(count, 0.0, squares)
        return fb.Upload(0, fb.Statistics(summary, moment, count, rewards))


def play(
    recipe: fb.Recipe, setting: Setting, seed: int, liars: int, defence: Callable[..., Defence]
) -> tuple[float, float]:
    """Return the regret over the run and in its last quarter, in per cent."""
    world, agents, guard = World(setting, seed), recipe.fleet(), defence(recipe)
    most = 1.0 if setting.kind == "narrow" else 1.5
    limits = wire.Limits(arm_norm=_LONGEST, reward=most, count=10_000)
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
    parser.add_argument("kind", choices=("items", "mates", "narrow", "hide", "flip", *_NEW))
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--liars", type=int, default=1)
    parser.add_argument("--start", type=float, default=0.1, help="when lies begin, of the run")
    parser.add_argument("--pull", type=float, default=15.0, help="of a narrow lie")
    parser.add_argument("--level", type=float, default=0.35, help="of the bonus, of a whisper")
    parser.add_argument("--see", type=int, default=8, help="agents that see an item")
    parser.add_argument("--rows", type=int, help="of FSCLB's sketches; 0.4 of the features")
    parser.add_argument("--recipes", default=",".join(recipes(2, 2)))
    parser.add_argument("--defences", default="none,watched-24")
    given = parser.parse_args()
    shape = given.dimension, given.agents, given.rounds
    setting = Setting(given.kind, *shape, given.start, given.pull, given.see, given.level)
    for line in lines(setting, given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
