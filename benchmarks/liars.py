"""What liars with valid tokens do to a fleet, and what each defence leaves of that.

``python -m benchmarks.liars`` plays FSCLB, FSCLB.lean and FedLinUCB with 50 agents, of which none,
one or five lie. A liar uploads as often and for as many observations as an honest agent, and every
upload passes the coordinator's door: arms along theta, as it was last told, and rewards of -R. It
lies for the first three quarters of the run, so that the last one shows what is left. It knows the
true theta, and the defence: it sends the worst lie that is let in. With ``--lost`` liars of lean
say that they have lost all arms, evenly, with the longest moment that the door lets in.

The *lead* is the reward of the fleet of honest agents above that of Random in the same rounds;
a loss of 0 % is as good as without liars, 100 % is no better than Random.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array, inverse_square
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.quotas import mass_of
from fedbandit.service.models.groups import as_told, told_moment
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.influence import restrained
from fedbandit.service.validation.upload import check_sync
from fedbandit.worlds import Synthetic

AGENTS, ARMS = 50, 20
LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=10_000)


@dataclass
class Liar:
    """Counts the rounds it should have played, and sends a lie of as many when it is due."""

    due: int
    counted: int = 0
    lies: int = 0

    def round(self) -> int:
        """Count one round; return for how many observations to lie now, mostly 0."""
        self.counted += 1
        if self.counted < self.due:
            return 0
        count, self.counted = self.counted, 0
        self.lies += 1
        return count


def lie(recipe: fb.Recipe, theta: Array, count: int, reward: float = -1.0) -> fb.Upload:
    """Return ``count`` observations of the arm along theta, each with this reward."""
    u = theta / (float(np.linalg.norm(theta)) or 1.0)
    empty = recipe.parts.memory.empty().summary
    rows = np.sqrt(count) * u[None]
    summary: object
    if isinstance(empty, Gram):
        summary = Gram(rows.T @ rows)
    elif isinstance(empty, Sketch):
        summary = Sketch(rows, 0.0, empty.size, empty.lost)
    else:
        summary = fitted(nothing_lost(rows), 1e-3)
    return fb.Upload(0, fb.Statistics(summary, reward * count * u, count))


def largest_lie(guard: "Defence", theta: Array, count: int) -> fb.Upload:
    """Return the worst lie that a defence lets in, which the liar knows as well as we do."""
    length = float(np.linalg.norm(theta))
    low, high = length, -1.0
    if guard.takes(lie(guard.recipe, theta, count, high)):
        return lie(guard.recipe, theta, count, high)
    for _ in range(12):
        middle = (low + high) / 2.0
        if guard.takes(lie(guard.recipe, theta, count, middle)):
            low = middle
        else:
            high = middle
    return lie(guard.recipe, theta, count, low)


def lost_lie(served: Served, theta: Array, count: int) -> fb.Upload:
    """Return ``count`` observations that were lost, with the longest moment that is let in."""
    d, u = len(theta), theta / (float(np.linalg.norm(theta)) or 1.0)
    lost = 0.98 * count
    summary = fitted(LossyRows(np.zeros((0, d)), np.full(d, 0.9 * lost), lost), 1e-3)
    low, high, best = 0.0, 8.0, lie(served.recipe, theta, count)
    for _ in range(12):
        middle = (low + high) / 2.0
        moment = short_vector(-middle * count * u)
        tried = fb.Upload(0, fb.Statistics(summary, moment, count))
        try:
            _pass(served, tried)
        except InvalidMessage:
            high = middle
        else:
            low, best = middle, tried
    return best


class Defence:
    """Takes every upload: what a coordinator would merge."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self.recipe, self.server = recipe, recipe.server()

    def takes(self, _upload: fb.Upload) -> bool:
        """Say whether an upload is let in, whoever sends it."""
        return True

    def merge(self, _agent: int, upload: fb.Upload) -> bool:
        """Merge an upload if this defence lets it in; return whether it did."""
        self.server.receive(upload)
        return True

    def download(self) -> fb.Download:
        """Return what agents are told."""
        return self.server.download()


