"""What is taken out is gone, what is left is as if nothing else had come, and nothing returns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from msgspec import structs
from numpy.testing import assert_allclose

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyGram
from fedbandit.errors import DataError, UnknownName
from fedbandit.service.bookkeeping.history import LOOSE, History, Snapshot, superfluous
from fedbandit.service.bookkeeping.quotas import Quotas
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.commit import Committer
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import Answer, Outcome
from fedbandit.service.models import undo
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.models.model import Served, new_model, recipe_of
from fedbandit.service.refusal import Refusal
from fedbandit.service.storage.contract import Locked
from tests.testing.memory_store import MemoryStore, Place

D = 6
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, agents=3, alpha=1e9),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=3, alpha=1e9),
    "lean": fb.FSCLB.lean(dimension=D, agents=3, alpha=1e9),
}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
OFTEN = History(every=1e-9, keep=5, by_agent=True)


class Model:
    """A model in a store in memory, and its agents' uploads, each merged alone."""

    def __init__(self, recipe: fb.Recipe, history: History) -> None:
        self.recipe, self.store = recipe, MemoryStore(Place())
        model, state = new_model("m", recipe, history=history)
        self.store.create(model, state)
        self.committer = Committer(self.store, Served(model, recipe))
        self.sent: dict[tuple[str, int], fb.Upload] = {}

    def send(self, agent: str, sequence: int) -> Outcome:
        sender = self.recipe.agent(0)
        for arm, reward in zip(*observed(agent, sequence), strict=True):
            sender.observe(arm, reward)
        upload = sender.receive(fb.Collect())
        assert upload is not None
        self.sent[agent, sequence] = upload
        sync = wire.Sync(wire.fingerprint(self.recipe), agent.encode() * 16, sequence, upload)
        return self.committer.commit([CheckedSync(agent, sync, 100)])[0]

    @contextmanager
    def locked(self) -> Iterator[Locked]:
        with self.store.lock("m") as locked:
            yield locked

    def server(self) -> fb.Server:
        model, state = self.store.state("m")
        server = server_at(recipe_of(model), state)
        assert (server.version, server.count) == (model.version, model.count)
        return server


def observed(agent: str, sequence: int) -> tuple[Array, list[float]]:
    """Return the five arms and rewards that an upload is made of."""
    rng = np.random.default_rng(100 * sequence + ord(agent))
    arms = rng.standard_normal((5, D))
    return arms / np.linalg.norm(arms, axis=1, keepdims=True), list(rng.uniform(-1, 1, 5))


def true_gram(left: list[tuple[str, int]]) -> Array:
    """Return X^T X of what some uploads were made of."""
    total = np.zeros((D, D))
    for each in left:
        arms = observed(*each)[0]
        total += arms.T @ arms
    return total


def check_holds_just(model: Model, left: list[tuple[str, int]]) -> None:
    """The state is of these uploads: count and moment of them, and a bound on their X^T X."""
    server, gram = model.server(), true_gram(left)
    assert server.count == 5 * len(left)
    summary = server.summary
    if isinstance(summary, fb.Gram):
        assert_allclose(summary.matrix, gram, atol=1e-12)
    elif isinstance(summary, LossyGram):
        upper = summary.weight * summary.matrix + np.diag(summary.bound) - gram
        assert np.linalg.eigvalsh(upper).min() >= -1e-9
        assert np.trace(summary.matrix) + summary.lost == pytest.approx(np.trace(gram), rel=0.01)
    else:
        upper = summary.rows.T @ summary.rows + summary.shed * np.eye(D) - gram
        assert np.linalg.eigvalsh(upper).min() >= -1e-9
        assert np.trace(summary.rows.T @ summary.rows) <= np.trace(gram) * (1 + 1e-9)
    if not isinstance(summary, LossyGram):
        moment = sum((model.sent[each].moment for each in left), start=np.zeros(D))
        assert_allclose(server.moment, moment, atol=1e-12)


@each_recipe
def test_an_agent_that_is_forgotten_leaves_nothing_behind(recipe: fb.Recipe) -> None:
    model = Model(recipe, OFTEN)
    for sequence in range(1, 2 * LOOSE + 4):
        for agent in "abc":
            assert isinstance(model.send(agent, sequence), Answer)
    version = model.server().version
    with model.locked() as locked:
        assert undo.forget_agent(locked, "b") == undo.Forgotten(5 * (2 * LOOSE + 3), 0)
    assert model.server().version == version + 1 == model.store.model("m").set_back
    check_holds_just(model, [each for each in model.sent if each[0] != "b"])
    with model.locked() as locked:
        assert locked.past.parts("b") == []
        assert all(each.version < 2 for each in locked.past.snapshots())
    again = model.send("b", 7)  # a late copy of what was taken out
    assert isinstance(again, Answer)
    assert not again.merged
    more = model.send("b", 2 * LOOSE + 4)
    assert isinstance(more, Answer)
    assert more.merged
    left = [each for each in model.sent if each[0] != "b"] + [("b", 2 * LOOSE + 4)]
    check_holds_just(model, left)


