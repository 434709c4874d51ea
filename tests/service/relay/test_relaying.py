"""What a relay tells, asks, and does when the coordinator above is set back or made anew."""

import time
from contextlib import suppress

import msgspec
import numpy as np
import pytest

import fedbandit as fb
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.errors import DataError, Refused
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.models.model import new_model
from fedbandit.service.models.undo import (
    forget_agent,
    forget_span,
    quarantine,
    roll_back,
    set_history,
)
from fedbandit.service.relay.sender import RelaySender
from fedbandit.service.relay.upstream import Above, begin, prepare
from fedbandit.wire import Limits, Sync, decode_synced, encode_sync, fingerprint
from tests.service.relay.tree import MODEL, Leaf, Link, Node, Tree
from tests.testing.memory_store import MemoryStore, Place

MATRICES = fb.FedLinUCB(dimension=3, agents=2, alpha=1.0)


def fed(leaf: Leaf, count: int, *, seed: int = 0) -> None:
    """Let an agent observe, and deliver all of it."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        arm = rng.standard_normal(3)
        leaf.observe(arm / np.linalg.norm(arm), 1.0)
    leaf.learner.flush()
    leaf.deliver()


def passed_on(relay: Node) -> None:
    """Let a relay send all that waits, or ask for news."""
    relay.let_wait()
    relay.pass_on()


def test_agents_are_told_what_others_under_other_relays_have_sent() -> None:
    tree = Tree(MATRICES, [2], 1)
    (one, other), (left, right) = tree.leaves, tree.relays
    fed(one, 20)
    passed_on(left)
    passed_on(right)  # has nothing to say, and asks
    fed(other, 5, seed=1)
    assert right.server.count == 25
    assert other.learner.version > 0
    np.testing.assert_allclose(right.server.summary.matrix.trace(), 25.0)


def test_what_waits_is_not_sent_before_it_is_due() -> None:
    tree = Tree(MATRICES, [1], 1)
    (leaf,), (relay,) = tree.leaves, tree.relays
    fed(leaf, 100)
    relay.pass_on()
    assert tree.root.server.count == 100  # much beside nothing
    fed(leaf, 1, seed=1)
    relay.pass_on()
    assert tree.root.server.count == 100
    assert relay.relayed.outbox.observations == 1
    fed(leaf, 400, seed=2)
    relay.pass_on()
    assert tree.root.server.count == 501


def test_uploads_are_no_larger_than_the_coordinator_above_takes() -> None:
    tree = Tree(MATRICES, [1], 1)
    (leaf,), (relay,) = tree.leaves, tree.relays
    with tree.root.store.lock(MODEL) as locked:
        model, limits = locked.model, Limits(arm_norm=1.0, reward=1.0, count=50)
        locked.set_rules(limits=limits, quotas=model.quotas, history=model.history)
    relay.pass_on()
    for seed in range(4):
        fed(leaf, 30, seed=seed)
    assert [each.count for each in relay.relayed.outbox.waiting] == [30, 30, 30, 30]
    passed_on(relay)
    assert tree.root.server.count == 120


def test_two_coordinators_of_one_relay_send_nothing_twice() -> None:
    tree = Tree(MATRICES, [1], 1)
    (leaf,), (relay,) = tree.leaves, tree.relays
    second = RelaySender(relay.store, MODEL, MATRICES, wait=1.0)
    delivery = Delivery(second, Link(tree.root, relay.name))
    relay.pass_on()
    delivery.deliver()
    fed(leaf, 10)
    mine, theirs = relay.sender.next_request(), second.next_request()
    assert mine is not None
    assert theirs is not None
    assert (mine.body, mine.new, theirs.new) == (theirs.body, True, False)
    answers = [
        decode_synced(tree.root.answer(relay.name, "sync", each.body)) for each in (mine, theirs)
    ]
    second.acknowledge(answers[1])
    fed(leaf, 100, seed=1)
    assert second.next_request() is not None  # the next one is in flight
    relay.sender.acknowledge(answers[0])  # too late: of no effect
    assert relay.relayed.outbox.observations == 100
    assert relay.server.count == 110
    tree.settle()
    assert tree.root.server.count == 110


def test_what_is_taken_out_above_is_taken_out_below() -> None:
    tree = Tree(MATRICES, [2], 1)
    (good, bad), (left, right) = tree.leaves, tree.relays
    with tree.root.store.lock(MODEL) as locked:
        set_history(locked, History(by_agent=True))
    fed(good, 20)
    passed_on(left)
    fed(bad, 30, seed=1)
    passed_on(right)
    passed_on(left)
    assert left.server.count == 50
    with tree.root.store.lock(MODEL) as locked:
        assert forget_agent(locked, right.name).observations == 30
    version = left.server.version
    passed_on(left)
    passed_on(right)
    assert tree.root.server.count == left.server.count == right.server.count == 20
    model = left.store.model(MODEL)
    assert model.set_back > version  # agents that are quiet are told when they ask
    fed(good, 5, seed=2)
    tree.settle()
    assert tree.root.server.count == 25


@pytest.mark.parametrize("levels", [[2], [1, 2]])
@pytest.mark.parametrize("asked", [True, False])
def test_quiet_agents_hear_of_it_also_where_more_has_come_in_meanwhile(
    levels: list[int], *, asked: bool
) -> None:
    """By asking for news, or by the answer to an upload."""
    tree = Tree(MATRICES, levels, 1)
    (good, bad), left = tree.leaves, tree.relays[-2]
    with tree.root.store.lock(MODEL) as locked:
        set_history(locked, History(every=1e-9, by_agent=True))
    fed(good, 20)
    tree.settle()
    fed(bad, 30, seed=1)
    tree.settle()
    for relay in tree.relays:
        passed_on(relay)
    assert left.server.count == 50
    version = left.server.version
    with tree.root.store.lock(MODEL) as locked:
        roll_back(locked, locked.past.snapshots()[-1].version)
    fed(bad, 40, seed=3)
    for relay in reversed(tree.relays):
        if relay is not left:
            passed_on(relay)
    if not asked:
        fed(good, 5, seed=4)
    for relay in tree.relays:
        passed_on(relay)
    assert left.server.count == (60 if asked else 65)
    assert left.store.model(MODEL).set_back > version


def test_a_coordinator_above_that_is_made_anew_gets_what_was_not_acknowledged() -> None:
    tree = Tree(MATRICES, [1], 1)
    (leaf,), (relay,) = tree.leaves, tree.relays
    fed(leaf, 10)
    passed_on(relay)
    fed(leaf, 100, seed=1)
    store: MemoryStore = tree.root.store
    store.delete(MODEL)
    store.create(*new_model(MODEL, MATRICES))
    tree.root.crash()
    passed_on(relay)
    tree.settle()
    assert tree.root.server.count == 100
    assert relay.server.count == 100


def test_nothing_is_taken_out_at_a_relay_but_an_agent_is_kept_out() -> None:
    tree = Tree(MATRICES, [1], 1)
    (relay,) = tree.relays
    fed(tree.leaves[0], 10)
    with relay.store.lock(MODEL) as locked:
        for take_out in (
            lambda: roll_back(locked, 0),
            lambda: forget_agent(locked, "a0"),
            lambda: forget_span(locked, after=0, upto=1),
        ):
            with pytest.raises(DataError, match="passed on to a coordinator above"):
                take_out()
        quarantine(locked, "a0")
    tree.settle()
    assert tree.root.server.count == 10


@pytest.mark.parametrize("quotas", [NO_QUOTAS, Quotas(observations=100)])
def test_a_relay_without_quotas_says_so_when_it_starts(
    quotas: Quotas, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(Place())
    store.create(*new_model(MODEL, MATRICES, quotas=quotas))
    with caplog.at_level("INFO", "fedbandit.service"):
        prepare(store, Above(url="http://127.0.0.1:9", agent="relay", models={MODEL: None}))
    assert (f"model set {MODEL} --hourly-observations" in caplog.text) == (quotas == NO_QUOTAS)


def test_what_a_relay_stored_before_it_counted_senders_is_read() -> None:
    _, relay = relay_for_single_observations(3)
    for sequence in range(1, 4):
        assert sent(relay, "phone", sequence)
    now = relay.relayed
    assert now.senders == {"phone": 2.0}  # counted from the second upload on that waits
    *before, _ = msgspec.msgpack.decode(now.stored().outbox)
    with relay.store.lock(MODEL) as locked:
        locked.write_relaying(outbox=msgspec.msgpack.encode(before))
    assert relay.relayed.senders == {}
    assert relay.relayed.outbox.observations == now.outbox.observations


def test_only_an_empty_model_can_become_a_relays() -> None:
    tree = Tree(MATRICES, [], 1)
    fed(tree.leaves[0], 3)
    with (
        tree.root.store.lock(MODEL) as locked,
        pytest.raises(DataError, match="merged something already"),
    ):
        begin(locked)


def test_a_relay_is_moved_in_a_file_with_what_it_has_to_send() -> None:
    tree = Tree(MATRICES, [1], 1)
    (leaf,), (relay,) = tree.leaves, tree.relays
    relay.pass_on()
    fed(leaf, 40)
    assert relay.sender.next_request() is not None  # in flight, and sent by neither
    fed(leaf, 5, seed=1)
    file = archive_bytes(relay.store.archive(MODEL))
    relay.store.delete(MODEL)
    relay.store.install(read_archive(file))
    relay.crash()
    tree.settle()
    assert tree.root.server.count == 45


def sent(relay: Node, agent: str, sequence: int) -> bool:
    """Send an upload of one observation; return whether it was merged now."""
    recipe, arm = relay.recipe, np.eye(relay.recipe.dimension)[:1]
    upload = fb.Upload(0, fb.Statistics(fb.Gram(arm.T @ arm), arm[0], 1))
    sync = Sync(fingerprint(recipe), bytes(16), sequence, upload)
    return decode_synced(relay.answer(agent, "sync", encode_sync(sync))).merged


def relay_for_single_observations(dimension: int) -> tuple[Tree, Node]:
    """Return a relay, and its tree, whose uploads stand for one observation each."""
    limits = Limits(arm_norm=1.0, reward=1.0, count=1)
    tree = Tree(fb.FedLinUCB(dimension=dimension, agents=2), [1], 1, limits)
    tree.relays[0].pass_on()
    return tree, tree.relays[0]


def let_in(relay: Node, agent: str) -> int:
    """Send uploads until one has to wait; return how many were merged."""
    for sequence in range(1, 1000):
        try:
            assert sent(relay, agent, sequence)
        except Refused as error:
            refused = error
            break
    assert (refused.status, refused.field) == (429, "quota")
    return sequence - 1


def test_no_more_waits_for_the_coordinator_above_than_may() -> None:
    """Or agents could fill a relay's store; what is not taken stays with its sender."""
    tree, relay = relay_for_single_observations(300)
    merged = 0
    while not relay.relayed.is_full:
        merged += 1
        assert sent(relay, f"agent-{merged}", 1)
    assert 4 < merged < 20
    with pytest.raises(Refused) as refused:
        sent(relay, "another", 1)
    assert refused.value.status == 503
    assert not sent(relay, "agent-1", 1)  # a copy is answered as ever
    passed_on(relay)
    assert tree.root.server.count == merged
    assert sent(relay, "another", 1)


