"""Uploads that are sound one by one never merge into a state that is not."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.contract import Summary
from fedbandit.core.memory.summary import sketch_of
from fedbandit.core.memory.triangle import Triangle
from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging import commit
from fedbandit.service.merging.commit import Committer
from fedbandit.service.merging.merge import merge
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import Answer
from fedbandit.service.models.model import Served
from fedbandit.service.refusal import Refusal
from fedbandit.service.storage.contract import Archive, Store
from fedbandit.service.storage.opening import open_store
from fedbandit.service.validation.upload import check_summary
from tests.service.made_uploads import GRAM, RECIPE, TRIANGLE, merged, sync_for, upload_for
from tests.service.running import BODY, client_of, make_model, post, stored, sync_path

FLAT = fb.FedLinUCB(dimension=2, agents=1)
EDGE = fb.Gram(np.array([[1.0, 1 + 1e-9], [1 + 1e-9, 1.0]]) * 2.0**66)


def _short_rows(scale: float) -> list[Summary]:
    turns = (
        np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0] for seed in (1, 2)
    )
    return [fb.Sketch(turn[:2] * scale, 0.0, 3) for turn in turns]


@pytest.mark.parametrize(
    ("recipe", "summaries"),
    [(FLAT, [EDGE] * 3), (RECIPE, _short_rows(1e-158)), (RECIPE, _short_rows(3e-160))],
)
def test_what_would_brick_a_model_is_undone(
    sqlite_url: Callable[[], str], recipe: fb.Recipe, summaries: list[Summary]
) -> None:
    """Past the door, as it were: the merge itself has to notice."""
    url = sqlite_url()
    make_model(url, "news", recipe)
    store = open_store(url)
    committer = Committer(store, Served(store.model("news"), recipe))
    uploads = [
        fb.Upload(0, fb.Statistics(each, np.zeros(recipe.dimension), 10**9)) for each in summaries
    ]
    syncs = [wire.Sync("0" * 16, bytes(16), n, each) for n, each in enumerate(uploads, 1)]
    outcomes = [committer.commit([CheckedSync("a", sync, 10)])[0] for sync in syncs]
    store.close()
    refused = [each for each in outcomes if isinstance(each, Refusal)]
    assert {each.status for each in refused} == {422}
    assert all("summary" in each.field for each in refused)
    taken = [up for up, each in zip(uploads, outcomes, strict=True) if isinstance(each, Answer)]
    assert wire.encode(stored(url)) == wire.encode(merged(recipe, taken).download())
    server_at(recipe, wire.encode(stored(url)))  # a restart takes it
    recipe.agent(0).receive(stored(url))  # and so does an agent


def test_a_batch_whose_sum_is_not_sound_is_merged_in_parts(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", FLAT)
    store = open_store(url)
    committer = Committer(store, Served(store.model("news"), FLAT))
    edges = [fb.Upload(0, fb.Statistics(EDGE, np.zeros(2), 10**9))] * 3
    uploads = [upload_for(FLAT, 1), *edges, upload_for(FLAT, 2)]
    syncs = [wire.Sync("0" * 16, bytes(16), n, each) for n, each in enumerate(uploads, 1)]
    posted = [CheckedSync("a", sync, 10) for sync in (*syncs, syncs[0])]
    outcomes = committer.commit(posted)
    store.close()
    assert any(isinstance(each, Refusal) and each.status == 422 for each in outcomes)
    answers = [wire.decode_synced(each.body) for each in outcomes if isinstance(each, Answer)]
    assert [each.version for each in answers if each.merged] == list(range(1, len(answers)))
    assert not answers[-1].merged
    assert {each.download.version for each in answers} == {len(answers) - 1}  # the last one's
    taken = [u for u, each in zip(uploads, outcomes, strict=False) if isinstance(each, Answer)]
    assert wire.encode(stored(url)) == wire.encode(merged(FLAT, taken).download())


def test_one_that_cannot_be_merged_costs_the_others_of_its_batch_a_few_transactions(
    sqlite_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each half by itself, and so on; and the state is not read again."""
    url = sqlite_url()
    make_model(url, "news", FLAT)
    store = open_store(url)
    committer = Committer(store, Served(store.model("news"), FLAT))
    wrong = fb.Gram(1e6 * np.array([[1.0, 2.0], [2.0, 1.0]]))
    uploads = [upload_for(FLAT, seed) for seed in range(33)]
    first = wire.Sync("0" * 16, bytes(16), 1, uploads[0])
    committer.commit([CheckedSync("b", first, 10)])
    uploads[20] = fb.Upload(0, fb.Statistics(wrong, np.zeros(2), 1))
    syncs = [wire.Sync("0" * 16, bytes(16), n, each) for n, each in enumerate(uploads[1:], 1)]
    transactions, lock = count(), store.lock
    monkeypatch.setattr(store, "lock", lambda name: lock(name) if next(transactions) >= 0 else None)
    monkeypatch.setattr(commit, "server_at", None)
    outcomes = committer.commit([CheckedSync("a", sync, 10) for sync in syncs])
    store.close()
    at_fault = [number for number, each in enumerate(outcomes) if isinstance(each, Refusal)]
    assert at_fault == [19]
    assert next(transactions) == 2 * 5 + 1  # of 32, and of both halves of what holds it
    taken = [each for each in uploads if each.statistics.summary is not wrong]
    assert stored(url).version == len(taken) == 32
    np.testing.assert_allclose(stored(url).moment, merged(FLAT, taken).moment)


