"""What honest agents send is never refused, at the very edge of a model's limits either."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Literal, get_args

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.state.learner import Learner
from fedbandit.core.memory.narrow import WIDTHS, Width
from fedbandit.core.memory.sketch_memory import Estimate
from fedbandit.core.memory.triangle import GRAM_WIRES, GramWire
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.upload import check_sync
from tests.service.merging.at_the_limits import COORDINATES, drawn

Size = Literal["auto"] | int
CASES = list(product(WIDTHS, get_args(Estimate), ("auto", 2, 5), ("paper", "buffered")))


def delivered(served: Served, server: fb.Server, learner: Learner) -> None:
    """Send what waits, through bytes, door and merge, and take in the answer."""
    learner.outbox = learner.outbox.next_in_flight(learner.packed)
    box = learner.outbox
    assert box.in_flight is not None
    sync = wire.Sync(learner.fingerprint, box.life, box.sequence, box.in_flight)
    body = wire.encode_sync(sync)
    assert len(body) <= served.largest_body
    read = wire.decode_sync(body)
    check_sync(served, read)
    merge(served.recipe, server, [read.upload])
    whole = wire.encode(server.whole())
    assert wire.encode(server_at(served.recipe, whole).whole()) == whole
    mark = served.model.fingerprint
    answer = wire.Synced(mark, True, box.sequence, server.version, server.download())
    learner.acknowledge(wire.decode_synced(wire.encode_synced(answer)))


@pytest.mark.parametrize(("width", "estimate", "size", "cadence"), CASES)
def test_nothing_honest_is_refused(
    width: Width, estimate: Estimate, size: Size, cadence: Literal["paper", "buffered"]
) -> None:
    for seed in range(6):
        assert_nothing_is_refused(
            seed,
            lambda d: fb.FSCLB(
                dimension=d,
                sketch_size=size if size == "auto" else min(size, d + 1),
                agents=2,
                wire=width,
                estimate=estimate,
                cadence=cadence,
            ),
        )


@pytest.mark.parametrize("width", GRAM_WIRES)
def test_nothing_honest_of_fedlinucb_is_refused(width: GramWire) -> None:
    for seed in range(12):
        assert_nothing_is_refused(
            seed, lambda d: fb.FedLinUCB(dimension=d, agents=2, wire=width, alpha=0.2)
        )


@pytest.mark.parametrize("build", COORDINATES.values(), ids=COORDINATES)
def test_nothing_honest_with_bounds_by_coordinate_is_refused(
    build: Callable[..., fb.Recipe],
) -> None:
    """Ridges small and large beside the arms; most uploads wait and are joined."""
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        ridge, alpha = 10.0 ** rng.uniform(-6, 6), float(rng.choice([0.01, 1.0, 100.0]))
        built = partial(build, ridge=ridge, alpha=alpha)
        assert_nothing_is_refused(seed, built, at_once=float(rng.choice([0.1, 0.5])))


def assert_nothing_is_refused(
    seed: int, build: Callable[[int], fb.Recipe], *, at_once: float = 0.5
) -> None:
    """Let two agents observe at the limits, and deliver now and then, late and joined too."""
    rng = np.random.default_rng(seed)
    d, length, reward = int(rng.integers(1, 12)), 10.0 ** rng.uniform(-2, 3), 0.3
    recipe = build(d)
    limits = wire.Limits(arm_norm=length, reward=reward, count=10**6)
    served = Served(new_model("news", recipe, limits=limits)[0], recipe)
    server = recipe.server()
    learners = [Learner.fresh(recipe, bytes([who] * 16)) for who in range(2)]
    for _ in range(60):
        learner = learners[int(rng.integers(2))]
        learner.observe(drawn(rng, d, length), reward * float(rng.choice([-1.0, 1.0])))
        assert learner.within(limits)[1] == []
        if learner.outbox.waiting and rng.random() < at_once:
            delivered(served, server, learner)


@pytest.mark.parametrize("budget", [None, 230, 400])
def test_nothing_honest_of_a_lean_agent_is_refused(budget: int | None) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d, length, reward = int(rng.integers(2, 14)), 10.0 ** rng.uniform(-1, 2), 0.3
        recipe = fb.FSCLB.lean(dimension=d, agents=2, budget=budget)
        limits = wire.Limits(arm_norm=1.05 * length, reward=reward, count=10**6)
        served = Served(new_model("news", recipe, limits=limits)[0], recipe)
        server = recipe.server()
        learners = [Learner.fresh(recipe, bytes([who] * 16)) for who in range(2)]
        for _ in range(120):
            learner = learners[int(rng.integers(2))]
            learner.observe(drawn(rng, d, length), reward * float(rng.choice([-1.0, 1.0])))
            assert learner.within(limits)[1] == []
            if learner.outbox.waiting and rng.random() < 0.3:
                delivered(served, server, learner)


def test_a_life_that_starts_offline_keeps_everything_it_has_joined() -> None:
    recipe = fb.FSCLB.lean(dimension=20, agents=2)
    learner = Learner.fresh(recipe, bytes(16))
    for turn in range(300):
        learner.observe(np.eye(20)[turn % 3], 1.0)
    learner.flush()
    kept, misfits = learner.within(wire.Limits(arm_norm=1.0, reward=1.0, count=10**6))
    assert misfits == []
    assert kept.observations == 300


@pytest.mark.parametrize("wired", ["float64", "fitted"])
def test_an_upload_of_d_rows_is_not_too_long(wired: Literal["float64", "fitted"]) -> None:
    d = 120
    recipe = fb.FSCLB(
        dimension=d,
        sketch_size=d + 1,
        agents=2,
        alpha=1e9,
        estimate="corrected",
        cadence="buffered",
        compensation="coordinates",
        wire=wired,
    )
    served = Served(new_model("news", recipe)[0], recipe)
    learner = Learner.fresh(recipe, bytes(16))
    for arm in np.random.default_rng(0).standard_normal((d + 9, d)):
        learner.observe(1e5 * arm / np.linalg.norm(arm), 1.0)
    learner.flush()
    while learner.outbox.waiting:
        delivered(served, recipe.server(), learner)


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_no_matrix_of_an_honest_agent_is_refused(d: int) -> None:
    """One arm again and again, at the longest length and the largest reward, rounds worst."""
    recipe = fb.FedLinUCB(dimension=d, agents=2, alpha=1e300)
    limits = wire.Limits(arm_norm=1.0, reward=0.3, count=10_000)
    served = Served(new_model("news", recipe, limits=limits)[0], recipe)
    for seed, repeats in product(range(4), (1, 7, 2000)):
        rng = np.random.default_rng(seed)
        learner = Learner.fresh(recipe, bytes(16))
        arms = [drawn(rng, d, 1.0) for _ in range(1 + seed)]
        for turn in range(repeats):
            learner.observe(arms[turn % len(arms)], 0.3 if seed % 2 else -0.3)
        learner.flush()
        delivered(served, recipe.server(), learner)


@pytest.mark.parametrize("count", [1, 50, 10_000])
def test_nor_one_that_was_added_up_arm_by_arm(count: int) -> None:
    recipe = fb.FedLinUCB(dimension=3, agents=2)
    limits = wire.Limits(arm_norm=1.0, reward=1.0, count=10_000)
    served = Served(new_model("news", recipe, limits=limits)[0], recipe)
    for seed in range(20):
        arm = drawn(np.random.default_rng(seed), 3, 1.0)
        same = np.broadcast_to(np.outer(arm, arm).ravel(), (count, 9))
        matrix = np.cumsum(same, axis=0)[-1].reshape(3, 3)
        moment = np.cumsum(np.broadcast_to(arm, (count, 3)), axis=0)[-1]
        upload = fb.Upload(0, fb.Statistics(fb.Gram(matrix), moment, count))
        check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
