"""Merging in another process: what is asked is answered once, whatever becomes of that process."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.errors import InvalidState, StoreError, UnknownName
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.link import (
    Question,
    framed_question,
    framed_reply,
    questions,
    replies,
)
from fedbandit.service.merging.queue import Batch
from fedbandit.service.merging.supervisor import FIRST_PAUSE, WorkerMerger
from fedbandit.service.merging.sync import (
    Answer,
    MergeFailed,
    ModelGone,
    ModelRef,
    SyncMerger,
    SyncRequest,
)
from fedbandit.service.merging.threads import ThreadMerger
from fedbandit.service.merging.worker import reply_to
from fedbandit.service.refusal import Refusal
from fedbandit.service.storage.contract import Model, Store
from fedbandit.service.storage.opening import open_store
from tests.client.faults import eventually
from tests.service.made_uploads import GRAM, RECIPE, merged, sync_for
from tests.service.running import (
    BODY,
    Process,
    make_model,
    metric,
    start,
    stored,
    sync_path,
    unwritable,
)


def _request(sync: wire.Sync, agent: str = "a") -> SyncRequest:
    return SyncRequest(agent, wire.encode_sync(sync))


# What is said ----------------------------------------------------------------------------------

answers = st.builds(
    Answer, st.binary(max_size=9), st.sampled_from([b"one" * 9, b"two"]), st.booleans()
)
statuses = st.sampled_from([HTTPStatus(code) for code in (400, 401, 409, 410, 422)])
refusals = st.builds(Refusal, statuses, st.text(), st.text(), closes=st.booleans())


@given(st.lists(answers | refusals))
def test_outcomes_come_back_as_they_were(outcomes: list[Any]) -> None:
    back = _sent(outcomes)
    for one, other in zip(outcomes, back, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Answer):
            assert (one.body, one.merged) == (other.body, other.merged)
        else:
            assert (one.status, one.field, str(one)) == (other.status, other.field, str(other))
            assert one.status is other.status
            assert one.response().raw_headers == other.response().raw_headers


def test_a_download_is_sent_once_for_all_its_answers() -> None:
    download = bytes(10**6)
    outcomes = [Answer(head, download, merged=True) for head in (b"one", b"two", b"three")]
    assert len(framed_reply(outcomes)) < 1_001_000


def _sent(message: Any) -> Any:
    """Return what the other process is told."""
    (received,) = replies().received(framed_reply(message))
    return received


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 200)))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    sent = b"".join(framed_reply(message) for message in messages)
    frames = replies()
    assert [each for piece in _cut(sent, cuts) for each in frames.received(piece)] == messages


requests = st.builds(
    SyncRequest, st.text(), st.binary(max_size=200), st.none() | st.binary(max_size=32)
)
asked = st.builds(
    Question,
    st.integers(1, 2**63),
    st.none() | st.text(),
    st.none() | st.builds(ModelRef, st.text(), st.text()),
    st.none() | requests,
)


@given(st.lists(asked), st.lists(st.integers(0, 400)))
def test_questions_arrive_whole_and_in_order_however_they_are_cut(
    some: list[Question], cuts: list[int]
) -> None:
    sent = b"".join(framed_question(each) for each in some)
    frames = questions()
    came = [each for piece in _cut(sent, cuts) for each in frames.received(piece)]
    assert msgspec.to_builtins(came) == msgspec.to_builtins(some)


def _cut(sent: bytes, cuts: list[int]) -> list[bytes]:
    """Return bytes in pieces, which end at some places."""
    places = sorted(min(cut, len(sent)) for cut in cuts)
    return [sent[start:end] for start, end in zip([0, *places], [*places, len(sent)], strict=True)]


class _Broken:
    """A store of which no model can be read."""

    writers = 1

    def __init__(self, error: Exception) -> None:
        self._error = error

    def model(self, _: str) -> Model:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelGone(), ModelGone),
        (UnknownName("gone"), ModelGone),
        (StoreError("full"), StoreError),
        (InvalidState("broken"), StoreError),
        (ZeroDivisionError("a secret"), MergeFailed),
    ],
)
def test_failures_come_back_as_what_they_mean(error: Exception, kind: type[Exception]) -> None:
    merger = StoreMerger(cast(Store, _Broken(error)))
    back = _sent(reply_to(Batch(ModelRef("news", "1"), [SyncRequest("a", b"")], [1]), merger))
    assert type(back) is kind
    assert "secret" not in str(back)


# What becomes of it ----------------------------------------------------------------------------


@pytest.fixture(params=["threads", "process"])
def play(request: pytest.FixtureRequest, store_url: str) -> Callable[..., Any]:
    """Return what runs a play with a queue of either kind, on either store."""

    def run(acts: Callable[[SyncMerger, Store], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            store = open_store(store_url)
            threads = ThreadMerger(store)
            process = WorkerMerger(store_url)
            merger = threads if request.param == "threads" else process
            try:
                return await acts(merger, store)
            finally:
                assert await threads.stop(30.0)
                assert await process.stop(30.0)
                store.close()

        return asyncio.run(whole())

    make_model(store_url, "news", RECIPE)
    make_model(store_url, "shop", GRAM)
    return run


def _ref(store: Store, model: str = "news") -> ModelRef:
    return ModelRef(model, store.model(model).incarnation)


def test_many_at_once_are_merged_once_each_in_an_order(
    play: Callable[..., Any], store_url: str
) -> None:
    syncs = {f"agent-{n}": sync_for(RECIPE, n) for n in range(30)}

    async def acts(merger: SyncMerger, store: Store) -> list[Answer]:
        where = _ref(store)
        asked = [merger.take(where, _request(sync, agent)) for agent, sync in syncs.items()]
        shop = merger.take(_ref(store, "shop"), _request(sync_for(GRAM, 5)))
        *answers, _ = await asyncio.gather(*asked, shop)
        assert 0 < merger.batches["news"] <= len(syncs)
        return answers

    answers = [wire.decode_synced(each.body) for each in play(acts)]
    assert sorted(each.version for each in answers) == list(range(1, len(syncs) + 1))
    assert all(each.merged for each in answers)
    assert stored(store_url).count == sum(sync.upload.count for sync in syncs.values())


def test_what_is_refused_is_told_apart_from_what_is_not(play: Callable[..., Any]) -> None:
    async def acts(merger: SyncMerger, store: Store) -> None:
        where = _ref(store)
        bodies = [wire.encode_sync(sync_for(RECIPE, 1)), b"noise", b""]
        asked = [merger.take(where, SyncRequest(f"a{n}", body)) for n, body in enumerate(bodies)]
        good, *bad = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(good, Answer)
        assert all(isinstance(each, Refusal) and each.status == 422 for each in bad)

    play(acts)


def test_a_model_that_is_gone_or_another_one_says_so(play: Callable[..., Any]) -> None:
    async def acts(merger: SyncMerger, store: Store) -> None:
        request = _request(sync_for(RECIPE, 1))
        for ref in (ModelRef("news", "of another time"), ModelRef("nowhere", "x")):
            with pytest.raises(ModelGone):
                await merger.take(ref, request)
        assert (await merger.take(_ref(store), request)).merged

    play(acts)


def test_one_who_does_not_wait_for_the_answer_keeps_nobody_from_theirs(
    play: Callable[..., Any],
) -> None:
    async def acts(merger: SyncMerger, store: Store) -> None:
        where = _ref(store)
        asked = [
            asyncio.create_task(merger.take(where, _request(sync_for(RECIPE, n), f"agent-{n}")))
            for n in range(6)
        ]
        await asyncio.sleep(0)
        asked[2].cancel()
        for number, task in enumerate(asked):
            if number != 2:
                assert (await task).merged

    play(acts)


def test_it_says_whether_it_could_merge_now(play: Callable[..., Any], store_url: str) -> None:
    async def acts(merger: SyncMerger, _: Store) -> None:
        await asyncio.gather(merger.check(30.0), merger.check(30.0))
        with unwritable(store_url), pytest.raises(StoreError, match=r"no answer for 0\.2 seconds"):
            await merger.check(0.2)
        await merger.check(30.0)

    play(acts)


def test_one_that_hangs_could_not(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    before = set(_children())

    async def acts() -> None:
        merger = WorkerMerger(url)
        await merger.check(30.0)
        (worker,) = set(_children()) - before
        os.kill(worker, signal.SIGSTOP)
        with pytest.raises(StoreError, match=r"no answer for 0\.2 seconds"):
            await merger.check(0.2)
        os.kill(worker, signal.SIGCONT)
        await merger.check(30.0)
        assert await merger.stop(30.0)

    asyncio.run(acts())


# When the process ends -------------------------------------------------------------------------


def _children() -> list[int]:
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(pid) for each in found for pid in each.read_text().split()]


def test_another_one_is_started_when_it_was_killed(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    before = set(_children())

    async def acts() -> None:
        merger, store = WorkerMerger(url), open_store(url)
        where = _ref(store)
        await merger.check(30.0)
        (worker,) = set(_children()) - before
        with store.lock("news"):  # so that it waits with the upload in its hands
            asked = asyncio.create_task(merger.take(where, _request(sync_for(RECIPE, 1))))
            await asyncio.sleep(0.2)
            os.kill(worker, signal.SIGKILL)
            with pytest.raises(StoreError, match="merge worker exited"):
                await asked
        assert (await merger.take(where, _request(sync_for(RECIPE, 1)))).merged
        assert await merger.stop(30.0)
        store.close()

    asyncio.run(acts())
    assert set(_children()) <= before
    assert wire.encode(stored(url)) == wire.encode(
        merged(RECIPE, [sync_for(RECIPE, 1).upload]).download()
    )


def test_a_store_that_cannot_be_opened_is_what_it_says_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "import atexit, os, time; os.dup(0); "
    slow += "atexit.register(time.sleep, 30)"
    (tmp_path / "sitecustomize.py").write_text(slow)  # takes its time to end, connected
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    before = set(_children())

    async def acts() -> None:
        merger = WorkerMerger(f"sqlite:///{tmp_path / 'none.db'}")
        for pause in (0.0, FIRST_PAUSE):  # sooner than that it would not try again
            await asyncio.sleep(pause)
            with pytest.raises(StoreError, match="no such file"):
                await merger.check(30.0)
        assert await merger.stop(30.0)

    asyncio.run(acts())
    assert set(_children()) <= before
    gc.collect()  # so that a connection left open is noticed here, not in another test


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_for_the_whole_group_are_for_the_coordinator_alone(
    sqlite_url: Callable[[], str], number: int
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    process = start(url, "--open")
    worker = process.worker
    for pid in (worker, process.process.pid):
        os.kill(pid, number)
    assert process.process.wait(30) == 0
    process.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}/stat").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_lies_in_the_working_directory_is_none_of_its_modules(
    sqlite_url: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    for name in ("secrets.py", "numpy.py", "fedbandit.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from here')")
    monkeypatch.chdir(tmp_path)

    async def acts() -> None:
        merger = WorkerMerger(url)
        await merger.check(30.0)
        assert await merger.stop(30.0)

    asyncio.run(acts())


@contextmanager
def _starting(url: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a coordinator; yield it and its worker before either is ready."""
    command = [sys.executable, "-m", "fedbandit.cli", "serve", "--open"]
    process = subprocess.Popen(
        [*command, "--store", url, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    worker = Process(process, "").worker
    while b"fedbandit.service.merging.worker" not in Path(f"/proc/{worker}/cmdline").read_bytes():
        time.sleep(0.001)  # until then its parent waits for it, whatever it is told
    try:
        yield process, worker
    finally:
        process.kill()
        with suppress(ProcessLookupError):  # one that is stopped would keep the pipes open
            os.kill(worker, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_while_it_starts_it_ends_quietly(
    sqlite_url: Callable[[], str], number: int
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with _starting(url) as (process, _):
        os.killpg(process.pid, number)
        said, complained = process.communicate(timeout=60)
        assert (process.returncode, said, complained) == (0, "", "")


def test_a_worker_that_is_killed_while_it_starts_is_started_again(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with _starting(url) as (process, worker):
        os.kill(worker, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("fedbandit: serving at ")


def test_a_worker_that_hangs_does_not_outlive_a_coordinator_that_is_killed(
    sqlite_url: Callable[[], str],
) -> None:
    """It might go on later, and write into a store that was restored meanwhile."""
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    process = start(url, "--open")
    worker = process.worker
    os.kill(worker, signal.SIGSTOP)
    process.process.kill()
    try:
        assert eventually(lambda: not _runs(worker))
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        process.kill()


def _runs(pid: int) -> bool:
    """Return whether a process exists, and is not just waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_told_to_stop_while_the_worker_hangs_at_its_start_it_ends(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with _starting(url) as (process, worker):
        os.kill(worker, signal.SIGSTOP)
        time.sleep(0.5)
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.chaos
def test_stopping_is_bounded_with_a_worker_that_hangs_and_much_to_send(
    sqlite_url: Callable[[], str],
) -> None:
    url, recipe = sqlite_url(), fb.FedLinUCB(dimension=300, agents=1)
    make_model(url, "news", recipe)
    process = start(url, "--open")
    os.kill(process.worker, signal.SIGSTOP)
    body = wire.encode_sync(sync_for(recipe, 1))
    senders = [
        threading.Thread(target=_post_in_vain, args=(process.address, f"a{n}", body))
        for n in range(6)
    ]
    for sender in senders:
        sender.start()
    while metric(process, "fedbandit_waiting") < len(senders):
        time.sleep(0.01)
    process.process.terminate()
    assert process.process.wait(12) == 0
    for sender in senders:
        sender.join(30)
    process.kill()


def _post_in_vain(address: str, agent: str, body: bytes) -> None:
    request = urllib.request.Request(address + sync_path(agent=agent), body, BODY)
    with suppress(OSError):
        urllib.request.urlopen(request, timeout=30).close()


def test_it_ends_with_its_coordinator(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    process = start(url, "--open")
    worker = process.worker
    process.kill()  # waits for the worker
    assert not Path(f"/proc/{worker}/stat").exists()
    assert isinstance(stored(url), fb.Download)
