"""Against public packages, on identical draws: ``python -m benchmarks.peers [--rounds N]``.

d = 100, K = 10 unit arms given as feature vectors, one learner, noise 0.1, one thread, one reward
learnt at a time. Every package is used through its public interface in the fastest form that still
fits one linear model over the features of whichever arms are shown. All contenders keep their own
state and play the same blocks in turn. Needs the ``peers`` extra; what is not installed is said so.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from math import sqrt
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import fedbandit as fb
from benchmarks.contenders import RADIUS
from benchmarks.play import ARMS, tape
from fedbandit.core.kernels import compiler
from fedbandit.lab.runs.machine import environment

DIMENSION, SKETCH, BLOCK, WARM_UP = 100, 40, 250, 20

Array = NDArray[np.float64]


class Learner(Protocol):
    """What every contender can do. The index spares a second look at arms it has converted."""

    def choose(self, arms: Array) -> int:
        """Return the arm to play, of the K x d shown."""
        ...

    def learn(self, arm: int, reward: float) -> None:
        """Take in what an arm of those shown last has paid."""
        ...


class Ours:
    """A fedbandit agent, its server, and the messages between them."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self._agent, self._server = recipe.agent(0), recipe.server()
        self.choose = self._agent.choose

    def learn(self, arm: int, reward: float) -> None:
        """Observe; sync at once where the agent asks for it."""
        upload = self._agent.observe(arm, reward)
        if upload is not None:
            for answer in self._server.receive(upload):
                self._agent.receive(answer.message)


class ContextualBanditsRegression:
    """Its linear regression, in C floats with Sherman-Morrison, which scores rows by LinUCB."""

    def __init__(self) -> None:
        linreg = import_module("contextualbandits.linreg")
        self._model = linreg.LinearRegression(lambda_=1.0, fit_intercept=False, method="sm")

    def choose(self, arms: Array) -> int:
        """Score the arms as rows; convert them to floats once for both calls."""
        self._shown = arms.astype(np.float32)
        return int(self._model.predict_ucb(self._shown, RADIUS).argmax())

    def learn(self, arm: int, reward: float) -> None:
        """Update the inverse by one row."""
        self._model.partial_fit(self._shown[arm : arm + 1], np.array([reward], dtype=np.float32))


class ContextualBanditsPolicy:
    """Its LinUCB policy, which has a model for each choice: the first learns, arms are contexts."""

    def __init__(self) -> None:
        online = import_module("contextualbandits.online")
        self._policy = online.LinUCB(
            nchoices=2, alpha=RADIUS, lambda_=1.0, fit_intercept=False, beta_prior=None, njobs=1
        )
        self._choice, self._fitted = np.zeros(1, dtype=np.int64), False

    def choose(self, arms: Array) -> int:
        """Score every arm by the first choice's model; it cannot score before it has data."""
        self._shown = arms.astype(np.float32)
        if not self._fitted:
            return 0
        return int(self._policy.decision_function(self._shown)[:, 0].argmax())

    def learn(self, arm: int, reward: float) -> None:
        """Update the first choice's model."""
        self._policy.partial_fit(self._shown[arm : arm + 1], self._choice, np.array([reward]))
        self._fitted = True


class MABWiser:
    """Its LinUCB with a single arm, whose contexts are the features of the arms shown."""

    def __init__(self) -> None:
        mab = import_module("mabwiser.mab")
        policy = mab.LearningPolicy.LinUCB(alpha=RADIUS, l2_lambda=1.0)
        self._mab = mab.MAB(arms=[0], learning_policy=policy, n_jobs=1)
        self._decision, self._fitted = np.zeros(1, dtype=np.int64), False

    def choose(self, arms: Array) -> int:
        """Compare the single arm's bounds in K contexts; it cannot score before it has data."""
        self._shown = arms
        if not self._fitted:
            return 0
        return int(np.argmax([bound[0] for bound in self._mab.predict_expectations(arms)]))

    def learn(self, arm: int, reward: float) -> None:
        """Fit one row: it inverts the matrix anew."""
        self._mab.partial_fit(self._decision, np.array([reward]), self._shown[arm : arm + 1])
        self._fitted = True


