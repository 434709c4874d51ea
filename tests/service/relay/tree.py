"""A tree of coordinators in this process, without a network: every link can lose, repeat and delay.

Coordinators are the real ones but for HTTP: a store in memory, the code that merges and commits,
the sender of a relay and the delivery that agents have too. Beside it everything that was ever
observed is kept, as the dense truth.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.state.learner import Learner
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.errors import Refused, Unreachable
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import ModelRef, SyncRequest
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.refusal import Refusal
from fedbandit.service.relay.relayed import Relayed, read_relayed
from fedbandit.service.relay.sender import RelaySender
from fedbandit.service.relay.upstream import begin
from fedbandit.service.settings import Settings
from tests.testing.memory_store import MemoryStore, Place

Array = NDArray[np.float64]
MODEL = "news"
LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=10**6)
FAULTS = ("none", "request lost", "answer lost", "repeated", "kept")


class Killed(BaseException):
    """The process ends here."""


class Node:
    """One coordinator of the tree; ``crash`` leaves of it what its store holds."""

    def __init__(
        self,
        recipe: fb.Recipe,
        *,
        upstream: "Node | None" = None,
        name: str = "root",
        relays: int = 0,
        limits: wire.Limits = LIMITS,
    ) -> None:
        self.recipe, self.upstream, self.name, self._place = recipe, upstream, name, Place()
        MemoryStore(self._place).create(*new_model(MODEL, recipe, limits=limits, relays=relays))
        self.link = None if upstream is None else Link(upstream, name)
        self.now = 0.0
        if upstream is not None:
            with MemoryStore(self._place).lock(MODEL) as locked:
                begin(locked)
        self.crash()

    def crash(self) -> None:
        """Lose everything that is not in the store, and start again."""
        self.store = MemoryStore(self._place)
        self.merger = StoreMerger(self.store)
        if self.link is not None:
            wait, clock = 100.0, lambda: self.now
            self.sender = RelaySender(self.store, MODEL, self.recipe, wait=wait, clock=clock)
            self.delivery = Delivery(self.sender, self.link)

    def answer(self, agent: str, path: str, body: bytes | None) -> bytes:
        """Answer a request as the real coordinator does."""
        model = self.store.model(MODEL)
        if body is None:
            asked = parse_qs(urlsplit(path).query)
            have, since = asked.get("have", [None])[0], asked.get("since", [None])[0]
            served, told = Served(model, self.recipe), Coordinator(self.store, Settings())
            join = told.joined(served, agent, have, since=None if since is None else int(since))
            try:
                return asyncio.run(join).body
            finally:
                told._reads.shutdown()
        ref = ModelRef(MODEL, model.incarnation)
        outcome = self.merger.merge(ref, [SyncRequest(agent, body)])[0]
        if isinstance(outcome, Refusal):
            raise Refused(str(outcome), status=outcome.status, field=outcome.field)
        if outcome.due:
            self.sender.wake()
        return outcome.body

    def pass_on(self, *, killed_at: Callable[[int], bool] = lambda _: False) -> None:
        """Let the relay send what is due; ``killed_at`` the n-th request the process ends."""
        assert self.link is not None
        self.delivery.do_housekeeping()
        self.link.killed_at = killed_at
        try:
            while self.sender.due():
                self.delivery.deliver()
        except Unreachable:
            pass
        except Killed:
            self.crash()
        finally:
            self.link.killed_at = lambda _: False

    def let_wait(self) -> None:
        """Let time pass until what waits is passed on anyway."""
        self.now += 1000.0

    @property
    def server(self) -> fb.Server:
        """What it knows."""
        return server_at(self.recipe, self.store.state(MODEL)[1])

    @property
    def relayed(self) -> Relayed:
        """What it keeps beside that, as a relay."""
        with self.store.lock(MODEL) as locked:
            stored = locked.relaying()
        assert stored is not None
        return read_relayed(self.recipe, stored)


class Link:
    """A connection to a node on behalf of one agent; ``fault`` is what happens to the next sync.

    What is "kept" on the way arrives at ``arrive_late``, long after it was sent again.
    """

    def __init__(self, node: Node, agent: str) -> None:
        self._node, self.agent = node, agent
        self.fault, self._kept = "none", list[bytes]()
        self.requests = 0
        self.bytes_up = self.bytes_down = 0
        self.killed_at: Callable[[int], bool] = lambda _: False

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        """Carry a request and its answer, or not."""
        self.requests += 1
        if self.killed_at(self.requests):
            raise Killed
        fault, self.fault = self.fault, "none"
        if fault == "request lost":
            raise Unreachable("lost")
        if fault == "kept" and body is not None:
            self._kept.append(body)
            raise Unreachable("lost, or so it seems")
        if fault == "repeated":
            self._node.answer(self.agent, path, body)
        answer = self._node.answer(self.agent, path, body)
        if fault == "answer lost":
            raise Unreachable("lost")
        self.bytes_up += len(body or b"")
        self.bytes_down += len(answer)
        return answer

    def arrive_late(self) -> None:
        """Let everything that was kept on the way arrive, and lose the answers."""
        while self._kept:
            self._node.answer(self.agent, "sync", self._kept.pop())

    def close(self) -> None:
        """Do nothing."""


class Leaf:
    """An agent under some coordinator, and all that it has observed."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.link = node, Link(node, name)
        life = name.encode().ljust(16, b".")
        self.learner = Learner.fresh(node.recipe, life)
        self.arms: list[Array] = []
        self.rewards: list[float] = []

    def observe(self, arm: Array, reward: float) -> None:
        """Learn from an observation."""
        self.arms.append(arm)
        self.rewards.append(reward)
        self.learner.observe(arm, reward)

    def deliver(self) -> None:
        """Send what is in flight, or what waits; stop at the first fault."""
        while not self.learner.outbox.empty:
            box = self.learner.outbox
            if box.in_flight is None:
                box = self.learner.outbox = box.next_in_flight(self.learner.packed)
            assert box.in_flight is not None
            sync = wire.Sync(self.learner.fingerprint, box.life, box.sequence, box.in_flight)
            try:
                answer = self.link.exchange("sync", wire.encode_sync(sync))
            except Unreachable:
                return
            self.learner.acknowledge(wire.decode_synced(answer))

    @property
    def undelivered(self) -> int:
        """How many observations the coordinator may not have."""
        return self.learner.pending + self.learner.outbox.observations


