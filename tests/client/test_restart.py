"""An agent that starts again goes on where it was, and a full disk is told to who must know."""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Lock, Thread

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import open_state
from fedbandit.client.decisions import REMEMBERED
from fedbandit.client.state.agent_state import Waiting
from fedbandit.client.state.decision_log import DecisionLog
from fedbandit.client.state.directory import Identity
from fedbandit.client.state.journal import Journal, read, split
from fedbandit.client.state.records import OPENING, Learned, Record, Rewarded, decode_all, encode
from fedbandit.errors import Closed, InvalidState, OutputError, SettledDecision
from tests.client.faults import abandon, abandon_state, disk_full_at, eventually, stop_thread
from tests.client.recipes import each_of, recipes
from tests.client.twin import PATIENT, WHO, Twin, joined_to, state_of

D = 24
RECIPES = recipes(D)
every_recipe = each_of(RECIPES)
SKETCHED = RECIPES["FSCLB"]


def pay(agent: ConnectedAgent, *arms: int) -> None:
    for i in arms:
        agent.reward(agent.decide(np.eye(D)[i : i + 1]).id, 1.0)


@every_recipe
@pytest.mark.parametrize("killed", [False, True])
def test_everything_is_there_after_a_restart(
    tmp_path: Path, recipe: fb.Recipe, killed: bool
) -> None:
    twin = Twin(recipe)
    twin.down, agent = True, joined_to(twin, recipe=recipe, state_dir=tmp_path)
    pay(agent, *range(10))
    early = agent.decide(np.eye(D)[20:21])
    for i in range(5):
        before = agent.decide(np.eye(D)), agent.status()
        if killed:
            abandon(agent)
        else:
            agent.close(timeout=0.01)
        agent = joined_to(twin, state_dir=tmp_path)
        after = agent.decide(np.eye(D)), agent.status()
        assert after[1].open == 2 + 2 * i + 1
        assert after[1].pending + after[1].undelivered == 10
        if before[1].pending == after[1].pending:  # else what was pending became due meanwhile
            assert before[0].index == after[0].index
            assert_array_equal(before[0].mean, after[0].mean)
            assert_array_equal(before[0].bonus, after[0].bonus)
    agent.reward(early.id, 1.0)
    twin.down = False
    assert agent.sync(everything=True)
    agent.close()
    assert_array_equal(twin.server.moment, [1.0] * 10 + [0.0] * 10 + [1.0] + [0.0] * 3)
    with joined_to(twin, state_dir=tmp_path) as agent, pytest.raises(SettledDecision):
        agent.reward(early.id, 1.0)


