"""What devices tell of shadow mode: added up over agents and relays, and liars refused."""

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.cli import main
from fedbandit.errors import InvalidMessage
from fedbandit.offline.shadow import Seen, ShadowScore, shadow_report
from fedbandit.service.board.shadows import fleet_sentence
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.models.shadows import added_up, fleet_shadow
from fedbandit.service.storage.opening import open_store
from fedbandit.testing import coordinator
from fedbandit.wire import ShadowSums, check_shadow
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.relay.tree import MODEL, Tree
from tests.service.running import BODY, client_of, make_model, post, sync_path

Row = tuple[int, float, float, float]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1), st.floats(0.05, 1.0), st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0])
    ),
    max_size=30,
)


def scored(rows: list[Row]) -> ShadowScore:
    score, means, bonus = ShadowScore(), np.array([0.3, 0.6]), np.array([0.1, 0.2])
    for i, (done, p, q, reward) in enumerate(rows):
        score.decided(f"{i}", Seen.of(done, p, np.array([q, 1.0 - q]), means, bonus))
        score.rewarded(f"{i}", reward)
    return score


def close(a: object, b: object) -> bool:
    ours, theirs = msgspec.to_builtins(a), msgspec.to_builtins(b)
    return all(
        x == y if isinstance(x, str | bool) else math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)
        for x, y in zip(ours, theirs, strict=True)
    )


@given(ROWS, ROWS)
def test_sums_of_agents_are_the_sums_of_all_their_decisions(a: list[Row], b: list[Row]) -> None:
    apart = scored(a).sums().plus(scored(b).sums())
    assert close(msgspec.structs.astuple(apart), msgspec.structs.astuple(scored(a + b).sums()))


@given(ROWS)
def test_what_a_device_sums_up_is_taken_and_survives_the_wire(rows: list[Row]) -> None:
    sums = scored(rows).sums()
    check_shadow(sums)
    sync = replace(sync_for(RECIPE, 0), shadow=sums)
    assert wire.decode_sync(wire.encode_sync(sync)).shadow == sums


GOOD = scored([(k % 2, 0.5, 0.7, float(k % 3 == 0)) for k in range(200)]).sums()


@pytest.mark.parametrize(
    "lie",
    [
        {"rows": 201},
        {"rewarded": 10**9},
        {"paid": 201},
        {"chance": 201},
        {"apart": 201},
        {"same": -0.1},
        {"same": 200.1},
        {"same": math.nan},
        {"reward": math.inf},
        {"gain": 1e160},
        {"gain": 1e6},
        {"gain_squares": -1.0},
        {"weight": -1.0},
        {"weight_squares": 0.0},
        {"doubt": -1e-9},
        {"doubt": math.nan},
        {"paid": 0},
    ],
)
def test_sums_that_no_decisions_have_are_refused_by_name(lie: dict[str, float]) -> None:
    told = msgspec.structs.replace(GOOD, **lie)
    with pytest.raises(InvalidMessage, match="shadow") as error:
        check_shadow(told)
    assert error.value.field == "shadow"


def test_a_refusal_names_shadow_and_nothing_of_it_is_merged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    make_model(url, "news", RECIPE)
    sync = replace(sync_for(RECIPE, 0), shadow=msgspec.structs.replace(GOOD, rows=10**6))
    with client_of(url) as client:
        body, place = wire.encode_sync(sync), sync_path("news", "phone")
        answer = client.post(place, content=body, headers=BODY)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "shadow")
    store = open_store(url)
    assert store.agents("news") == {}
    store.close()


def test_one_that_tells_of_more_than_limits_allow_is_left_out() -> None:
    model = new_model("m", RECIPE, limits=wire.Limits(arm_norm=1.0, reward=1.0, count=10))[0]
    rich = msgspec.structs.replace(GOOD, reward=1e4, paid=200)
    crowd = added_up([GOOD] * 51)
    assert crowd is not None
    check_shadow(rich)
    check_shadow(crowd)
    found = fleet_shadow(model, [GOOD, rich, crowd])
    assert found is not None
    assert (found.agents, found.left_out) == (1, 2)
    assert found.together == shadow_report(GOOD)
    above = fleet_shadow(replace(model, relays=1), [crowd])
    assert above is not None
    assert (above.agents, above.left_out) == (1, 0)
    assert fleet_shadow(model, []) is None


def test_the_latest_counts_and_a_copy_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    make_model(url, "news", RECIPE)
    first = replace(sync_for(RECIPE, 0), shadow=ShadowSums(5))
    with client_of(url) as client:
        post(client, first)
        post(client, replace(first, shadow=ShadowSums(6)))
        post(client, sync_for(RECIPE, 1, sequence=2))  # tells nothing of it
        assert _told(url) == [ShadowSums(5)]
        post(client, replace(sync_for(RECIPE, 2, sequence=3), shadow=GOOD))
        assert _told(url) == [GOOD]
        metrics = client.get("/metrics").text
        assert 'fedbandit_model_shadow_agents{model="news"} 1' in metrics
        assert 'fedbandit_model_shadow_rewarded{model="news"} 200' in metrics


def _told(url: str) -> list[ShadowSums]:
    store = open_store(url)
    try:
        return store.shadows("news")
    finally:
        store.close()


