"""Trees of coordinators against the flat fleet, on the same tape, in one process.

``python -m benchmarks.relays`` prints the tables of docs/scale.md. Nothing is stored and nothing is
sent over a network; what a relay knows, when it passes on and what it sends is the code that
``fedbandit serve --upstream`` runs (``service.relay.relayed``), and every message goes through
bytes, which are counted. Agents are made when they first play, and then join as devices do.
"""

import argparse
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.agent import Agent
from fedbandit.core.messages import Download, Upload
from fedbandit.core.server import Server
from fedbandit.service.relay.relayed import Relayed
from fedbandit.worlds import Synthetic


@dataclass
class Node:
    """A coordinator: the root, or a relay below another node."""

    recipe: fb.Recipe
    above: "Node | None" = None
    server: Server = field(init=False)
    relayed: Relayed | None = None
    messages: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.server = self.recipe.server()
        if self.above is not None:
            self.relayed = Relayed.fresh(self.recipe, bytes(16))

    def download(self) -> Download:
        """Return what it tells, through bytes."""
        body = wire.encode(self.server.download())
        self.bytes += len(body)
        message = wire.decode(body)
        assert isinstance(message, Download)
        return message

    def receive(self, upload: Upload) -> Download:
        """Merge an upload, pass on what is due, and answer."""
        self.messages += 1
        self.bytes += len(wire.encode(upload))
        reference = self.server.base.reference
        self.server.adopt(self.server.merged([upload]), version=self.server.version + 1)
        if self.relayed is not None:
            self.relayed = self.relayed.absorbed(self.recipe, [("", upload)], reference)
            if self.relayed.is_due(self.recipe, self.server.base):
                self.pass_on()
        return self.download()

    def pass_on(self) -> None:
        """Send what waits to the node above and learn from the answer; ask if nothing waits."""
        if self.relayed is None or self.above is None:
            return
        if not self.relayed.outbox.waiting:
            self.above.messages += 1
            if self.above.server.version != self.relayed.version:
                self._learn(self.relayed.received(self.recipe, self.above.download(), ""))
            return
        flying = self.relayed.launched(self.recipe)
        assert flying.outbox.in_flight is not None
        sent = wire.decode(wire.encode(flying.outbox.in_flight))
        assert isinstance(sent, Upload)
        answer = self.above.receive(sent)
        self._learn(flying.acknowledged(self.recipe, answer, ""))

    def _learn(self, relayed: Relayed) -> None:
        self.relayed = relayed
        version = self.server.version + 1
        self.server.adopt(self.relayed.everything(self.recipe), version=version)


@dataclass(frozen=True)
class Outcome:
    """What one run came to.

    ``root_messages``: uploads of the agents or relays below the root, and their questions for news.
    ``missing``: the share of observations that the root does not have.
    """

    regret: float
    root_messages: int
    root_bytes: int
    lower_messages: int
    missing: float
    seconds: float


def play(
    recipe: fb.Recipe, world: Synthetic, rounds: int, shape: list[int], wait: int | None = None
) -> Outcome:
    """Play a tape on a tree; ``shape``: how many nodes below each, from the root down.

    An agent is under the node that its number says. ``wait``: in how many rounds of the fleet every
    relay passes on what waits once, whether its trigger has fired or not, or asks for news. They
    take turns.
    """
    root = Node(recipe)
    levels = [[root]]
    for below in shape:
        levels.append([Node(recipe, above) for above in levels[-1] for _ in range(below)])
    lowest, agents = levels[-1], dict[int, Agent]()
    regret, began = 0.0, perf_counter()
    for t, this in enumerate(world.rounds(rounds), start=1):
        node = lowest[this.agent % len(lowest)]
        agent = agents.get(this.agent)
        if agent is None:
            agent = agents[this.agent] = recipe.agent(0)
            agent.receive(node.download())
        arm = agent.choose(this.arms)
        regret += float(np.max(this.means) - this.means[arm])
        upload = agent.observe(arm, float(this.rewards[arm]))
        if upload is not None:
            sent = wire.decode(wire.encode(upload))
            assert isinstance(sent, Upload)
            agent.receive(node.receive(sent))
        if wait is not None:
            for level in levels[1:]:
                for k in range(len(level) * (t - 1) // wait, len(level) * t // wait):
                    level[k % len(level)].pass_on()
    lower = sum(node.messages for level in levels[1:] for node in level)
    missing = 1.0 - root.server.count / rounds
    seconds = perf_counter() - began
    return Outcome(regret, root.messages, root.bytes, lower, missing, seconds)


def table(
    kind: str,
    shapes: list[tuple[str, list[int], int | None]],
    *,
    agents: int,
    dimension: int,
    rounds: int,
    seeds: int,
) -> None:
    """Print a row for each shape, averaged over seeds."""
    print(f"\n{agents:,} agents, d = {dimension}, {rounds:,} rounds, {seeds} seeds, {kind}\n")
    print("| tree | regret | messages at root | bytes at root | uploads below | not at root |")
    print("|---|---|---|---|---|---|")
    for name, shape, wait in shapes:
        runs = []
        for seed in range(seeds):
            world = Synthetic(agents=agents, dimension=dimension, arms=10, seed=seed)
            runs.append(play(recipe(kind, dimension, agents), world, rounds, shape, wait))
        mean = [np.mean([getattr(run, each) for run in runs]) for each in Outcome.__annotations__]
        regret, messages, size, lower, missing, _ = mean
        spread = np.std([run.regret for run in runs])
        print(
            f"| {name} | {regret:.1f} ± {spread:.1f} | {messages:.0f} | {size / 1e6:.2f} MB "
            f"| {lower:.0f} | {100 * missing:.0f} % |",
            flush=True,
        )


def recipe(kind: str, dimension: int, agents: int) -> fb.Recipe:
    """Return FSCLB.lean or FedLinUCB, with its own defaults."""
    if kind == "lean":
        return fb.FSCLB.lean(dimension=dimension, agents=agents)
    return fb.FedLinUCB(dimension=dimension, agents=agents)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--million", action="store_true", help="1,000 relays x 1,000 agents")
    parser.add_argument("--recipe", choices=["lean", "FedLinUCB"], default="lean")
    given = parser.parse_args()
    shared = {"dimension": given.dimension, "rounds": given.rounds, "seeds": given.seeds}
    if given.million:
        shapes: list[tuple[str, list[int], int | None]] = [
            ("flat", [], None),
            ("1,000 relays", [1000], None),
            ("1,000 relays, each at least every 2,500 rounds", [1000], 2500),
        ]
        table(given.recipe, shapes, agents=1_000_000, **shared)
        return
    side = round(given.agents**0.5)
    half = round(side**0.5)
    shapes = [
        ("flat", [], None),
        (f"{side} relays", [side], None),
        (f"{side} relays, each at least every 1,000 rounds", [side], 1000),
        (f"{half} x {half} relays, each at least every 1,000 rounds", [half, half], 1000),
    ]
    table(given.recipe, shapes, agents=given.agents, **shared)


if __name__ == "__main__":
    main()