class Share(Defence):
    """Lets no agent hold more than a share of the mass."""

    def __init__(self, recipe: fb.Recipe, share: float) -> None:
        super().__init__(recipe)
        self.share, self.held = share, np.zeros(AGENTS)

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge unless the agent's share would be too large."""
        mass = mass_of(upload.summary)
        over = self.held[agent] + mass > self.share * (self.held.sum() + mass)
        if over and self.held[agent] > 0 and np.count_nonzero(self.held) > 1 / self.share:
            return False
        self.held[agent] += mass
        return super().merge(agent, upload)


class Surprise(Defence):
    """Lets in what the model does not speak against, see ``surprise``."""

    def __init__(self, recipe: fb.Recipe, most: float) -> None:
        super().__init__(recipe)
        self.most = most

    def takes(self, upload: fb.Upload) -> bool:
        """Say whether the upload is let in."""
        return surprise(self.recipe, self.server, upload, self.most) <= self.most

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge unless the model speaks against it."""
        return self.takes(upload) and super().merge(agent, upload)


class Median(Defence):
    """Keeps sums of groups of agents, and tells agents the median of the groups' estimates."""

    def __init__(self, recipe: fb.Recipe, groups: int) -> None:
        super().__init__(recipe)
        self.groups = [recipe.server() for _ in range(groups)]

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge into the whole and into the group."""
        self.groups[agent % len(self.groups)].receive(upload)
        return super().merge(agent, upload)

    def download(self) -> fb.Download:
        """Return everything, with a moment that gives the median of the estimates."""
        told = told_moment(self.recipe, self.server, dict(enumerate(self.groups)))
        return as_told(self.recipe, self.server, told.astype("<f8").tobytes()).download()


def surprise(recipe: fb.Recipe, server: fb.Server, upload: fb.Upload, noise: float) -> float:
    """Return the root mean square by which the rewards of an upload differ from the predicted.

    Only what differs by itself: what the model's uncertainty or the sketch's error explains, for
    rewards with that much noise, is taken off.
    """
    memory, base, summary = recipe.parts.memory, server._base, upload.summary
    theta, reading = base.theta, base.reading
    if isinstance(summary, Gram):
        rows, shed, mean = (
            np.linalg.cholesky(
                summary.matrix + 1e-9 * summary.matrix.trace() * np.eye(recipe.dimension)
            ).T,
            0.0,
            0.0,
        )
    elif isinstance(summary, Sketch):
        rows, shed, mean = summary.rows, summary.shed, 0.0
    else:
        opened = memory.opened(upload.statistics).summary
        rows, shed = opened.rows, float(opened.bound.max())
        mean = opened.lost / recipe.dimension
    residual = upload.moment - (rows @ theta) @ rows - mean * theta
    floor = shed + 1e-9 * (float((rows * rows).sum()) + shed)
    gap = np.sqrt(inverse_square(rows, np.full(len(residual), floor), residual)) if floor else 0.0
    trace = float(reading.squared_widths(rows).sum()) if len(rows) else 0.0
    beta = np.sqrt(memory.ridge) + noise * np.sqrt(recipe.dimension)
    excused = beta * np.sqrt(trace) + np.sqrt(shed) * (float(np.linalg.norm(theta)) + 1.0)
    return float(max(0.0, gap - excused) / np.sqrt(upload.count))


@dataclass
class Outcome:
    """Rewards of honest agents and of Random, by round; uploads let in and held back."""

    reward: Array
    random: Array
    lies: int = 0
    held_back: int = 0
    honest_held_back: int = 0


def play(
    recipe: fb.Recipe,
    *,
    dimension: int,
    rounds: int,
    liars: int,
    defence: Callable[[fb.Recipe], Defence],
    seed: int,
    own: bool,
    lost: bool,
) -> Outcome:
    """Play one run; ``own``: arms of every agent lie in a subspace of its own; ``lost``: above."""
    spectrum, subspaces = ("low-rank", "own") if own else ("isotropic", "shared")
    world = Synthetic(
        dimension=dimension,
        arms=ARMS,
        agents=AGENTS,
        seed=seed,
        spectrum=spectrum,
        subspaces=subspaces,
    )
    agents, guard = recipe.fleet(), defence(recipe)
    served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
    counts: list[int] = []
    crowd = {i: Liar(due=1) for i in range(liars)}
    result = Outcome(np.zeros(rounds), np.zeros(rounds))
    for t, this in enumerate(world.rounds(rounds)):
        i, agent = this.agent, agents[this.agent]
        result.random[t] = float(np.mean(this.means))
        lying = i in crowd and rounds // 100 <= t < rounds * 3 // 4
        arm = agent.choose(this.arms)
        result.reward[t] = result.random[t] if i in crowd else this.means[arm]
        if lying:
            crowd[i].due = max(1, int(np.mean(counts[-50:]))) if counts else 1
            count = crowd[i].round()
            if count:
                if lost and isinstance(recipe.parts.memory, LossyMemory):
                    told = lost_lie(served, world.theta, count)
                else:
                    told = largest_lie(guard, world.theta, count)
                upload = _pass(served, told)
                result.lies += 1
                result.held_back += not guard.merge(i, upload)
            continue
        sent = agent.observe(arm, this.rewards[arm])
        if sent is not None:
            counts.append(sent.count)
            upload = _pass(served, fb.Upload(0, sent.statistics))
            # what is held back is lost here; a coordinator's agents wait
            result.honest_held_back += not guard.merge(i, upload)
            agent.receive(guard.download())
    return result


def _pass(served: Served, upload: fb.Upload) -> fb.Upload:
    """Return what a coordinator makes of an upload; raise InvalidMessage if it refuses it."""
    check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    return restrained(served, upload)


def recipes(d: int) -> dict[str, fb.Recipe]:
    """Return the recipes that a coordinator serves."""
    return {
        "FSCLB": fb.FSCLB(dimension=d, sketch_size=max(2, round(0.4 * d)), agents=AGENTS),
        "lean": fb.FSCLB.lean(dimension=d, agents=AGENTS),
        "FedLinUCB": fb.FedLinUCB(dimension=d, agents=AGENTS),
    }


DEFENCES: dict[str, Callable[[fb.Recipe], Defence]] = {
    "none": Defence,
    "share 0.1": lambda recipe: Share(recipe, 0.1),
    "surprise 0.3": lambda recipe: Surprise(recipe, 0.3),
    "median 6": lambda recipe: Median(recipe, 6),
    "median 12": lambda recipe: Median(recipe, 12),
    "median 24": lambda recipe: Median(recipe, 24),
}


def rows(
    dimension: int,
    rounds: int,
    seeds: int,
    names: list[str],
    *,
    only: list[str],
    own: bool,
    lost: bool,
) -> Iterator[str]:
    """Yield a line for each recipe, defence and number of liars."""
    for name, recipe in recipes(dimension).items():
        if name not in only:
            continue
        base: Array | None = None
        for how in names:
            for liars in (0, 1, 5):
                runs = [
                    play(
                        recipe,
                        dimension=dimension,
                        rounds=rounds,
                        liars=liars,
                        defence=DEFENCES[how],
                        seed=seed,
                        own=own,
                        lost=lost,
                    )
                    for seed in range(seeds)
                ]
                lead = np.mean([each.reward - each.random for each in runs], axis=0)
                honest = 1.0 - liars / AGENTS
                quarters = lead.reshape(4, -1).mean(axis=1) / honest
                if base is None:
                    base = quarters
                by_quarter = 100.0 * (1.0 - quarters / base)
                all_lost = 100.0 * (1.0 - quarters.sum() / base.sum())
                worst = " ".join(f"{each:6.1f}" for each in by_quarter)
                held = sum(each.held_back for each in runs)
                sent = sum(each.lies for each in runs)
                wrong = sum(each.honest_held_back for each in runs)
                yield (
                    f"{name:10} {how:12} {liars} liars: lead lost {all_lost:6.1f} % "
                    f"(by quarter {worst}); lies {sent}, held back {held}, honest {wrong}"
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--defences", default=",".join(DEFENCES))
    parser.add_argument("--own", action="store_true", help="agents with arms of their own")
    parser.add_argument("--lost", action="store_true", help="liars of lean that lost all arms")
    parser.add_argument("--recipes", default=",".join(recipes(2)))
    given = parser.parse_args()
    names, only = given.defences.split(","), given.recipes.split(",")
    sizes = given.dimension, given.rounds, given.seeds
    for line in rows(*sizes, names, only=only, own=given.own, lost=given.lost):
        print(line, flush=True)


if __name__ == "__main__":
    main()