def test_a_sync_with_everything_fits_into_the_longest_body() -> None:
    agent, served = RECIPE.agent(0), Served(new_model("m", RECIPE)[0], RECIPE)
    for arm in np.random.default_rng(0).standard_normal((9, RECIPE.dimension)):
        agent.observe(arm, 1.0, pack=False, estimate=0.5)
    told = ShadowSums(*[2**53] * 6, *[1.5e149] * 7)
    sync = wire.Sync("f" * 16, bytes(16), 2**62, agent.collect(), 2**62, shadow=told)
    assert len(wire.encode_sync(sync)) <= served.largest_body


def test_relays_pass_on_the_sum_over_their_agents() -> None:
    tree = Tree(fb.FedLinUCB(dimension=3, agents=4), [2], 2)
    for k, leaf in enumerate(tree.leaves):
        leaf.observe(np.eye(3)[k % 3], 1.0)
        leaf.learner.flush()
        box = leaf.learner.outbox.next_in_flight(leaf.learner.packed)
        assert box.in_flight is not None
        sums = scored([(0, 0.5, 0.5, 1.0)] * (k + 1)).sums()
        sync = wire.Sync(leaf.learner.fingerprint, box.life, 1, box.in_flight, shadow=sums)
        leaf.link.exchange("sync", wire.encode_sync(sync))
    for relay in tree.relays:
        relay.let_wait()
        relay.pass_on()
    told = tree.root.store.shadows(MODEL)
    assert sorted(each.rows for each in told) == [3, 7]
    total = added_up(told)
    expected = scored([(0, 0.5, 0.5, 1.0)] * 10).sums()
    assert total is not None
    assert close(msgspec.structs.astuple(total), msgspec.structs.astuple(expected))


@pytest.mark.parametrize(
    "lie",
    [{"decisions": 2**53}, {"doubt": 1e150}, {"gain_squares": 1e150}, {"weight_squares": 1e150}],
)
def test_agents_below_a_relay_cannot_stop_it_by_what_they_tell(lie: dict[str, float]) -> None:
    """Each may be just what is taken above, and their sum is more."""
    tree = Tree(fb.FedLinUCB(dimension=3, agents=4), [1, 1], 3)
    liar = msgspec.structs.replace(GOOD, **lie)
    for leaf, sums in zip(tree.leaves, (liar, GOOD, liar), strict=True):
        leaf.observe(np.eye(3)[0], 1.0)
        leaf.learner.flush()
        box = leaf.learner.outbox.next_in_flight(leaf.learner.packed)
        assert box.in_flight is not None
        sync = wire.Sync(leaf.learner.fingerprint, box.life, 1, box.in_flight, shadow=sums)
        leaf.link.exchange("sync", wire.encode_sync(sync))
    for relay in reversed(tree.relays):
        relay.let_wait()
        relay.pass_on()
    assert tree.root.server.count == 3
    assert tree.root.store.shadows(MODEL) == [GOOD]


def test_no_single_agent_makes_a_fleet_safe_to_switch() -> None:
    """Nine whose rule is better than the model, and one that has seen wonders."""
    model = new_model("m", RECIPE, limits=wire.Limits(arm_norm=1.0, reward=1.0, count=10))[0]
    worse = scored([(1, 0.5, 0.5, float(k % 3 > 0)) for k in range(300)]).sums()
    wonders = msgspec.structs.replace(
        GOOD, decisions=10**4, rewarded=10**4, rows=10**4, paid=10**4, chance=10**4,
        gain=2e4, gain_squares=4e4, weight=1e4, weight_squares=1e4,
    )  # fmt: skip
    check_shadow(wonders)
    assert shadow_report(wonders).safe
    assert not shadow_report(added_up([worse] * 9) or GOOD).safe
    found = fleet_shadow(model, [worse] * 9 + [wonders])
    assert found is not None
    assert found.decisive
    assert not found.together.safe
    assert "rests on one agent alone" in fleet_sentence(found)
    alone = fleet_shadow(model, [wonders])
    assert alone is not None
    assert alone.together.safe
    both = fleet_shadow(model, [wonders] * 2)
    assert both is not None
    assert both.together.safe
    assert not both.decisive


def test_what_a_device_says_is_what_the_coordinator_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, rng = f"sqlite:///{tmp_path}/store.db", np.random.default_rng(0)
    theta = np.array([0.8, 0.1, 0.1])
    store = open_store(url, create=True)
    with coordinator(fb.FedLinUCB(dimension=3, agents=1), model="shop", store=store) as running:
        agent = running.connect("till")
        for _ in range(400):
            arms = rng.uniform(0.0, 1.0, (3, 3))
            decision = agent.decide(arms, baseline=int(rng.integers(3)), baseline_probability=1 / 3)
            agent.reward(decision.id, float(rng.random() < arms[decision.index] @ theta))
        agent.sync(everything=True)
        said = agent.status().shadow
        (sums,) = store.shadows("shop")
        assert shadow_report(sums) == said
        assert said.basis == "weights"
        agent.close()
    main(["model", "show", "shop", "--store", url])
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 agent in shadow mode: the model agrees with the baseline" in shown
    assert f"would have earned {said.gain:+.3g} a decision" in shown