class River:
    """Its Bayesian linear regression, on which its LinUCBDisjoint rests, shared by all arms."""

    def __init__(self) -> None:
        linear = import_module("river.linear_model")
        self._model = linear.BayesianLinearRegression(alpha=1.0, beta=1.0)

    def choose(self, arms: Array) -> int:
        """Score dictionaries one by one; a prediction's variance is 1 / beta + width squared."""
        self._shown = [dict(enumerate(row)) for row in arms.tolist()]
        scores = [self._score(features) for features in self._shown]
        return scores.index(max(scores))

    def _score(self, features: dict[int, float]) -> float:
        seen = self._model.predict_one(features, with_dist=True)
        return float(seen.mu) + RADIUS * sqrt(max(seen.sigma**2 - 1.0, 0.0))

    def learn(self, arm: int, reward: float) -> None:
        """Update the inverse by one dictionary."""
        self._model.learn_one(self._shown[arm], reward)


class VowpalWabbit:
    """Its contextual bandit with action features: greedy, by a rule that needs no learning rate.

    Examples are made from numbers with their indices as hashes, so that no text is parsed, and are
    made once for predicting and learning. It has no confidence bounds.
    """

    def __init__(self) -> None:
        self._vw = import_module("vowpalwabbit.pyvw")
        self._label = self._vw.LabelType.CONTEXTUAL_BANDIT
        flags = "--cb_explore_adf --epsilon 0 --coin --noconstant --quiet"
        self._workspace = self._vw.Workspace(flags)

    def choose(self, arms: Array) -> int:
        """Return the likeliest action; greedy, it has all the probability."""
        self._shown = [self._example(row) for row in arms.tolist()]
        chances = self._workspace.predict(self._shown)
        return int(chances.index(max(chances)))

    def _example(self, row: list[float]) -> Any:
        example = self._vw.Example(self._workspace, None, self._label)
        example.push_feature_dict(self._workspace, {"a": list(enumerate(row))})
        example.setup_example()
        return example

    def learn(self, arm: int, reward: float) -> None:
        """Label the arm played with its cost, learn, and give the examples back."""
        self._shown[arm].set_label_string(f"0:{-reward}:1")
        self._workspace.learn(self._shown)
        self._workspace.finish_example(self._shown)


class Coba:
    """Its LinUCB on the actions' own features, without context."""

    def __init__(self) -> None:
        learners = import_module("coba.learners")
        self._learner = learners.LinUCBLearner(alpha=RADIUS, features=["a"])

    def choose(self, arms: Array) -> int:
        """Hand the arms over as lists, the only dense form that it takes."""
        self._shown = arms.tolist()
        action, _ = self._learner.predict(None, self._shown)
        return int(self._shown.index(action))

    def learn(self, arm: int, reward: float) -> None:
        """Update the inverse by one action."""
        self._learner.learn(None, self._shown[arm], reward, 1.0)


class BayesianBandits:
    """Its normal regression shared by all arms, by Thompson sampling: its bounds cost more draws.

    Precisions of 100 are the noise's and make a ridge of 1.
    """

    def __init__(self) -> None:
        import_module("sklearn").set_config(assume_finite=True)
        estimators = import_module("bayesianbandits")
        self._model = estimators.NormalRegressor(alpha=100.0, beta=100.0, random_state=0)

    def choose(self, arms: Array) -> int:
        """Draw one parameter and play its best arm."""
        self._shown = arms
        return int(self._model.sample(arms)[0].argmax())

    def learn(self, arm: int, reward: float) -> None:
        """Update the posterior by one row: it factorises the matrix anew."""
        self._model.partial_fit(self._shown[arm : arm + 1], np.array([reward]))


def fsclb() -> Learner:
    return Ours(
        fb.FSCLB(
            dimension=DIMENSION, sketch_size=SKETCH, agents=1, radius=RADIUS, cadence="buffered"
        )
    )


def linucb() -> Learner:
    return Ours(fb.LinUCB(dimension=DIMENSION, radius=RADIUS))