def test_one_agent_does_not_take_the_room_of_others_below_a_relay() -> None:
    tree, relay = relay_for_single_observations(3)
    merged = let_in(relay, "flood")
    assert 3 <= merged <= 9
    relay.crash()
    with pytest.raises(Refused):
        sent(relay, "flood", merged + 1)
    assert not sent(relay, "flood", merged)  # a copy is answered as ever
    assert all(sent(relay, f"agent-{number}", 1) for number in range(4))
    assert sent(relay, "agent-0", 2)
    assert not relay.relayed.is_full
    passed_on(relay)
    assert tree.root.server.count == merged + 5
    assert relay.relayed.senders == {}
    assert sent(relay, "flood", merged + 1)


def test_agents_of_like_size_have_all_the_room_that_there_is() -> None:
    tree, relay = relay_for_single_observations(3)
    for sequence in range(1, 13):
        assert all(sent(relay, f"agent-{number}", sequence) for number in range(5))
    assert len(relay.relayed.outbox.waiting) == 60
    passed_on(relay)
    assert tree.root.server.count == 60


def test_what_others_send_passes_on_though_one_agent_spends_a_relays_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every hour that the coordinator above lets something in, also of a heavy honest agent."""
    tree, relay = relay_for_single_observations(3)
    now, sequences = time.time(), {"flood": 0, "busy": 0, "rare": 0}
    with tree.root.store.lock(MODEL) as locked:
        quotas = Quotas(uploads=4)
        locked.set_rules(limits=locked.model.limits, quotas=quotas, history=locked.model.history)
    for hour in range(30):
        monkeypatch.setattr(time, "time", lambda hour=hour: now + 3600.0 * hour)
        for agent, times in (("flood", 50), ("busy", 3), ("rare", 1)):
            with suppress(Refused):
                for _ in range(times):
                    assert sent(relay, agent, sequences[agent] + 1)
                    sequences[agent] += 1
        relay.let_wait()
        with suppress(Refused):  # it is held back
            relay.pass_on()
    assert sequences["rare"] == 30
    assert sequences["busy"] >= 30
    assert sum(sequences.values()) - tree.root.server.count <= 20  # so little waits