@pytest.mark.parametrize(
    "wide", [RECIPES["lean"], fb.FSCLB.lean(dimension=40, agents=3, alpha=1e9)]
)
def test_the_parts_of_an_agent_take_no_more_room_than_what_it_sent(wide: fb.Recipe) -> None:
    """Or an agent could fill the disk by small uploads, of which each becomes a whole matrix."""
    store = MemoryStore(Place())
    model, state = new_model("m", wide, history=replace(OFTEN, every=1e9))
    store.create(model, state)
    committer, sent = Committer(store, Served(model, wide)), 0
    for sequence in range(1, 8 * LOOSE + 1):
        sender = wide.agent(0)
        sender.observe(np.eye(wide.dimension)[sequence % 5], 1.0)
        upload = sender.receive(fb.Collect())
        assert upload is not None
        sync = wire.Sync(wire.fingerprint(wide), bytes(16), sequence, upload)
        assert isinstance(committer.commit([CheckedSync("a", sync, 1)])[0], Answer)
        sent += len(wire.encode(fb.Download(upload.statistics, sequence)))
        with store.lock("m") as locked:
            parts = locked.past.parts("a")
        kept = sum(len(each.data) for each in parts)
        whole, loose = len(store.state("m")[1]) + 100, LOOSE * sent / sequence
        assert kept <= min(sent, 2 * whole + loose)  # what was folded, and what came since
    with store.lock("m") as locked:
        assert undo.forget_agent(locked, "a") == undo.Forgotten(8 * LOOSE, 0)


@each_recipe
@pytest.mark.parametrize("by_agent", [False, True])
def test_a_rollback_is_the_snapshot_again_under_a_higher_version(
    recipe: fb.Recipe, by_agent: bool
) -> None:
    model = Model(recipe, replace(OFTEN, by_agent=by_agent))
    states = {}
    for sequence in range(1, 6):
        for agent in "abc":
            states[model.server().version] = model.server().statistics
            model.send(agent, sequence)
    with model.locked() as locked:
        middle = locked.past.snapshots()[2].version
        undo.roll_back(locked, middle)
        assert max(each.version for each in locked.past.snapshots()) == middle
    server = model.server()
    assert server.version == 16
    expected = wire.encode(fb.Download(states[middle], 16))
    assert wire.encode(server.whole()) == expected
    for sequence in range(1, 6):  # every copy of what was acknowledged is still one
        for agent in "abc":
            answer = model.send(agent, sequence)
            assert isinstance(answer, Answer)
            assert not answer.merged
    assert wire.encode(model.server().whole()) == expected
    assert isinstance(model.send("a", 6), Answer)
    assert model.server().version == 17
    if by_agent:
        order = [(agent, sequence) for sequence in range(1, 6) for agent in "abc"][:middle]
        with model.locked() as locked:
            undo.forget_agent(locked, "b")
        check_holds_just(model, [*(each for each in order if each[0] != "b"), ("a", 6)])


@each_recipe
def test_a_span_is_taken_out_for_all_agents(recipe: fb.Recipe) -> None:
    model = Model(recipe, OFTEN)
    order = [(agent, sequence) for sequence in range(1, 8) for agent in "abc"]
    for agent, sequence in order:
        model.send(agent, sequence)
    with model.locked() as locked:
        after, upto = (locked.past.snapshots()[i].version for i in (1, 3))
        assert undo.forget_span(locked, after=after, upto=upto) == 5 * (upto - after)
    check_holds_just(model, order[:after] + order[upto:])
    with model.locked() as locked, pytest.raises(UnknownName):
        undo.forget_span(locked, after=after + 1 if after + 1 != upto else after + 2, upto=22)


def test_what_came_before_parts_were_kept_is_told() -> None:
    model = Model(RECIPES["FSCLB"], replace(OFTEN, by_agent=False))
    for agent in "ab":
        model.send(agent, 1)
    with model.locked() as locked, pytest.raises(DataError, match="--keep-parts"):
        undo.forget_agent(locked, "a")
    with model.locked() as locked:
        undo.set_history(locked, OFTEN)
    for agent in "ab":
        model.send(agent, 2)
    with model.locked() as locked:
        assert undo.forget_agent(locked, "a") == undo.Forgotten(5, 5)
        with pytest.raises(UnknownName):
            undo.forget_agent(locked, "nobody")
    check_holds_just(model, [("a", 1), ("b", 1), ("b", 2)])
    with model.locked() as locked:
        undo.roll_back(locked, 1)  # from before parts were kept
    model.send("b", 3)
    with model.locked() as locked:
        assert undo.forget_agent(locked, "b").observations == 5
    check_holds_just(model, [("a", 1)])
    with model.locked() as locked:
        undo.set_history(locked, replace(OFTEN, by_agent=False))
        assert [*locked.past.all_parts()] == []


def test_parts_stay_few() -> None:
    model = Model(RECIPES["FSCLB"], OFTEN)
    for sequence in range(1, 60):
        model.send("a", sequence)
        with model.locked() as locked:
            assert len(locked.past.parts("a")) <= OFTEN.keep + 2 + 2 * LOOSE
            assert len(locked.past.snapshots()) <= OFTEN.keep
    check_holds_just(model, [*model.sent])


