"""Parts stay few however many uploads an agent sends, and together they are what it sent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyGram
from fedbandit.core.statistics import Statistics
from fedbandit.service.bookkeeping.history import LOOSE, History, Part, superfluous
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.commit import Committer
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import Answer
from fedbandit.service.models import undo
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.models.parts import MOST_SINGLE, WHOLE, merged_parts
from tests.testing.memory_store import LockedModel, MemoryStore, Place

HISTORY = History(every=1e12, keep=3, by_agent=True)  # snapshots are taken by hand
SPANS = HISTORY.keep + 1
RECIPES = {
    "FSCLB": fb.FSCLB(dimension=6, sketch_size=4, agents=3, alpha=1e9),
    "FedLinUCB": fb.FedLinUCB(dimension=6, agents=3, alpha=1e9),
    "lean": fb.FSCLB.lean(dimension=24, agents=3, alpha=1e9),
    "wide": fb.FSCLB.lean(dimension=128, agents=3, alpha=1e9),  # 80 uploads fill an empty server
}


class Tiny:
    """A model in a store in memory, and uploads of one observation each."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self.recipe, self.store = recipe, MemoryStore(Place())
        model, state = new_model("m", recipe, history=HISTORY)
        self.store.create(model, state)
        self.committer = Committer(self.store, Served(model, recipe))
        self.grams: dict[str, Array] = {}
        self.moments: dict[str, Array] = {}
        self.counts: dict[str, int] = {}
        self.rng, self.taken = np.random.default_rng(3), 0

    def send(self, agent: str, uploads: int = 1) -> None:
        """Merge some uploads in one transaction."""
        batch = [CheckedSync(agent, self._sync(agent), 100) for _ in range(uploads)]
        assert all(isinstance(each, Answer) for each in self.committer.commit(batch))

    def _sync(self, agent: str) -> wire.Sync:
        arm, sender = self.rng.standard_normal(self.recipe.dimension), self.recipe.agent(0)
        arm /= np.linalg.norm(arm)
        sender.observe(arm, float(self.rng.uniform(-1, 1)))
        upload = sender.receive(fb.Collect())
        assert upload is not None
        none = np.zeros(self.recipe.dimension)
        self.counts[agent] = self.counts.get(agent, 0) + 1
        self.grams[agent] = self.grams.get(agent, np.diag(none)) + np.outer(arm, arm)
        self.moments[agent] = self.moments.get(agent, none) + upload.moment
        fingerprint, life = wire.fingerprint(self.recipe), agent.encode() * 16
        return wire.Sync(fingerprint, life, self.counts[agent], upload)

    def snapshot(self) -> None:
        """Take a snapshot, and drop those that are too many, as a merge does when it is time."""
        self.taken += 1
        with self.store.lock("m") as locked:
            locked.past.take_snapshot(float(self.taken))
            kept = locked.past.snapshots()
            locked.past.drop_snapshots(superfluous(kept, HISTORY, now=float(self.taken)))

    def parts(self, agent: str) -> list[Part]:
        with self.store.lock("m") as locked:
            return locked.past.parts(agent)

    def check_parts(self) -> None:
        """Parts are few, none lies across a snapshot, and they are what each agent sent."""
        with self.store.lock("m") as locked:
            bounds = [each.version for each in locked.past.snapshots()]
        for agent in self.counts:
            parts = self.parts(agent)
            assert not any(each.first <= v < each.last for each in parts for v in bounds)
            assert len(parts) < SPANS * MOST_SINGLE + LOOSE
            assert sum(each.first < each.last for each in parts) <= SPANS
            sum_of = merged_parts(self.recipe, parts.__iter__, lambda _: (WHOLE,))[WHOLE]
            self.check_is_of(sum_of, agent)

    def check_is_of(self, found: Statistics, agent: str) -> None:
        """Statistics are of what an agent sent: their count and moment, a bound on X^T X."""
        summary, gram = found.summary, self.grams[agent]
        assert found.count == self.counts[agent]
        if isinstance(summary, fb.Gram):
            assert_allclose(summary.matrix, gram, atol=1e-12)
        elif isinstance(summary, LossyGram):
            upper = summary.weight * summary.matrix + np.diag(summary.bound) - gram
            assert np.linalg.eigvalsh(upper).min() >= -1e-9
            total = np.trace(summary.matrix) + summary.lost
            assert total == pytest.approx(np.trace(gram), rel=0.01)
        else:
            upper = summary.rows.T @ summary.rows + summary.shed * np.eye(len(gram)) - gram
            assert np.linalg.eigvalsh(upper).min() >= -1e-9
        if not isinstance(summary, LossyGram):
            assert_allclose(found.moment, self.moments[agent], atol=1e-12)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@settings(max_examples=6)
@given(
    hours=st.lists(st.lists(st.integers(1, 30), max_size=9), min_size=1, max_size=9),
    others=st.integers(1, 9),
)
def test_parts_stay_few_and_are_what_was_sent(
    recipe: fb.Recipe, hours: list[list[int]], others: int
) -> None:
    """Uploads come in batches of 1 to 30, with snapshots between: the last are 80 alone."""
    model = Tiny(recipe)
    for batches in [*hours, [1] * 80]:
        model.send("b", others)
        for uploads in batches:
            model.send("a", uploads)
        model.check_parts()
        model.snapshot()
        model.check_parts()
    with model.store.lock("m") as locked:
        assert undo.forget_agent(locked, "a") == undo.Forgotten(model.counts["a"], 0)
    stored, state = model.store.state("m")
    server = server_at(recipe, state)
    assert stored.count == model.counts["b"]
    assert model.parts("a") == []
    model.check_is_of(server.statistics, "b")


def test_old_parts_are_read_once_for_each_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every few uploads: that would take longer with each."""
    model, read = Tiny(RECIPES["wide"]), list[int]()
    found = LockedModel.parts

    def counted(self: LockedModel, agent: str, after: int = 0) -> list[Part]:
        parts = found(self, agent, after)
        read.append(len(parts))
        return parts

    for _ in range(HISTORY.keep):
        for _ in range(60):  # none is folded
            model.send("a")
        model.snapshot()
    assert len(model.parts("a")) == 60 * HISTORY.keep
    monkeypatch.setattr(LockedModel, "parts", counted)
    for _ in range(7 * LOOSE):
        model.send("a")
    assert sum(each > 60 * 2 for each in read) == 1
    assert sum(read) < 60 * HISTORY.keep + LOOSE * (1 + 2 + 3 + 4 + 5 + 6 + 7) + 2 * LOOSE


def test_what_was_folded_is_folded_again_once_there_is_as_much_more() -> None:
    """Not at every few uploads: each time takes an eigenproblem of a whole matrix."""
    model, folds, before = Tiny(RECIPES["wide"]), 0, 0
    for _ in range(4 * MOST_SINGLE):
        model.send("a")
        now = next((each.last for each in model.parts("a") if each.first < each.last), 0)
        folds, before = folds + (now != before), now
    assert folds == 4
