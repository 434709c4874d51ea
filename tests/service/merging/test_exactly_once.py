"""Whatever is sent again, late, out of order, together or across a restart counts once.

The literal model: the uploads merged, in the order that the answers say. The stored state must be,
bit for bit, what the core's server holds after receiving them, those of one batch together.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.merging.commit import Committer
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import Answer, Outcome
from fedbandit.service.models.model import Served
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, merged, sync_for
from tests.service.replay import receive_together
from tests.service.running import client_of, make_model, overwrite, post, stored

AGENTS = ("a", "b", "c")


class Interleavings(RuleBasedStateMachine):
    """Agents upload, retry and send copies; the coordinator is restarted now and then."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.mkdtemp()
        self.url = f"sqlite:///{Path(self.place) / 'store.db'}"
        make_model(self.url, "news", RECIPE)
        self.sent: list[tuple[str, wire.Sync]] = []
        self.last: dict[tuple[str, int], int] = {}
        self.merged: dict[int, fb.Upload] = {}
        self.versions: dict[tuple[str, bytes, int], int] = {}
        self._start()

    def teardown(self) -> None:
        self.running.__exit__(None, None, None)
        shutil.rmtree(self.place)

    def _start(self) -> None:
        self.running: Any = client_of(self.url)
        self.client: TestClient = self.running.__enter__()

    @rule(agent=st.sampled_from(AGENTS), life=st.integers(0, 2), seed=st.integers(0, 99))
    def upload(self, agent: str, life: int, seed: int) -> None:
        sequence = self.last.get((agent, life), 0) + 1
        self.last[agent, life] = sequence
        sync = sync_for(RECIPE, seed, life=life, sequence=sequence)
        self.sent.append((agent, sync))
        answer = post(self.client, sync, agent=agent)
        assert answer.merged
        assert answer.version == len(self.merged) + 1
        self.merged[answer.version] = sync.upload
        self.versions[agent, sync.life, sequence] = answer.version

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_a_copy(self, data: st.DataObject) -> None:
        agent, sync = data.draw(st.sampled_from(self.sent))
        answer = post(self.client, sync, agent=agent)
        assert not answer.merged
        assert answer.version in (self.versions[agent, sync.life, sync.sequence], 0)
        assert answer.download.version == len(self.merged)

    @rule()
    def restart(self) -> None:
        self.running.__exit__(None, None, None)
        self._start()

    @invariant()
    def the_state_is_the_merge_in_order(self) -> None:
        if hasattr(self, "merged"):
            server = merged(RECIPE, [self.merged[place] for place in sorted(self.merged)])
            assert wire.encode(stored(self.url)) == wire.encode(server.download())


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[tuple[str, wire.Sync]]]]:
    """Batches for two coordinators, full of copies, in any order."""
    pool: list[tuple[str, wire.Sync]] = []
    last: dict[tuple[str, int], int] = {}
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        batch: list[tuple[str, wire.Sync]] = []
        for _ in range(draw(st.integers(1, 6))):
            copied: bool = draw(st.booleans())
            if pool and copied:
                batch.append(draw(st.sampled_from(pool)))
                continue
            agent, life = draw(st.sampled_from(AGENTS)), draw(st.integers(0, 1))
            last[agent, life] = last.get((agent, life), 0) + 1
            sync = sync_for(RECIPE, len(pool), life=life, sequence=last[agent, life])
            pool.append((agent, sync))
            batch.append(pool[-1])
        batches.append((draw(st.integers(0, 1)), batch))
    return batches


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 20), ("postgres", 6)])
def test_two_coordinators_and_batches_full_of_copies(
    kind: str, examples: int, request: pytest.FixtureRequest
) -> None:
    new_url = request.getfixturevalue(f"{kind}_url")

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(histories())
    def law(history: list[tuple[int, list[tuple[str, wire.Sync]]]]) -> None:
        url = new_url()
        make_model(url, "news", RECIPE)
        stores = [open_store(url), open_store(url)]
        served = Served(stores[0].model("news"), RECIPE)
        coordinators = [Committer(store, served) for store in stores]
        seen: dict[tuple[str, bytes], int] = {}
        server, uploads = RECIPE.server(), 0
        for who, batch in history:
            fresh: list[fb.Upload] = []
            outcomes = coordinators[who].commit([CheckedSync(a, s, 100) for a, s in batch])
            for (agent, sync), outcome in zip(batch, outcomes, strict=True):
                assert isinstance(outcome, Answer)
                answer = wire.decode_synced(outcome.body)
                new = sync.sequence > seen.get((agent, sync.life), 0)
                assert answer.merged == outcome.merged == new
                if new:
                    seen[agent, sync.life] = sync.sequence
                    fresh.append(sync.upload)
                    assert answer.version == uploads + len(fresh)
            receive_together(server, fresh)
            uploads += len(fresh)
            assert wire.encode(answer.download) == wire.encode(server.download())
        assert wire.encode(stored(url)) == wire.encode(server.download())
        told = stores[0].archive("news").merged
        assert sum(each.uploads for each in told.values()) == uploads
        for store in stores:
            store.close()

    law()