def test_of_an_agent_in_quarantine_nothing_is_merged_until_it_is_released() -> None:
    model = Model(RECIPES["FedLinUCB"], History())
    model.send("a", 1)
    for agent in "ab":
        with model.locked() as locked:
            undo.quarantine(locked, agent)
        outcome = model.send(agent, 2)
        assert isinstance(outcome, Refusal)
        assert outcome.status == 403
    copy = model.send("a", 1)
    assert isinstance(copy, Answer)  # it was merged, and may know it
    with model.locked() as locked:
        undo.quarantine(locked, "a", on=False)
    assert isinstance(model.send("a", 2), Answer)
    check_holds_just(model, [("a", 1), ("a", 2)])


def test_copies_are_answered_with_the_same_bytes_until_something_changes() -> None:
    model = Model(RECIPES["FedLinUCB"], History())
    model.send("a", 1)
    first, second = model.send("a", 1), model.send("a", 1)
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert second.download is first.download
    model.send("b", 1)
    third = model.send("a", 1)
    assert isinstance(third, Answer)
    assert third.download != first.download


def test_a_file_brings_parts_along() -> None:
    model = Model(RECIPES["lean"], OFTEN)
    for sequence in range(1, 12):
        for agent in "ab":
            model.send(agent, sequence)
    archive = read_archive(archive_bytes(model.store.archive("m")), name="other")
    model.store.install(archive)
    with model.store.lock("other") as locked:
        assert undo.forget_agent(locked, "a").observations == 55
        assert locked.model.count == 55


def test_snapshots_lie_close_together_lately_and_reach_back_far() -> None:
    history, kept = History(every=1.0, keep=12), list[Snapshot]()
    for now in range(5000):
        kept.append(Snapshot(now, 0, float(now), 10))
        gone = superfluous(kept, history, now=float(now))
        kept = [each for each in kept if each.version not in gone]
    ages = [4999 - each.version for each in kept]
    assert len(kept) == 12
    assert ages[0] == 4999
    assert ages[-1] == 0
    assert ages[-2] <= 2
    assert all(older <= 5 * newer + 5 for older, newer in pairwise(ages))


def test_large_states_are_kept_less_often() -> None:
    big = [Snapshot(i, 0, float(i), 2**27) for i in range(6)]
    assert len(superfluous(big, History(), now=6.0)) == 4
    huge = [Snapshot(i, 0, float(i), 2**30) for i in range(3)]
    assert superfluous(huge, History(), now=3.0) == [0, 1]


def test_what_a_forgotten_agent_told_of_shadow_mode_is_gone_too() -> None:
    model = Model(RECIPES["FSCLB"], OFTEN)
    model.send("a", 1)
    with model.locked() as locked:
        known = locked.merged_uploads(["a"])
        told = {"a": structs.replace(known["a"], shadow=wire.ShadowSums(5))}
        version, count = locked.model.version, locked.model.count
        locked.write(state=locked.state(), version=version, count=count, merged=told)
    assert model.store.shadows("m") == [wire.ShadowSums(5)]
    with model.locked() as locked:
        undo.forget_agent(locked, "a")
    assert model.store.shadows("m") == []


@pytest.mark.parametrize("undone", ["rollback", "span", "agent"])
def test_what_was_taken_out_makes_no_room_for_the_next_liar(undone: str) -> None:
    """Shares are of what is left: a lie of a million times the mass does not void the quota."""
    recipe = fb.FedLinUCB(dimension=D, agents=3)
    model = Model(recipe, replace(OFTEN, every=1e9))
    life = iter(range(1, 10**6))

    def send(agent: str, length: float, count: int = 100) -> Outcome:
        matrix = count / D * length**2 * np.eye(D)
        upload = fb.Upload(0, fb.Statistics(fb.Gram(matrix), np.zeros(D), count))
        fresh = next(life)
        lives = model.store.merged_uploads("m", agent).known
        sync = wire.Sync(wire.fingerprint(recipe), bytes([fresh]) * 16, 1, upload, lives)
        return model.committer.commit([CheckedSync(agent, sync, 100)])[0]

    for agent in "abc" * 4:
        send(agent, 1.0)
    with model.locked() as locked:
        locked.past.take_snapshot(0.0)
        before = locked.model.version
    send("liar", 1e3, 9_000)
    with model.locked() as locked:
        if undone == "rollback":
            undo.roll_back(locked, before)
        elif undone == "span":
            undo.forget_span(locked, after=before, upto=before + 1)
        else:
            undo.forget_agent(locked, "liar")
    with model.locked() as locked:
        quotas = Quotas(share=0.4)
        locked.set_rules(limits=locked.model.limits, quotas=quotas, history=locked.model.history)
    next_one = send("next", 2.0, 1_000)
    assert isinstance(next_one, Refusal)
    assert next_one.field == "quota"
    assert model.store.model("m").mass == pytest.approx(1200.0)
    assert isinstance(send("a", 1.0), Answer)  # who held a third still may hold more
    if undone != "agent":
        assert isinstance(send("liar", 1.0), Refusal)