@dataclass(frozen=True)
class Entry:
    """A package, how it is used, how its learner is made, and what this use cannot say."""

    package: str
    use: str
    build: Callable[[], Learner]
    limits: str = ""

    @property
    def version(self) -> str:
        """The version installed, or a dash."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "-"


FSCLB = Entry("fedbandit", "FSCLB, buffered, l = 40, server and syncs included", fsclb)
LINUCB = Entry("fedbandit", "LinUCB", linucb)
PEERS = (
    Entry(
        "contextualbandits",
        "`linreg.LinearRegression.predict_ucb`",
        ContextualBanditsRegression,
        "LinUCB in float32. A building block: the argmax over arms is the benchmark's.",
    ),
    Entry(
        "contextualbandits",
        "`online.LinUCB`",
        ContextualBanditsPolicy,
        "LinUCB in float32. A model for each choice on one shared context, at least two choices: "
        "the first is trained on arms as contexts, the second is scored in vain.",
    ),
    Entry(
        "mabwiser",
        "`LinUCB`, one arm",
        MABWiser,
        "LinUCB. A model for each arm on one shared context: the arms shown are the contexts of a "
        "single arm, the argmax is the benchmark's. Copies its model and inverts at every reward.",
    ),
    Entry(
        "river",
        "`BayesianLinearRegression`",
        River,
        "LinUCB from mean and variance. `LinUCBDisjoint` has a model for each arm and no features "
        "of arms, so its regression is shared. Dictionaries, one at a time.",
    ),
    Entry(
        "vowpalwabbit",
        "`--cb_explore_adf --epsilon 0 --coin`",
        VowpalWabbit,
        "No confidence bounds, no ridge: gradient steps, greedy, as exploring cost it regret here. "
        "Takes no arrays: most of the time goes into making examples of Python numbers.",
    ),
    Entry(
        "coba",
        "`LinUCBLearner(features=['a'])`",
        Coba,
        "LinUCB. Takes lists, no arrays, and encodes every action in Python.",
    ),
    Entry(
        "bayesianbandits",
        "`NormalRegressor.sample`",
        BayesianBandits,
        "Thompson sampling with one draw, the argmax is the benchmark's: its upper bounds are "
        "quantiles of many draws and slower, and so is its agent around the same estimator. "
        "Factorises at every reward.",
    ),
)


@dataclass
class Contender:
    """A learner in play on one tape: its choices, its regret, the seconds a round of each block."""

    learner: Learner
    picks: list[int] = field(default_factory=list)
    blocks: list[float] = field(default_factory=list)
    seconds: float = 0.0
    regret: float = 0.0

    def play(self, rounds: Sequence[fb.Round]) -> None:
        """Play a block; choosing, learning and syncing are on the clock.

        In the very first round all unit arms tie and rounding would decide, which sends equal
        algorithms different ways; everyone is made to play arm 0.
        """
        choose, learn, picks = self.learner.choose, self.learner.learn, self.picks
        start = perf_counter()
        for this in rounds:
            arm = choose(this.arms)
            if not picks:
                arm = 0
            learn(arm, float(this.rewards[arm]))
            picks.append(arm)
        spent = perf_counter() - start
        self.seconds += spent
        self.blocks.append(spent / len(rounds))
        for this, arm in zip(rounds, picks[-len(rounds) :], strict=True):
            self.regret += float(this.means.max() - this.means[arm])


@dataclass(frozen=True)
class Score:
    """What an entry came to, medians over tapes; ``block_rate`` over the blocks of all tapes."""

    rate: float
    block_rate: float
    regret: float
    agreement: float

    @classmethod
    def of(cls, games: Sequence[Contender], guides: Sequence[Contender]) -> "Score":
        """Sum up an entry's tapes; ``guides`` are LinUCB's games on the same tapes."""
        return cls(
            rate=median(len(game.picks) / game.seconds for game in games),
            block_rate=1.0 / median(spent for game in games for spent in game.blocks),
            regret=median(game.regret for game in games),
            agreement=median(
                float(np.mean(np.equal(game.picks, guide.picks)))
                for game, guide in zip(games, guides, strict=True)
            ),
        )


def cut(rounds: int, seed: int) -> Iterator[list[fb.Round]]:
    stream = islice(tape(DIMENSION, agents=1, seed=seed), rounds)
    while block := list(islice(stream, BLOCK)):
        yield block


def alternate(contenders: Sequence[Contender], blocks: Iterable[Sequence[fb.Round]]) -> None:
    """Let all play the same blocks in turn, starting with another one each time."""
    for turn, block in enumerate(blocks):
        for shift in range(len(contenders)):
            contenders[(turn + shift) % len(contenders)].play(block)


def absences(entries: Sequence[Entry]) -> dict[Entry, str]:
    """Start everyone once on rounds that do not count; return why those that cannot, cannot."""
    away = {}
    warm_up = list(islice(tape(DIMENSION, agents=1, seed=99), WARM_UP))
    for entry in entries:
        try:
            Contender(entry.build()).play(warm_up)
        except ImportError as error:
            away[entry] = f"not installed ({error})"
    return away


def measure(entries: Sequence[Entry], *, rounds: int, tapes: int) -> dict[Entry, Score]:
    """Play every tape from the start with fresh learners."""
    games: dict[Entry, list[Contender]] = {entry: [] for entry in entries}
    for seed in range(tapes):
        print(f"tape {seed + 1} of {tapes}", file=sys.stderr)
        players = [Contender(entry.build()) for entry in entries]
        alternate(players, cut(rounds, seed))
        for entry, player in zip(entries, players, strict=True):
            games[entry].append(player)
    return {entry: Score.of(played, games[LINUCB]) for entry, played in games.items()}


HEAD = ("package", "version", "how it is used", "rounds/s", "median block", "regret", "as LinUCB")


def row(entry: Entry, scores: dict[Entry, Score], away: dict[Entry, str]) -> tuple[str, ...]:
    if entry in away:
        return (entry.package, "-", away[entry], *("-",) * (len(HEAD) - 1))
    score = scores[entry]
    return (
        entry.package,
        entry.version,
        entry.use,
        f"{score.rate:,.0f}",
        f"{score.block_rate:,.0f}",
        f"{score.regret:.1f}",
        f"{score.agreement:.1%}",
        *(f"{scores[mine].rate / score.rate:.2f}" for mine in (FSCLB, LINUCB)),
    )


def report(scores: dict[Entry, Score], away: dict[Entry, str], *, rounds: int, tapes: int) -> str:
    entries = (FSCLB, LINUCB, *PEERS)
    head = (*HEAD, "FSCLB / it", "LinUCB / it")
    table = [head, ("---",) * len(head), *(row(entry, scores, away) for entry in entries)]
    setting = (
        f"d = {DIMENSION}, K = {ARMS} unit arms, noise 0.1, one learner, radius {RADIUS}, ridge 1, "
        f"one thread. Tapes: {tapes}, of {rounds:,} rounds, played in turn by blocks of {BLOCK}. "
        "Rounds/s is of whole tapes, median over tapes, and so is the regret; the ratios are of "
        "rounds/s. The column as LinUCB gives the share of rounds in which the choice was that of "
        "fedbandit's LinUCB."
    )
    machine = [f"- {name}: {value}" for name, value in environment().items()]
    cells = [f"| {' | '.join(line)} |" for line in table]
    limits = [f"- {entry.package}, {entry.use}: {entry.limits}" for entry in PEERS]
    return "\n".join(["# Peers", "", *machine, "", setting, "", *cells, "", *limits, ""])


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}, expected a whole number from 1 on")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=5000, help="of a tape (default 5000)")
    parser.add_argument("--tapes", type=positive, default=3, help="how many (default 3)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/peers.md"))
    asked = parser.parse_args()
    compiler.load()
    entries = (FSCLB, LINUCB, *PEERS)
    away = absences(entries)
    threadpool_limits(limits=1)  # now that every library is loaded
    present = [entry for entry in entries if entry not in away]
    scores = measure(present, rounds=asked.rounds, tapes=asked.tapes)
    text = report(scores, away, rounds=asked.rounds, tapes=asked.tapes)
    asked.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
