"""What honest relays send is never refused, at the very edge of a model's limits either."""

from collections.abc import Callable

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.errors import InvalidMessage, Refused
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.relay.relayed import Relayed
from fedbandit.service.validation.upload import check_sync
from tests.service.merging.at_the_limits import COORDINATES, drawn
from tests.service.relay.tree import Tree

Build = Callable[[int, float, float], fb.Recipe]
KINDS: dict[str, Build] = {
    "sketches": lambda d, ridge, alpha: fb.FSCLB(
        dimension=d, sketch_size=min(3, d + 1), agents=2, ridge=ridge, alpha=alpha
    ),
    "sketches in int8": lambda d, ridge, alpha: fb.FSCLB(
        dimension=d,
        sketch_size=min(4, d + 1),
        agents=2,
        ridge=ridge,
        alpha=alpha,
        wire="int8",
        estimate="corrected",
    ),
    "sizes of their own": lambda d, ridge, alpha: fb.FSCLB(
        dimension=d,
        sketch_size="auto",
        agents=2,
        ridge=ridge,
        alpha=alpha,
        wire="float16",
        cadence="buffered",
    ),
    "triangles in int8": lambda d, ridge, alpha: fb.FedLinUCB(
        dimension=d, agents=2, ridge=ridge, alpha=alpha, wire="int8"
    ),
    **{name: build for name, build in COORDINATES.items() if name != "lean, tight"},
}


def assert_nothing_is_refused(build: Build, levels: int, seed: int) -> None:
    """Let agents observe at the limits, and everybody deliver now and then."""
    rng = np.random.default_rng([seed, levels])
    d, length, reward = int(rng.integers(1, 12)), 10.0 ** rng.uniform(-2, 3), 0.3
    ridge = float(10.0 ** rng.uniform(-3, 3)) * length**2
    recipe = build(d, ridge, float(rng.choice([0.01, 0.5])))
    limits = wire.Limits(arm_norm=length, reward=reward, count=10**6)
    tree = Tree(recipe, [1] * (levels - 1) + [2], 2, limits)
    for _ in range(80):
        leaf = tree.leaves[int(rng.integers(len(tree.leaves)))]
        leaf.observe(drawn(rng, d, length), reward * float(rng.choice([-1.0, 1.0])))
        if rng.random() < 0.3:
            leaf.deliver()
        if rng.random() < 0.1:
            relay = tree.relays[int(rng.integers(len(tree.relays)))]
            relay.let_wait()
            relay.pass_on()
    tree.settle()
    assert tree.root.server.count == 80


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("name", KINDS)
def test_nothing_of_an_honest_relay_is_refused(name: str, levels: int) -> None:
    assert_nothing_is_refused(KINDS[name], levels, seed=levels)


def test_a_relay_that_the_model_above_has_no_room_for_keeps_everything() -> None:
    """Without room for relays, roundings of many uploads look like a lie; nothing is lost by it."""
    recipe = fb.FSCLB.lean(dimension=8, agents=2, alpha=0.01)
    tree, rng = Tree(recipe, [1], 8), np.random.default_rng(3)
    _set_relays(tree, 0)
    for leaf in tree.leaves:
        for _ in range(20):
            leaf.observe(drawn(rng, 8, 1.0), 1.0)
        leaf.learner.flush()
        leaf.deliver()
    (relay,) = tree.relays
    relay.let_wait()
    with pytest.raises(Refused, match="--relays 1"):
        relay.pass_on()
    assert relay.relayed.outbox.in_flight is not None
    _set_relays(tree, 1)
    tree.settle()
    assert tree.root.server.count == 160


def _set_relays(tree: Tree, levels: int) -> None:
    with tree.root.store.lock("news") as locked:
        model = locked.model
        locked.set_rules(
            limits=model.limits, quotas=model.quotas, history=model.history, relays=levels
        )


EDGE = wire.Limits(arm_norm=1.0, reward=1.0, count=1000)


def at_the_edge(rng: np.random.Generator, *, exact: bool) -> fb.Statistics:
    """Return an upload whose arms and rewards are a hair within what the door takes."""
    n, d, k = 100, 10, int(rng.integers(1, 5))
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0][:k]
    squares, rewards = rng.random(k), rng.standard_normal(k)
    squares *= n * (1.0 + 1e-9 * (1.0 - 10.0 ** -rng.uniform(1, 8))) / squares.sum()
    rewards /= np.linalg.norm(rewards)
    rewards *= np.sqrt(n * (1.0 + 1e-6 * (1.0 - 10.0 ** -rng.uniform(0, 8))))
    moment = axes.T @ (np.sqrt(squares) * rewards)
    if exact:
        gram = (axes.T * squares) @ axes
        return fb.Statistics(fb.Gram((gram + gram.T) / 2.0), moment, n)
    return fb.Statistics(fb.Sketch(np.sqrt(squares)[:, None] * axes, 0.0, 5), moment, n)


@pytest.mark.parametrize("exact", [False, True])
def test_what_a_relay_lets_in_is_not_refused_above(exact: bool) -> None:
    """Or one agent could stop a relay: what is refused stays in flight, and all else behind it."""
    recipe: fb.Recipe = fb.FSCLB(dimension=10, sketch_size=5, agents=2)
    if exact:
        recipe = fb.FedLinUCB(dimension=10, agents=2)
    below, above = (
        Served(new_model("news", recipe, limits=EDGE, relays=levels)[0], recipe)
        for levels in (0, 1)
    )
    rng, let_in = np.random.default_rng(0), 0
    for _ in range(400):
        sync = wire.Sync(
            wire.fingerprint(recipe), bytes(16), 1, fb.Upload(0, at_the_edge(rng, exact=exact))
        )
        try:
            check_sync(below, sync)
        except InvalidMessage:
            continue
        let_in += 1
        relayed = Relayed.fresh(recipe, bytes(16))
        sent = [("phone", sync.upload)] * int(rng.integers(1, 8))
        flying = relayed.absorbed(recipe, sent, None).launched(recipe).outbox.in_flight
        assert flying is not None
        check_sync(above, wire.Sync(sync.fingerprint, bytes(16), 1, flying))
    assert let_in > 100