@every_recipe
def test_a_journal_cut_at_every_byte_loses_its_torn_record_alone(
    tmp_path: Path, recipe: fb.Recipe
) -> None:
    twin = Twin(recipe)
    agent = joined_to(twin, state_dir=tmp_path / "whole")
    twin.deaf = True
    pay(agent, 0, 1, 2)
    assert not agent.sync(timeout=0.05)  # in flight, and merged, but not acknowledged
    pay(agent, 3, 4)
    abandon(agent)
    data = (tmp_path / "whole" / "journal").read_bytes()
    payloads, _ = split(data)
    ends = np.cumsum([8 + len(payload) for payload in payloads])
    first = int(ends[1])
    cuts = sorted({*range(first, len(data), len(data) // 40), *(ends[2:] - 1), *ends[1:]})
    seen = set()
    for cut in map(int, cuts):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        (tmp_path / "cut").mkdir()
        (tmp_path / "cut" / "journal").write_bytes(data[:cut])
        whole = [payloads[i] for i in range(len(ends)) if ends[i] <= cut]
        paid = sum(b"rewarded" in payload[:12] for payload in whole)
        fresh = Twin(recipe)
        with joined_to(fresh, state_dir=tmp_path / "cut") as agent:
            assert agent.sync(everything=True)
        assert_array_equal(fresh.server.moment, [1.0] * paid + [0.0] * (D - paid))
        seen.add(paid)
    assert seen == {0, 1, 2, 3, 4, 5}


def test_what_was_merged_before_the_crash_is_not_merged_again(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    agent = joined_to(twin, state_dir=tmp_path)
    twin.deaf = True
    pay(agent, *range(6))
    agent.sync(timeout=0.05)
    abandon(agent)
    twin.deaf = False
    merged_before = twin.server.count
    assert merged_before > 0
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [1.0] * 6 + [0.0] * (D - 6))


def test_the_journal_does_not_grow_with_history(tmp_path: Path) -> None:
    twin, journal, largest = Twin(SKETCHED), tmp_path / "journal", 0
    with joined_to(twin, state_dir=tmp_path) as agent, journal.open() as first:
        open_still = agent.decide(np.eye(D)[3:4])
        for _ in range(6000):
            pay(agent, 0)
            largest = max(largest, journal.stat().st_size)
        agent.sync()
        assert 2**20 < largest < 2.5e6
        assert eventually(lambda: os.fstat(first.fileno()).st_nlink == 0)  # it was replaced
        agent.reward(open_still.id, 1.0)
        agent.sync(everything=True)
    settled = REMEMBERED * (len(open_still.id) + len("6000"))  # their ids, and nothing else
    assert (tmp_path / "journal").stat().st_size < 20_000 + settled
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal", "lock"]
    assert (twin.server.moment[0], twin.server.moment[3]) == (6000.0, 1.0)


def test_decisions_made_while_the_journal_is_rewritten_are_in_it(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    state = state_of(twin, state_dir=tmp_path)

    def decide_meanwhile() -> Iterable[Record]:
        yield from state.snapshot()
        state.log.decide("meanwhile", np.eye(D)[0], active=True, chosen=True)

    content = read(tmp_path / "journal", opening=OPENING)
    journal = Journal.resume(tmp_path / "journal", content)
    state.log.write_to(journal, decide_meanwhile, hold_again=lambda: None)
    state.log.rewrite()
    abandon_state(state)
    with joined_to(twin, state_dir=tmp_path) as agent:
        agent.reward("meanwhile", 1.0)


def test_a_decision_pushed_out_at_the_last_moment_is_not_paid_in_memory_alone(
    tmp_path: Path,
) -> None:
    twin = Twin(SKETCHED)
    state = state_of(twin, state_dir=tmp_path, max_open=1)
    state.log.decide("first", np.eye(D)[0], active=True, chosen=True)
    oldest = state.log.oldest()
    assert oldest is not None
    assert oldest[0] == "first"
    state.log.decide("second", np.eye(D)[1], active=True, chosen=True)  # between looking and paying
    before = (tmp_path / "journal").read_bytes()
    with pytest.raises(SettledDecision):
        state.log.reward("first", 1.0)
    assert (tmp_path / "journal").read_bytes() == before
    state.reward("second", 1.0)
    abandon_state(state)
    with joined_to(twin, state_dir=tmp_path, max_open=1) as agent:
        agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [0.0, 1.0] + [0.0] * (D - 2))


def _deleted(place: Path) -> None:
    shutil.rmtree(place)


def _moved(place: Path) -> None:
    place.rename(place.with_name("elsewhere"))


def _replaced(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()
    (place / "journal").write_bytes(b"")


def _without_its_journal(place: Path) -> None:
    (place / "journal").unlink()


@pytest.mark.parametrize("lose", [_deleted, _moved, _replaced, _without_its_journal])
def test_a_directory_that_is_lost_while_the_agent_runs_is_made_again(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    twin, place = Twin(SKETCHED), tmp_path / "state"
    agent = joined_to(twin, state_dir=place)
    stop_thread(agent)  # it would notice by itself
    pay(agent, 0)
    waiting = agent.decide(np.eye(D)[1:2])
    lose(place)
    assert not agent.status().saved
    pay(agent, 2, 3)
    assert agent.status().saved
    abandon(agent)
    with joined_to(twin, state_dir=place) as agent:
        agent.reward(waiting.id, 1.0)
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [1.0] * 4 + [0.0] * (D - 4))


def test_an_agent_that_only_waits_notices_a_lost_directory_too(tmp_path: Path) -> None:
    twin, place = Twin(SKETCHED), tmp_path / "state"
    with joined_to(twin, state_dir=place) as agent:
        pay(agent, 0)
        shutil.rmtree(place)
        agent.sync()
        assert eventually(lambda: agent.status().saved)
        assert (place / "journal").exists()


def test_a_lost_directory_that_another_agent_has_by_now_is_left_to_it(tmp_path: Path) -> None:
    twin, place = Twin(SKETCHED), tmp_path / "state"
    agent = joined_to(twin, state_dir=place)
    stop_thread(agent)
    waiting = agent.decide(np.eye(D)[:1])
    shutil.rmtree(place)
    with joined_to(Twin(SKETCHED), state_dir=place) as other:
        with pytest.raises(OutputError, match="in use"):
            agent.reward(waiting.id, 1.0)
        assert not agent.status().saved
        assert other.status().saved
    agent.reward(waiting.id, 1.0)  # once it is free
    assert agent.status().saved
    abandon(agent)


@pytest.mark.parametrize("room", [0, 20, 200])
def test_trouble_with_the_disk_ends_when_the_disk_is_mended(tmp_path: Path, room: int) -> None:
    twin = Twin(SKETCHED)
    with joined_to(twin, state_dir=tmp_path) as agent:
        with disk_full_at(room):
            agent.decide(np.eye(D))
            assert agent.sync()
            assert eventually(lambda: agent.status().trouble is not None)
            assert not agent.status().saved
        agent.sync()
        assert eventually(lambda: agent.status().saved)
        assert agent.status().trouble is None


def test_a_full_disk_is_told_to_who_gives_the_reward_and_nothing_is_half_counted(
    tmp_path: Path,
) -> None:
    twin = Twin(SKETCHED)
    agent = joined_to(twin, state_dir=tmp_path)
    pay(agent, 0, 1, 2)
    agent.sync()
    early = agent.decide(np.eye(D)[3:4])
    with disk_full_at(1000):
        late = agent.decide(np.eye(D)[4:5])  # deciding goes on
        assert not agent.status().saved
        for _ in range(3):
            with pytest.raises(OutputError, match="nothing was counted"):
                agent.reward(early.id, 1.0)
        assert agent.status().rewards == 3
    agent.reward(early.id, 1.0)
    assert agent.status().saved
    with pytest.raises(SettledDecision):
        agent.reward(early.id, 1.0)
    abandon(agent)
    with joined_to(twin, state_dir=tmp_path) as agent:
        agent.reward(late.id, 1.0)  # it was saved along with the rest
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [1.0] * 5 + [0.0] * (D - 5))


def saved_in_flight(place: Path) -> fb.Upload:
    """Return the upload in flight as the journal has it."""
    records = decode_all(split((place / "journal").read_bytes())[0])
    *_, last = [each for each in records if isinstance(each, Learned)]
    assert last.in_flight is not None
    upload = wire.decode(last.in_flight)
    assert isinstance(upload, fb.Upload)
    return upload


def test_nothing_is_sent_that_is_not_on_the_disk(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    with joined_to(twin, state_dir=tmp_path) as agent:
        twin.down = True
        pay(agent, 0, 1, 2)
        agent.sync(timeout=0.02)
        twin.down = False
        in_flight = saved_in_flight(tmp_path)
        with disk_full_at((tmp_path / "journal").stat().st_size):
            agent.sync(timeout=0.1)
            assert twin.server.count == in_flight.count  # that one was on the disk
            agent.sync(everything=True, timeout=0.1)
            assert twin.server.count == in_flight.count
            assert "disk" in str(agent.status().trouble)
        assert agent.sync(everything=True)
    assert twin.server.count == 3


def test_deferred_and_forgotten_survive_too(tmp_path: Path) -> None:
    twin, waiting = Twin(SKETCHED), Waiting(wait=1.0, default=5.0, clock=lambda: now)
    now = 0.0
    agent = joined_to(twin, state_dir=tmp_path, waiting=waiting)
    for i, name in enumerate(("never", "shown")):
        agent.decide(np.eye(D)[i : i + 1], id=name, defer=True)
    agent.activate("shown")
    abandon(agent)
    agent = joined_to(twin, state_dir=tmp_path, waiting=waiting)
    assert agent.status().open == 2
    now = 1.0
    agent.sync()
    abandon(agent)
    with joined_to(twin, state_dir=tmp_path, waiting=waiting) as agent:
        assert (agent.status().open, agent.status().forgotten) == (0, 0)
        agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [0.0, 5.0] + [0.0] * (D - 2))


def test_one_process_and_one_agent_for_a_directory(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    with (
        joined_to(twin, state_dir=tmp_path),
        pytest.raises(OutputError, match="in use"),
    ):
        joined_to(twin, state_dir=tmp_path)
    with pytest.raises(InvalidState, match="agent 'phone-7' of model 'news'"):
        joined_to(twin, state_dir=tmp_path, who=Identity(model="news", agent="phone-8"))
    with pytest.raises(InvalidState, match="Leave recipe out"):
        joined_to(twin, state_dir=tmp_path, recipe=RECIPES["FedLinUCB"])
    joined_to(twin, state_dir=tmp_path).close()


@pytest.mark.parametrize("data", [b"", b"junk", bytes(100)])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "journal").write_bytes(data)
    with pytest.raises(InvalidState, match="empty state_dir"):
        joined_to(Twin(SKETCHED), state_dir=tmp_path)
    assert (tmp_path / "journal").read_bytes() == data


def left_behind(twin: Twin, place: Path) -> bytes:
    """Return the journal of an agent that was killed."""
    agent = joined_to(twin, state_dir=place)
    twin.down = True
    pay(agent, *range(6))
    agent.decide(np.eye(D))
    abandon(agent)
    twin.down = False
    return (place / "journal").read_bytes()


def test_a_flipped_bit_is_told_and_the_journal_left_alone(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    data = left_behind(twin, tmp_path)
    *lengths, last = np.cumsum([0, *(8 + len(payload) for payload in split(data)[0][:-1])]) + 3
    some = [*range(64), *range(64, last - 3, 97), last + 5, len(data) - 1]
    for place in [*some, *lengths]:  # a length that leads past the end is no torn end either
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        (tmp_path / "journal").write_bytes(damaged)
        with pytest.raises(InvalidState, match="left as it is"):
            joined_to(twin, state_dir=tmp_path)
        assert (tmp_path / "journal").read_bytes() == damaged
    (tmp_path / "journal").write_bytes(data)
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [1.0] * 6 + [0.0] * (D - 6))


def test_a_journal_that_makes_no_sense_is_left_alone_with_its_torn_end(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    data = left_behind(twin, tmp_path)
    journal = Journal.create(tmp_path / "odd", [*split(data)[0], encode(Rewarded("nobody's", 1.0))])
    journal.rename(tmp_path / "journal")
    journal.close()
    data = (tmp_path / "journal").read_bytes() + b"torn"
    (tmp_path / "journal").write_bytes(data)
    with pytest.raises(InvalidState, match="a reward without its decision"):
        joined_to(twin, state_dir=tmp_path)
    with pytest.raises(InvalidState, match="state of agent"):
        joined_to(twin, state_dir=tmp_path, who=Identity(model="news", agent="phone-8"))
    assert (tmp_path / "journal").read_bytes() == data


def test_fewer_may_be_open_after_a_restart_and_no_reward_is_lost(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    agent = joined_to(twin, state_dir=tmp_path)
    twin.down = True
    made = [agent.decide(np.eye(D)[i : i + 1]) for i in range(8)]
    for decision in made[:5]:
        agent.reward(decision.id, 1.0)
    abandon(agent)
    twin.down = False
    with joined_to(twin, state_dir=tmp_path, max_open=2) as agent:
        assert (agent.status().open, agent.status().forgotten) == (2, 1)
        with pytest.raises(SettledDecision):
            agent.reward(made[5].id, 1.0)
        agent.reward(made[7].id, 1.0)
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [1.0] * 5 + [0.0, 0.0, 1.0] + [0.0] * (D - 8))


def test_what_was_pushed_out_stays_out_after_a_restart(tmp_path: Path) -> None:
    twin = Twin(SKETCHED)
    agent = joined_to(twin, state_dir=tmp_path, max_open=2)
    made = [agent.decide(np.eye(D)[i : i + 1]) for i in range(4)]
    agent.reward(made[2].id, 1.0)
    abandon(agent)
    with joined_to(twin, state_dir=tmp_path, max_open=2) as agent:
        assert agent.status().open == 1
        for old in made[:2]:
            with pytest.raises(SettledDecision):
                agent.reward(old.id, 1.0)
        agent.reward(made[3].id, 1.0)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_reward_that_races_with_close_is_counted_or_told(tmp_path: Path, on_disk: bool) -> None:
    twin, place = Twin(SKETCHED), tmp_path if on_disk else None
    agent = joined_to(twin, state_dir=place)
    made = [agent.decide(np.eye(D)[:1]).id for _ in range(4000)]
    paid, barrier = [0] * 4, Barrier(5)

    def give(turn: int) -> None:
        barrier.wait()
        with suppress(Closed):
            for name in made[turn::4]:
                agent.reward(name, 1.0)
                paid[turn] += 1

    threads = [Thread(target=give, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    barrier.wait()
    agent.close()
    for thread in threads:
        thread.join()
    if on_disk:
        with joined_to(twin, state_dir=tmp_path) as agent:
            assert agent.sync(everything=True)
    assert twin.server.count == sum(paid)


@pytest.mark.parametrize("on_disk", [False, True])
def test_nothing_gets_in_behind_a_close(tmp_path: Path, on_disk: bool) -> None:
    twin = Twin(SKETCHED)
    state = open_state(twin, WHO, state_dir=tmp_path if on_disk else None, waiting=PATIENT)
    agent = ConnectedAgent(state, twin)
    decision = agent.decide(np.eye(D), defer=True)
    agent.close()
    with pytest.raises(Closed):  # a thread that had looked before it was closed
        state.reward(decision.id, 1.0)
    with pytest.raises(Closed):
        state.log.reward(decision.id, 1.0)
    with pytest.raises(Closed):
        state.log.decide("late", np.eye(D)[0], active=True, chosen=True)
    with pytest.raises(Closed):
        state.log.activate(decision.id)
    assert agent.status().rewards == 0


class Breaking:
    """A lock that is taken just after a deciding thread has found that the disk fails."""

    def __init__(self, log: DecisionLog) -> None:
        self._log, self._lock, self._done = log, Lock(), False

    def __enter__(self) -> None:
        self._lock.acquire()
        if not self._done:
            self._done = self._log._broken = True

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_reward_does_not_follow_a_decision_that_the_disk_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = Twin(SKETCHED)
    state = state_of(twin, state_dir=tmp_path)
    log = state.log
    with disk_full_at(0):
        log.decide("not-written", np.eye(D)[0], active=True, chosen=True)
    log._broken = False  # as it looked to the rewarding thread a moment before
    monkeypatch.setattr(log, "lock", Breaking(log))
    log.reward("not-written", 1.0)
    abandon_state(state)
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync(everything=True)
    assert twin.server.count == 1


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="another state_dir"):
        joined_to(Twin(SKETCHED), state_dir=tmp_path / "file")
