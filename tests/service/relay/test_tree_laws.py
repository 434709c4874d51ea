"""Laws of a tree of coordinators, whatever its links and processes do.

Every observation is somewhere exactly once, and what the root holds in the end is sandwiched
between what was observed, checked with dense matrices.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from tests.service.relay.tree import FAULTS, Tree, assert_sandwich

RECIPES: dict[str, Callable[[], fb.Recipe]] = {
    "sketches": lambda: fb.FSCLB(dimension=5, sketch_size=3, agents=2, alpha=0.3),
    "sketches in int8, corrected": lambda: fb.FSCLB(
        dimension=5, sketch_size=4, agents=2, alpha=0.3, wire="int8", estimate="corrected"
    ),
    "matrices": lambda: fb.FedLinUCB(dimension=4, agents=2, alpha=0.3),
    "triangles in int8": lambda: fb.FedLinUCB(dimension=4, agents=2, alpha=0.3, wire="int8"),
    "lean": lambda: fb.FSCLB.lean(dimension=5, agents=2, alpha=0.3),
}
SHAPES = ([2], [1, 2], [1, 1, 1])

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["observe", "deliver", "pass on", "wait", "kill", "late"]),
        st.integers(0, 7),
        st.sampled_from(FAULTS),
    ),
    max_size=60,
)


def played(rng: np.random.Generator, d: int) -> tuple[np.ndarray, float]:
    """An arm as long as it may be, and a reward."""
    arm = rng.standard_normal(d) if rng.random() < 0.6 else np.eye(d)[rng.integers(d)]
    return arm / np.linalg.norm(arm), float(rng.choice([-1.0, 1.0, 0.25]))


def step(tree: Tree, rng: np.random.Generator, kind: str, who: int, fault: str) -> None:
    """Do one thing to a tree."""
    leaf, relay = tree.leaves[who % len(tree.leaves)], tree.relays[who % len(tree.relays)]
    assert relay.link is not None
    match kind:
        case "observe":
            for _ in range(1 + who):
                leaf.observe(*played(rng, tree.recipe.dimension))
        case "deliver":
            leaf.link.fault = fault
            leaf.deliver()
        case "wait":
            relay.let_wait()
        case "kill":
            first = relay.link.requests + 1 + who % 2
            relay.pass_on(killed_at=lambda number: number >= first)
            relay.crash()
        case "late":
            for link in (leaf.link, relay.link):
                link.arrive_late()
        case _:
            relay.link.fault = fault
            relay.pass_on()


def assert_each_once(tree: Tree) -> None:
    """Every observation is at the root, or waits in exactly one place below it."""
    arms, _ = tree.observed()
    assert tree.root.server.count + tree.undelivered() == len(arms)
    for relay in tree.relays:
        relayed = relay.relayed
        assert relay.server.count == relayed.base.count + relayed.outbox.observations
        assert relay.server.count <= len(arms)  # none is told twice


@pytest.mark.parametrize("name", RECIPES)
@given(steps=STEPS, shape=st.sampled_from(SHAPES), seed=st.integers(0, 2**16))
@settings(max_examples=12, deadline=None)
def test_every_observation_arrives_once(
    name: str, steps: list[tuple[str, int, str]], shape: list[int], seed: int
) -> None:
    tree, rng = Tree(RECIPES[name](), shape, 2), np.random.default_rng(seed)
    for each in steps:
        step(tree, rng, *each)
        assert_each_once(tree)
    for link in [leaf.link for leaf in tree.leaves] + [relay.link for relay in tree.relays]:
        assert link is not None
        link.arrive_late()
    tree.settle()
    arms, rewards = tree.observed()
    root = tree.root.server
    assert root.count == root.statistics.rewards.count == len(arms)
    np.testing.assert_allclose(root.statistics.rewards.total, rewards.sum(), atol=1e-9)
    np.testing.assert_allclose(root.statistics.rewards.squares, (rewards**2).sum(), atol=1e-9)
    assert_sandwich(tree.recipe, root, arms, whole=True)
    for relay in tree.relays:
        assert_sandwich(tree.recipe, relay.server, tree.observed(relay)[0], whole=False)
    if name == "matrices":
        np.testing.assert_allclose(root.moment, rewards @ arms, atol=1e-9)