def _statuses(outcomes: list[Outcome]) -> list[int]:
    return [200 if isinstance(each, Answer) else each.status for each in outcomes]


def test_one_bad_upload_in_a_batch_harms_no_other(store_url: str) -> None:
    make_model(store_url, "news", RECIPE)
    store = open_store(store_url)
    committer = Committer(store, Served(store.model("news"), RECIPE))
    good, bad = sync_for(RECIPE, 1), sync_for(RECIPE, 2, life=1, born=7)
    other = sync_for(RECIPE, 3, life=2)
    outcomes = committer.commit([CheckedSync("a", each, 10) for each in (good, bad, other)])
    assert _statuses(outcomes) == [200, 422, 200]
    store.close()
    server = RECIPE.server()
    receive_together(server, [good.upload, other.upload])
    assert wire.encode(stored(store_url)) == wire.encode(server.download())


def test_one_unreadable_agent_in_a_batch_harms_no_other(store_url: str) -> None:
    make_model(store_url, "news", RECIPE)
    store = open_store(store_url)
    committer = Committer(store, Served(store.model("news"), RECIPE))
    committer.commit([CheckedSync("b", sync_for(RECIPE, 1), 10)])
    overwrite(store_url, "UPDATE agents SET lives = ?", b"\xc1")
    batch = [CheckedSync(agent, sync_for(RECIPE, 2, sequence=2), 10) for agent in AGENTS]
    assert _statuses(committer.commit(batch)) == [200, 503, 200]
    store.close()
    uploads = [sync_for(RECIPE, seed).upload for seed in (1, 2, 2)]
    assert wire.encode(stored(store_url)) == wire.encode(merged(RECIPE, uploads).download())


def test_no_count_is_too_large_to_be_stored(sqlite_url: Any) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    store = open_store(url)
    served = Served(store.model("news"), RECIPE)
    good = sync_for(RECIPE, 1).upload
    uploads = [
        fb.Upload(0, fb.Statistics(good.summary, good.moment, count)) for count in (2**62, 2**62, 5)
    ]
    syncs = [wire.Sync("0" * 16, bytes(16), n, each) for n, each in enumerate(uploads, 1)]
    outcomes = Committer(store, served).commit([CheckedSync("a", each, 10) for each in syncs])
    assert _statuses(outcomes) == [200, 422, 200]
    assert store.model("news").count == 2**62 + 5
    store.close()


def test_a_batch_that_could_not_be_committed_never_was(sqlite_url: Any) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    store = open_store(url)
    committer = Committer(store, Served(store.model("news"), RECIPE))
    committer.commit([CheckedSync("a", sync_for(RECIPE, 1), 10)])
    unprintable = CheckedSync("a\ud800", sync_for(RECIPE, 2, sequence=2), 10)  # in a database
    with pytest.raises(UnicodeEncodeError):
        committer.commit([CheckedSync("a", sync_for(RECIPE, 3, sequence=2), 10), unprintable])
    (outcome,) = committer.commit([CheckedSync("a", sync_for(RECIPE, 3, sequence=2), 10)])
    assert isinstance(outcome, Answer)
    assert outcome.merged
    uploads = [sync_for(RECIPE, seed).upload for seed in (1, 3)]
    assert wire.encode(stored(url)) == wire.encode(merged(RECIPE, uploads).download())
    store.close()