@settings(max_examples=50, deadline=None)
@given(seeds=st.lists(st.integers(0, 99), min_size=2, max_size=9), ahead=st.integers(0, 3))
def test_uploads_merged_together_keep_the_promise_of_a_sketch_and_shed_no_more(
    seeds: list[int], ahead: int
) -> None:
    """X^T X lies between S^T S and S^T S + shed I."""
    recipe = fb.FSCLB(dimension=6, sketch_size=4, agents=1)
    rngs = [np.random.default_rng(seed) for seed in (*range(100, 100 + ahead), *seeds)]
    arms = [rng.standard_normal((3, 6)) for rng in rngs]
    uploads = [
        fb.Upload(0, fb.Statistics(sketch_of(each, shed=0.0, size=4), each[0], 3)) for each in arms
    ]
    together, apart = recipe.server(), recipe.server()
    for upload in uploads[:ahead]:
        merge(recipe, together, [upload])
    merge(recipe, together, uploads[ahead:])
    for upload in uploads:
        apart.receive(upload)
    sketch, other = together.summary, apart.summary
    assert isinstance(sketch, fb.Sketch)
    assert isinstance(other, fb.Sketch)
    rest = np.vstack(arms).T @ np.vstack(arms) - sketch.rows.T @ sketch.rows
    values = np.linalg.eigvalsh(rest)
    assert values[0] >= -1e-9
    assert values[-1] <= sketch.shed + 1e-9
    assert sketch.shed <= other.shed + 1e-9
    np.testing.assert_array_equal(together.moment, apart.moment)
    assert (together.count, together.version) == (apart.count, apart.version)


def test_a_bricking_upload_gets_a_4xx_and_the_next_one_is_merged(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", FLAT)
    with client_of(url) as client:
        for sequence in (1, 2, 3):
            sync = wire.Sync(
                wire.fingerprint(FLAT),
                bytes(16),
                sequence,
                fb.Upload(0, fb.Statistics(EDGE, np.zeros(2), 10**9)),
            )
            answer = client.post(sync_path(), content=wire.encode_sync(sync), headers=BODY)
            assert answer.status_code in (200, 422)
        post(client, sync_for(FLAT, 1, life=1))
    with client_of(url) as client:  # after a restart too
        post(client, sync_for(FLAT, 2, life=2))
    FLAT.agent(0).receive(stored(url))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), recipe=st.sampled_from([RECIPE, GRAM, TRIANGLE]))
def test_a_merge_that_is_refused_changes_nothing_and_others_leave_a_sound_state(
    data: st.DataObject, recipe: fb.Recipe
) -> None:
    server = recipe.server()
    scales = st.sampled_from([0.0, 1e-160, 1e-158, 1e-154, 1e-150, 1.0, 1e60, 1e74, 1e76, 1e154])
    for seed in range(data.draw(st.integers(1, 5))):
        upload = _scaled(upload_for(recipe, seed), data.draw(scales))
        before = wire.encode(server.download())
        if (field := _refused(recipe, server, upload)) is not None:
            assert field.startswith("upload.")
            assert wire.encode(server.download()) == before
        server_at(recipe, wire.encode(server.download()))


def _refused(recipe: fb.Recipe, server: fb.Server, upload: fb.Upload) -> str | None:
    try:
        with np.errstate(all="ignore"):
            check_summary(recipe, upload.statistics)
        merge(recipe, server, [upload])
    except InvalidMessage as error:
        return error.field
    return None


def _scaled(upload: fb.Upload, scale: float) -> fb.Upload:
    summary: fb.Sketch | fb.Gram | Triangle
    with np.errstate(all="ignore"):
        match upload.summary:
            case fb.Sketch(rows, _, size):
                summary = fb.Sketch(rows * scale, 0.0, size)
            case Triangle(width, diagonal, codes, raised, shed):
                summary = Triangle(width, scale * diagonal, codes, raised, scale * shed)
            case _:
                matrix = np.asarray(GRAM.parts.memory.pack(upload.summary)["matrix"])
                summary = fb.Gram(matrix * scale)
        return fb.Upload(0, fb.Statistics(summary, upload.moment * scale, upload.count))


def test_a_moment_that_overflows_is_undone() -> None:
    server, upload = RECIPE.server(), upload_for(RECIPE, 1)
    huge = fb.Upload(0, fb.Statistics(upload.summary, np.full(4, 1e308), 6))
    merge(RECIPE, server, [huge])
    before = wire.encode(server.download())
    with pytest.raises(InvalidMessage) as caught:
        merge(RECIPE, server, [huge])
    assert caught.value.field == "upload.moment"
    assert wire.encode(server.download()) == before


def test_two_histories_of_one_version_are_told_apart(tmp_path: Path) -> None:
    """A backup is restored under one coordinator that goes on; another one merges meanwhile."""
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"
    make_model(url, "news", RECIPE)
    store = open_store(url)
    first, served = sync_for(RECIPE, 1), Served(store.model("news"), RECIPE)
    backup = store.archive("news")
    survivor = Committer(store, served)
    survivor.commit([CheckedSync("a", first, 10)])
    _restore(store, backup)
    second, third = sync_for(RECIPE, 2, life=2), sync_for(RECIPE, 3, life=3)
    Committer(store, served).commit([CheckedSync("b", second, 10)])
    assert store.model("news").version == 1  # as the survivor remembers it
    survivor.commit([CheckedSync("c", third, 10)])
    store.close()
    expected = merged(RECIPE, [second.upload, third.upload])
    assert wire.encode(stored(url)) == wire.encode(expected.download())


def _restore(store: Store, backup: Archive) -> None:
    store.delete("news")
    store.install(backup)
