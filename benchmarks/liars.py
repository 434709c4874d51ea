"""What liars with valid tokens do to a fleet, and what each defence leaves of that.

``python -m benchmarks.liars`` plays FSCLB, FSCLB.lean and FedLinUCB with 50 agents, of which none,
one or five lie. A liar uploads as often and for as many observations as an honest agent, and every
upload passes the coordinator's door: arms along theta, as it was last told, and rewards of -R. It
lies for the first three quarters of the run, so that the last one shows what is left. It knows the
true theta, and the defence: it sends the worst lie that is let in. With ``--lost`` liars of lean
say that they have lost all arms, evenly, with the longest moment that the door lets in.

``--how`` has other liars: ``much`` send a hundred times as many observations; ``fake`` play arms of
every direction and reward them by -theta; ``slow`` pay 0.3 less than the truth; ``early`` stop
after a tenth of the run; ``inside`` pay as much less as lets no group stand out. ``--heavy
0.9``: one honest agent plays that share of the rounds. ``--noise``: of rewards, 0.1 by default.

The *lead* is the reward of the fleet of honest agents above that of Random in the same rounds;
a loss of 0 % is as good as without liars, 100 % is no better than Random. The regret is that of
honest agents, a run.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

import fedbandit as fb
from benchmarks.defences import DEFENCES, Defence, Weighed, passed, recipes
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.errors import InvalidMessage
from fedbandit.service.models.model import Served, new_model
from fedbandit.worlds import Synthetic

ARMS = 20
LIMITS = wire.Limits(arm_norm=1.0, reward=1.5, count=10_000)
DEVIATIONS = 4  # of noise that a reward is off at most, where noise is large
HOW = ("along", "much", "fake", "slow", "early", "inside")


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


def fake(recipe: fb.Recipe, theta: Array, count: int, seed: int) -> fb.Upload:
    """Return ``count`` observations of arms of every direction, rewarded by -theta."""
    agent, last = recipe.agent(0), None
    for x in np.random.default_rng(seed).standard_normal((count, len(theta))):
        arm = x / np.linalg.norm(x)
        last = agent.observe(arm, -float(arm @ theta)) or last
    rest = agent.receive(fb.Collect())
    upload = rest if isinstance(rest, fb.Upload) and rest.count else last
    assert upload is not None
    return fb.Upload(0, upload.statistics)


def largest_lie(guard: Defence, agent: int, theta: Array, count: int) -> fb.Upload:
    """Return the worst lie that a defence lets in, which the liar knows as well as we do."""
    length = float(np.linalg.norm(theta))
    low, high = length, -1.0
    if guard.takes(agent, lie(guard.recipe, theta, count, high)):
        return lie(guard.recipe, theta, count, high)
    for _ in range(12):
        middle = (low + high) / 2.0
        if guard.takes(agent, lie(guard.recipe, theta, count, middle)):
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
            passed(served, tried)
        except InvalidMessage:
            high = middle
        else:
            low, best = middle, tried
    return best


@dataclass
class Outcome:
    """Rewards of honest agents and of Random, by round; their regret; uploads held back."""

    reward: Array
    random: Array
    regret: float = 0.0
    honest: int = 0
    lies: int = 0
    held_back: int = 0
    honest_held_back: int = 0


@dataclass(frozen=True)
class Setting:
    """What is played: see ``main``."""

    dimension: int
    rounds: int
    agents: int
    own: bool
    lost: bool
    how: str
    heavy: float
    noise: float


def play(
    recipe: fb.Recipe,
    setting: Setting,
    *,
    liars: int,
    defence: Callable[[fb.Recipe], Defence],
    seed: int,
) -> Outcome:
    """Play one run."""
    spectrum, subspaces = ("low-rank", "own") if setting.own else ("isotropic", "shared")
    world = Synthetic(
        dimension=setting.dimension,
        arms=ARMS,
        agents=setting.agents,
        seed=seed,
        noise=setting.noise,
        spectrum=spectrum,
        subspaces=subspaces,
    )
    agents, guard, rounds = recipe.fleet(), defence(recipe), setting.rounds
    limits = replace(LIMITS, reward=max(LIMITS.reward, 1.0 + DEVIATIONS * setting.noise))
    served = Served(new_model("m", recipe, limits=limits)[0], recipe)
    counts: list[int] = []
    first = setting.agents - liars if setting.heavy else 0
    crowd = {first + i: Liar(due=1) for i in range(liars)}
    until = rounds // 10 if setting.how == "early" else rounds * 3 // 4
    chance = np.random.default_rng(seed)
    result = Outcome(np.zeros(rounds), np.zeros(rounds))
    for t, this in enumerate(world.rounds(rounds)):
        i = 0 if setting.heavy and chance.random() < setting.heavy else this.agent
        agent = agents[i]
        result.random[t] = float(np.mean(this.means))
        lying = i in crowd and rounds // 100 <= t < until
        arm = agent.choose(this.arms)
        result.reward[t] = result.random[t] if i in crowd else this.means[arm]
        if i not in crowd:
            result.regret += float(np.max(this.means) - this.means[arm])
            result.honest += 1
        if lying:
            crowd[i].due = max(1, int(np.mean(counts[-50:]))) if counts else 1
            count = crowd[i].round()
            if count:
                upload = passed(served, _told(served, guard, setting, i, world.theta, count))
                result.lies += 1
                result.held_back += not guard.merge(i, upload)
            continue
        sent = agent.observe(arm, this.rewards[arm])
        if sent is not None:
            counts.append(sent.count)
            upload = passed(served, fb.Upload(0, sent.statistics))
            # what is held back is lost here; a coordinator's agents wait
            result.honest_held_back += not guard.merge(i, upload)
            agent.receive(guard.download(i))
    return result


def _told(
    served: Served, guard: Defence, setting: Setting, agent: int, theta: Array, count: int
) -> fb.Upload:
    """Return what a liar sends."""
    recipe = guard.recipe
    if setting.lost and isinstance(recipe.parts.memory, LossyMemory):
        return lost_lie(served, theta, count)
    match setting.how:
        case "much":
            return lie(recipe, theta, min(100 * count, LIMITS.count))
        case "fake":
            return fake(recipe, theta, count, guard.server.version)
        case "slow":
            return lie(recipe, theta, count, float(np.linalg.norm(theta)) - 0.3)
        case _:
            return largest_lie(guard, agent, theta, count)


def rows(
    setting: Setting, *, seeds: int, defences: list[str], liars: list[int], only: list[str]
) -> Iterator[str]:
    """Yield a line for each recipe, number of liars and defence."""
    for name, recipe in recipes(setting.dimension, setting.agents).items():
        if name not in only:
            continue
        base: Array | None = None
        for how in defences:
            defence = DEFENCES[how]
            if setting.how == "inside" and how.startswith("weighed"):
                defence = _feared
            for number in liars:
                runs = [
                    play(recipe, setting, liars=number, defence=defence, seed=seed)
                    for seed in range(seeds)
                ]
                lead = np.mean([each.reward - each.random for each in runs], axis=0)
                honest = np.mean([each.honest for each in runs]) / setting.rounds
                quarters = lead.reshape(4, -1).mean(axis=1) / honest
                base = quarters if base is None else base
                yield f"{name:10} {how:12} {number} liars: {_line(quarters, base, runs)}"


def _feared(recipe: fb.Recipe) -> Defence:
    return Weighed(recipe, 24, feared=True)


def _line(quarters: Array, base: Array, runs: list[Outcome]) -> str:
    """Return what was lost, in words."""
    by_quarter = 100.0 * (1.0 - quarters / base)
    all_lost = 100.0 * (1.0 - quarters.sum() / base.sum())
    shown = " ".join(f"{each:6.1f}" for each in by_quarter)
    regret = np.mean([each.regret for each in runs])
    held, sent = sum(each.held_back for each in runs), sum(each.lies for each in runs)
    wrong = sum(each.honest_held_back for each in runs)
    return (
        f"lead lost {all_lost:6.1f} % (by quarter {shown}); regret {regret:8.1f}; "
        f"lies {sent}, held back {held}, honest {wrong}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--liars", default="0,1,5")
    parser.add_argument("--defences", default=",".join(DEFENCES))
    parser.add_argument("--own", action="store_true", help="agents with arms of their own")
    parser.add_argument("--lost", action="store_true", help="liars of lean that lost all arms")
    parser.add_argument("--how", choices=HOW, default="along", help="how liars lie")
    parser.add_argument("--heavy", type=float, default=0.0, help="share of rounds of one agent")
    parser.add_argument("--noise", type=float, default=0.1, help="of rewards")
    parser.add_argument("--recipes", default=",".join(recipes(2, 2)))
    given = parser.parse_args()
    shape = given.dimension, given.rounds, given.agents
    setting = Setting(*shape, given.own, given.lost, given.how, given.heavy, given.noise)
    liars = [int(each) for each in given.liars.split(",")]
    defences, only = given.defences.split(","), given.recipes.split(",")
    for line in rows(setting, seeds=given.seeds, defences=defences, liars=liars, only=only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