class Tree:
    """A root, relays below it in ``levels`` (how many below each), and agents at the lowest."""

    def __init__(
        self, recipe: fb.Recipe, levels: list[int], agents: int, limits: wire.Limits = LIMITS
    ) -> None:
        self.recipe = recipe
        depth = len(levels)
        self.root = Node(recipe, relays=depth, limits=limits)
        self.relays: list[Node] = []
        lowest = [self.root]
        for level, below in enumerate(levels, start=1):
            named = [(node, f"{node.name}-{k}") for node in lowest for k in range(below)]
            lowest = [
                Node(recipe, upstream=node, name=name, relays=depth - level, limits=limits)
                for node, name in named
            ]
            self.relays += lowest
        self.leaves = [Leaf(node, f"a{k}") for node in lowest for k in range(agents)]

    def settle(self) -> None:
        """Deliver everything, from the leaves up, without faults."""
        for leaf in self.leaves:
            leaf.link.fault = "none"
            leaf.learner.flush()
            leaf.deliver()
            assert not leaf.undelivered
        for relay in reversed(self.relays):
            assert relay.link is not None
            relay.link.fault = "none"
            relay.let_wait()
            relay.pass_on()
            assert relay.relayed.outbox.empty

    def observed(self, node: Node | None = None) -> tuple[Array, Array]:
        """Return all arms and rewards, or those of the agents below one coordinator."""
        leaves = [leaf for leaf in self.leaves if node is None or _is_below(leaf.node, node)]
        arms = [arm for leaf in leaves for arm in leaf.arms]
        rewards = [reward for leaf in leaves for reward in leaf.rewards]
        return np.array(arms).reshape(-1, self.recipe.dimension), np.array(rewards)

    def undelivered(self) -> int:
        """Return how many observations are in no parent's store, by what the stores say."""
        waiting = sum(leaf.undelivered for leaf in self.leaves)
        for leaf in self.leaves:
            waiting -= _already_merged(leaf.node, leaf.link.agent, leaf.learner.outbox)
        for relay in self.relays:
            assert relay.upstream is not None
            outbox = relay.relayed.outbox
            waiting += outbox.observations - _already_merged(relay.upstream, relay.name, outbox)
        return waiting


def _is_below(node: Node | None, other: Node) -> bool:
    while node is not None and node is not other:
        node = node.upstream
    return node is other


def _already_merged(node: Node, agent: str, outbox: object) -> int:
    """Return how many of the observations in flight the receiver has merged."""
    flying, life = outbox.in_flight, outbox.life  # type: ignore[attr-defined]
    known = node.store.merged_uploads(MODEL, agent).lives.get(life)
    if flying is None or known is None or known.sequence < outbox.sequence:  # type: ignore[attr-defined]
        return 0
    return int(flying.count)


def upper(recipe: fb.Recipe, summary: object) -> Array:
    """Return the matrix that X^T X must not exceed."""
    match summary:
        case fb.Sketch():
            return np.asarray(
                summary.rows.T @ summary.rows + summary.shed * np.eye(recipe.dimension)
            )
        case fb.Gram():
            return np.asarray(summary.matrix)
        case LossyGram():
            return np.asarray(summary.weight * summary.matrix + np.diag(summary.bound))
        case LossyRows():
            rows = summary.rows
            return np.asarray(summary.weight * rows.T @ rows + np.diag(summary.bound))
    raise TypeError(type(summary).__name__)


def assert_sandwich(recipe: fb.Recipe, server: fb.Server, arms: Array, *, whole: bool) -> None:
    """Assert, with dense matrices, that a summary is not below the arms; ``whole``: nor above.

    ``whole``: these are all arms that are in it.
    """
    truth, summary = arms.T @ arms, server.summary
    scale = 1e-9 * (1.0 + float(np.trace(truth)))
    assert np.linalg.eigvalsh(upper(recipe, summary) - truth)[0] >= -scale
    if whole and isinstance(summary, fb.Sketch):
        rounded = recipe.params["wire"] != "float64"
        above = summary.shed if rounded else 0.0  # rounding may lengthen rows, by what it sheds
        assert np.linalg.eigvalsh(truth - summary.rows.T @ summary.rows)[0] >= -scale - above
    if whole and isinstance(summary, fb.Gram) and not summary.shed:
        np.testing.assert_allclose(summary.matrix, truth, atol=scale)
