"""No upload moves the estimate further than its observations could if they were told in full."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.triangle import triangle_of
from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import Answer, ModelRef, SyncRequest
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.storage.opening import open_store
from fedbandit.service.validation.influence import restrained
from fedbandit.service.validation.upload import check_sync
from fedbandit.worlds import Synthetic

D = 6
LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=10_000)
Vector = NDArray[np.float64]
RECIPES: dict[str, Callable[[], fb.Recipe]] = {
    "lean": lambda: fb.FSCLB.lean(dimension=D, agents=20),
    "coordinates, float64": lambda: fb.FSCLB(
        dimension=D,
        agents=20,
        sketch_size=4,
        estimate="corrected",
        cadence="buffered",
        compensation="coordinates",
    ),
    "corrected": lambda: fb.FSCLB(dimension=D, agents=20, sketch_size=3, estimate="corrected"),
    "rounded matrix": lambda: fb.FedLinUCB(dimension=D, agents=20, wire="int8"),
}


def served(recipe: fb.Recipe, relays: int = 0) -> Served:
    return Served(new_model("news", recipe, limits=LIMITS, relays=relays)[0], recipe)


def is_taken(at: Served, upload: fb.Upload) -> bool:
    try:
        check_sync(at, wire.Sync(at.model.fingerprint, bytes(16), 1, upload))
    except InvalidMessage:
        return False
    return True


def largest(at: Served, lie: Callable[[float], fb.Upload]) -> fb.Upload | None:
    """Return the lie with the longest moment that the door lets in."""
    low, high = 0.0, 20.0
    if not is_taken(at, lie(low)):
        return None
    for _ in range(24):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_taken(at, lie(middle)) else (low, middle)
    return lie(low)


def claimed(
    name: str, rows: Vector, bounds: Vector, lost: float, count: int, towards: Vector
) -> Callable[[float], fb.Upload]:
    """Return lies of any length about arms that are there in ``rows``, or were lost."""
    summary: object
    if name == "lean":
        summary = fitted(LossyRows(rows[:1], bounds, lost), 1e-3)
    elif name == "coordinates, float64":
        summary = LossyRows(rows, bounds, lost)
    elif name == "rounded matrix":
        summary = triangle_of(fb.Gram(rows.T @ rows + lost / D * np.eye(D)), "int8")
    else:
        summary = fb.Sketch(rows[:2], lost / 4.0, 3, lost)
    exact = name in ("coordinates, float64", "corrected")

    def lie(times: float) -> fb.Upload:
        moment = -times * count * towards
        return fb.Upload(
            0, fb.Statistics(summary, moment if exact else short_vector(moment), count)
        )

    return lie


@pytest.mark.parametrize("name", RECIPES)
@given(data=st.data())
def test_the_estimate_of_a_lie_predicts_no_more_than_rewards_can_be(
    name: str, data: st.DataObject
) -> None:
    """The sum over n observations of <theta, x>^2, as the model has it, is at most n R^2."""
    recipe = RECIPES[name]()
    at, server = served(recipe), recipe.server()
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.sampled_from([1, 7, 200, 5000]))
    lost = data.draw(st.sampled_from([0.0, 0.3, 0.9])) * count
    rows = np.linalg.qr(rng.standard_normal((D, D)))[0][:2]
    rows *= sqrt(0.9 * (count - lost) / 2.0) * 10.0 ** rng.uniform(-3, 0)
    spread = rng.dirichlet(np.full(D, data.draw(st.sampled_from([0.2, 100.0]))))
    bounds = lost * (0.99 + rng.uniform() * (0.95 * D - 1.0)) * spread
    towards = rng.standard_normal(D)
    towards /= np.linalg.norm(towards)
    lie = largest(at, claimed(name, rows, bounds, lost, count, towards))
    if lie is None:
        return
    assert is_taken(at, restrained(at, lie))
    server.receive(restrained(at, lie))
    theta, moment, ridge = server.theta, server.moment, recipe.parts.memory.ridge
    square = float(theta @ theta)
    most = 1.11 * count * LIMITS.reward**2  # rows weigh a tenth more where they are rounded
    assert float(theta @ moment) - ridge * square <= most + 0.03 * ridge * square


@pytest.mark.parametrize("relays", [0, 1])
@pytest.mark.parametrize("name", RECIPES)
def test_what_honest_agents_send_is_left_as_it_is(name: str, relays: int) -> None:
    """Rewards with noise, no larger than the limit, and every upload as bytes."""
    recipe = RECIPES[name]()
    at, server, agents = served(recipe, relays), recipe.server(), recipe.fleet()
    world, uploads = Synthetic(dimension=D, arms=5, agents=20, seed=3, noise=0.3), 0
    for this in world.rounds(1500):
        agent = agents[this.agent]
        arm = agent.choose(this.arms)
        upload = agent.observe(this.arms[arm], float(np.clip(this.rewards[arm], -1.0, 1.0)))
        if upload is not None:
            uploads += 1
            alone = fb.Upload(0, upload.statistics)
            assert restrained(at, alone) is alone
            for answer in server.receive(upload):
                agents[answer.agent].receive(answer.message)
    assert uploads > 30


def test_a_liar_that_says_it_has_lost_everything_gets_no_further_than_one_that_has_not(
    sqlite_url: Callable[[], str],
) -> None:
    """1,300 lost observations against 1,900 made theta point against itself, 9 times as long."""
    recipe, store = RECIPES["lean"](), open_store(sqlite_url(), create=True)
    store.create(*new_model("news", recipe, limits=LIMITS))
    merger, ref = StoreMerger(store), ModelRef("news", store.model("news").incarnation)
    world, agents = Synthetic(dimension=D, arms=5, agents=19, seed=1), recipe.fleet()
    honest, sent = recipe.server(), dict.fromkeys(range(20), 0)

    def send(who: int, upload: fb.Upload) -> None:
        sent[who] += 1
        sync = wire.Sync(wire.fingerprint(recipe), bytes([who] * 16), sent[who], upload)
        (outcome,) = merger.merge(ref, [SyncRequest(f"a{who}", wire.encode_sync(sync))])
        assert isinstance(outcome, Answer)

    for this in world.rounds(1900):
        agent = agents[this.agent]
        arm = agent.choose(this.arms)
        upload = agent.observe(this.arms[arm], this.rewards[arm])
        if upload is not None:
            send(this.agent, fb.Upload(0, upload.statistics))
            for answer in honest.receive(upload):
                agents[answer.agent].receive(answer.message)
    towards = world.theta / np.linalg.norm(world.theta)
    kept = fitted(nothing_lost(sqrt(650.0) * towards[None]), 1e-3)
    for _ in range(2):
        honest.receive(fb.Upload(0, fb.Statistics(kept, short_vector(-650.0 * towards), 650)))
    lie = claimed("lean", np.zeros((0, D)), np.full(D, 590.0), 640.0, 650, towards)
    worst = largest(served(recipe), lie)
    assert worst is not None
    for _ in range(2):
        send(19, worst)
    after = server_at(recipe, store.state("news")[1])
    assert after.theta @ towards > honest.theta @ towards
    assert np.linalg.norm(after.theta) < 1.0
    assert after.statistics.cut == 2
    store.close()
