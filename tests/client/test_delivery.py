"""Everything observed reaches the coordinator once, whatever the network does meanwhile."""

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import open_state
from fedbandit.client.delivery.background import Backoff
from fedbandit.client.state.agent_state import AgentState
from fedbandit.client.state.directory import Identity
from fedbandit.client.state.journal import split
from fedbandit.client.state.learner import Learner
from fedbandit.client.state.refused_uploads import KEPT as KEPT_REFUSED
from fedbandit.client.state.refused_uploads import RefusedUploads
from fedbandit.client.transport import HttpTransport
from fedbandit.errors import InvalidArms, Unreachable
from fedbandit.service.bookkeeping.deduplication import KEPT, MergedUploads
from fedbandit.service.models.model import new_model
from fedbandit.service.private import private_coordinator
from fedbandit.service.storage.opening import open_store
from tests.client.recipes import each_of, recipes
from tests.client.twin import PATIENT, WHO, Twin, joined_to
from tests.service.running import make_model, stored

D = 60
RECIPES = recipes(D)
every_recipe = each_of(RECIPES)
WORLD = fb.worlds.Synthetic(dimension=6, arms=5, agents=3, seed=4)
SMALL = {
    "FSCLB": fb.FSCLB(dimension=6, sketch_size=3, agents=3),
    "FSCLB, buffered": fb.FSCLB(dimension=6, sketch_size=3, agents=3, cadence="buffered"),
    "FedLinUCB": fb.FedLinUCB(dimension=6, agents=3),
}


def play(agent: ConnectedAgent, first: int, last: int) -> None:
    """Play arm i once and be paid 1, for every i: a moment counts how often each was taken in."""
    for i in range(first, last):
        agent.reward(agent.decide(np.eye(D)[i : i + 1]).id, 1.0)


def counted(n: int) -> list[float]:
    return [1.0] * n + [0.0] * (D - n)


@pytest.mark.parametrize("recipe", SMALL.values(), ids=SMALL)
def test_in_step_with_the_simulation(recipe: fb.Recipe) -> None:
    rounds = 250
    trace = fb.simulate(recipe, WORLD, rounds=rounds)
    twin, arms, uploads = Twin(recipe), [], []
    agents = [joined_to(twin, who=Identity(model="m", agent=f"a{i}")) for i in range(3)]
    for this in WORLD.rounds(rounds):
        agent = agents[this.agent]
        decision = agent.decide(this.arms)
        agent.reward(decision.id, float(this.rewards[decision.index]))
        assert agent.sync()
        arms.append(decision.index)
        uploads.append(twin.server.version)
    assert_array_equal(arms, trace.arm)
    assert_array_equal(uploads, trace.uploads)
    assert uploads[-1] > 20
    for agent in agents:
        agent.close()


@every_recipe
def test_a_lost_answer_is_asked_for_again_and_merged_once(recipe: fb.Recipe) -> None:
    twin = Twin(recipe)
    with joined_to(twin) as agent:
        for i in range(0, 40, 4):
            twin.deaf = i % 8 == 0
            play(agent, i, i + 4)
            agent.sync(timeout=0.02)
        twin.deaf = False
        assert agent.sync(everything=True)
        assert agent.status().undelivered == agent.status().pending == 0
    assert_array_equal(twin.server.moment, counted(40))
    assert twin.server.count == 40


@every_recipe
def test_a_long_time_offline_costs_bounded_memory_and_is_caught_up_with(recipe: fb.Recipe) -> None:
    twin, learner = Twin(recipe), Learner.fresh(recipe, bytes(16))
    for arm in np.eye(D):
        learner.observe(arm, 1.0)
        assert len(learner.outbox.waiting) <= 1
    with joined_to(twin) as agent:
        twin.down = True
        play(agent, 0, D)
        assert agent.status().undelivered + agent.status().pending == D
        assert not agent.sync(timeout=0.05)
        assert agent.status().trouble == "down"
        twin.down = False
        assert agent.sync(everything=True)
        assert agent.status().trouble is None
        assert twin.server.version <= 3
    assert_array_equal(twin.server.moment, counted(D))


def test_offline_an_agent_learns_from_what_it_could_not_send() -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        twin.down = True
        good, arms = 3, np.eye(D)[:8]
        for _ in range(60):
            decision = agent.decide(arms)
            agent.reward(decision.id, 1.0 if decision.index == good else -1.0)
        decision = agent.decide(arms)
        assert decision.index == good
        assert decision.mean[good] > 0.5 > 0.0 > decision.mean[0]
        twin.down = False


def test_what_came_in_between_is_kept_apart_from_what_is_in_flight() -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        twin.deaf = True
        play(agent, 0, 10)
        agent.sync(timeout=0.01)
        twin.down = True
        play(agent, 10, 20)
        twin.down = twin.deaf = False
        play(agent, 20, 30)
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, counted(30))


def test_after_an_answer_it_still_decides_on_what_waits() -> None:
    twin = Twin(RECIPES["FSCLB"])
    agent = joined_to(twin)
    twin.down = True
    play(agent, 0, 4)
    agent.sync(timeout=0.02)
    play(agent, 10, 14)
    before = agent.status().undelivered
    twin.down, twin.down_after = False, 1  # what is in flight is merged, and nothing else
    assert not agent.sync(timeout=0.1)
    assert 0 < twin.server.count < before
    assert agent.status().undelivered == before - twin.server.count
    assert twin.server.moment[0] == 1.0
    assert twin.server.moment[10:].max() == 0.0
    assert agent.decide(np.eye(D)[:1]).mean[0] > 0.1
    assert agent.decide(np.eye(D)[10:11]).mean[0] > 0.1
    agent.close(timeout=0.01)


def test_two_agents_learn_from_each_other() -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as one, joined_to(twin) as other:
        play(one, 0, 10)
        assert one.sync(everything=True)
        play(other, 20, 22)
        assert other.sync(everything=True)
        assert other.decide(np.eye(D)[:1]).mean[0] > 0.2
    assert twin.server.count == 12


def test_a_state_brought_back_from_a_copy_swallows_one_upload_at_most(tmp_path: Path) -> None:
    twin, place, copied = Twin(RECIPES["FSCLB"]), tmp_path / "state", tmp_path / "copy"
    with joined_to(twin, state_dir=place) as agent:
        play(agent, 0, 1)
        agent.sync(everything=True)
    shutil.copytree(place, copied)
    with joined_to(twin, state_dir=place) as agent:
        for i in range(1, 28, 3):
            play(agent, i, i + 3)
            agent.sync(everything=True)
    with joined_to(twin, state_dir=copied) as agent:
        play(agent, 30, 32)
        agent.sync(everything=True)
        play(agent, 40, 50)
        agent.sync(everything=True)
    assert_array_equal(twin.server.moment[40:50], np.ones(10))
    assert len(twin.ledger.lives) == 2


def forgotten(twin: Twin) -> MergedUploads:
    """Return the ledger once eight other lives have come and uploaded."""
    ledger = twin.ledger
    for life in range(KEPT):
        version = twin.server.version + life
        ledger = ledger.noting(bytes([life] * 16), born=ledger.known, sequence=1, version=version)
    return ledger


@pytest.mark.parametrize("unsure", [False, True])
def test_a_life_that_was_forgotten_goes_on_as_another(unsure: bool) -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        play(agent, 0, 3)
        assert agent.sync(everything=True)
        twin.deaf = unsure  # the answer is lost, so nobody can tell whether it was merged
        if unsure:
            play(agent, 3, 6)
            agent.sync(everything=True, timeout=0.05)
        twin.deaf = False
        twin.ledger = forgotten(twin)
        play(agent, 6, 12)
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment[[0, 1, 2, *range(6, 12)]], np.ones(9))
    assert twin.server.moment.max() == 1.0


@every_recipe
@pytest.mark.parametrize("born", [0, 2])
def test_a_coordinator_that_was_set_back_is_followed(recipe: fb.Recipe, born: int) -> None:
    twin = Twin(recipe)
    for life in range(born):
        twin.ledger = twin.ledger.noting(bytes([life] * 16), born=life, sequence=1, version=0)
    with joined_to(twin) as agent:
        for i in range(0, 30, 3):
            play(agent, i, i + 3)
            assert agent.sync(everything=True)
        before = agent.status().version
        assert before >= 10
        twin.server, twin.ledger = recipe.server(), MergedUploads()  # to before everything
        play(agent, 30, 36)
        assert agent.sync(everything=True)
        assert agent.status().version == twin.server.version < before
        assert_array_equal(twin.server.moment, [0.0] * 30 + [1.0] * 6 + [0.0] * (D - 36))
        assert agent.decide(np.eye(D)[:1]).mean[0] == 0.0
        assert agent.decide(np.eye(D)[30:31]).mean[0] > 0.0
        play(agent, 36, 40)
        assert agent.sync(everything=True)
    assert_array_equal(twin.server.moment, [0.0] * 30 + [1.0] * 10 + [0.0] * (D - 40))


def test_another_recipe_is_trouble_and_nothing_is_dropped() -> None:
    recipe = RECIPES["FSCLB"]
    twin = Twin(recipe)
    twin.fingerprint = "0" * 16
    with joined_to(twin, recipe=recipe) as agent:
        play(agent, 0, 2)
        assert not agent.sync(everything=True, timeout=0.2)
        assert "made anew" in str(agent.status().trouble)
        twin.fingerprint = wire.fingerprint(recipe)
        assert agent.sync()
    assert twin.server.count == 2


@pytest.mark.parametrize("error", [ZeroDivisionError("odd"), OSError("odd"), UnicodeError("odd")])
def test_whatever_goes_wrong_the_thread_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        twin.error = error
        play(agent, 0, 3)
        for _ in range(3):
            assert not agent.sync(everything=True, timeout=0.05)
        assert agent.status().trouble == f"{type(error).__name__}: odd"
        traces = [record for record in caplog.records if record.exc_info]
        assert [record.levelno for record in traces] == [logging.ERROR]  # told once
        twin.error = None
        assert agent.sync(everything=True)
        assert agent.status().trouble is None
    assert_array_equal(twin.server.moment, counted(3))


def test_trouble_while_tending_does_not_keep_uploads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:

        def fail(state: AgentState) -> None:
            raise ZeroDivisionError(f"odd {state.who}")

        monkeypatch.setattr(AgentState, "rewrite_journal_if_needed", fail)
        play(agent, 0, 3)
        assert agent.sync(everything=True)
        assert agent.status().trouble == "ZeroDivisionError: odd news/phone-7"
    assert twin.server.count == 3


def test_an_answer_to_another_upload_acknowledges_nothing() -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        play(agent, 0, 3)
        assert agent.sync(everything=True)
        before, twin.beside = agent.status(), -1
        play(agent, 3, 6)
        assert not agent.sync(everything=True, timeout=0.05)
        number = twin.sequence
        told = f"got one to upload {number - 1}; expected one to upload {number}"
        assert told in str(agent.status().trouble)
        assert agent.status().undelivered == 3
        assert agent.status().version == before.version
        twin.beside = 0
        assert agent.sync()
    assert_array_equal(twin.server.moment, counted(6))


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(("status", "field"), [(422, "upload.summary"), (413, "body")])
def test_an_upload_that_is_refused_for_what_is_in_it_does_not_hold_up_the_next(
    tmp_path: Path, on_disk: bool, status: int, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    twin, place = Twin(RECIPES["FSCLB"]), tmp_path if on_disk else None
    with joined_to(twin, state_dir=place) as agent:
        twin.refuse, twin.status = field, status
        play(agent, 0, 3)
        assert agent.sync(everything=True)
        twin.refuse = None
        assert agent.decide(np.eye(D)[:1]).mean[0] > 0.1  # it still knows what it saw
        play(agent, 3, 6)
        assert agent.sync(everything=True)
        how = agent.status()
        assert (how.undelivered, how.pending, how.trouble) == (0, 0, None)
    told = [record for record in caplog.records if "set aside" in record.message]
    assert len(told) == how.set_aside > 0
    assert_array_equal(twin.server.moment, [0.0] * 3 + [1.0] * 3 + [0.0] * (D - 6))
    if on_disk:
        files = [split(each.read_bytes())[0] for each in (tmp_path / "refused").iterdir()]
        uploads = [wire.decode(data) for (data,) in files]
        moments = [upload.moment for upload in uploads if isinstance(upload, fb.Upload)]
        assert_array_equal(np.sum(moments, axis=0), counted(3))
        with joined_to(twin, state_dir=place) as agent:
            assert agent.status().set_aside == len(files) == how.set_aside


def test_a_model_made_anew_that_takes_less_is_trouble_and_nothing_is_set_aside() -> None:
    """What is too large for another recipe is refused for its size before it is looked at."""
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        right, twin.fingerprint = twin.fingerprint, "0" * 16
        twin.refuse, twin.status = "body", 413
        play(agent, 0, 3)
        assert not agent.sync(everything=True, timeout=0.1)
        assert "made anew" in str(agent.status().trouble)
        assert (agent.status().set_aside, agent.status().undelivered) == (0, 3)
        twin.fingerprint, twin.refuse = right, None
        assert agent.sync()
    assert_array_equal(twin.server.moment, counted(3))


def test_the_real_coordinators_model_made_anew_and_smaller(sqlite_url: Callable[[], str]) -> None:
    store, large = sqlite_url(), fb.FSCLB(dimension=D, sketch_size=30, agents=3, alpha=1e9)
    with (
        private_coordinator(store, model="news", recipe=large) as url,
        fb.connect(url, model="news", agent="phone-7") as agent,
    ):
        opened = open_store(store)
        opened.delete("news")
        opened.create(*new_model("news", fb.FSCLB(dimension=D, sketch_size=2, agents=3)))
        opened.close()
        play(agent, 0, 25)  # one upload, ten times as large as any of the new model
        deadline = time.monotonic() + 30.0
        while "made anew" not in str(agent.status().trouble):
            assert time.monotonic() < deadline
            agent.sync(everything=True, timeout=0.1)
        assert (agent.status().set_aside, agent.status().undelivered) == (0, 25)
        agent.close(timeout=0.1)
    assert stored(store).version == 0


def test_a_proxy_that_lets_too_little_through_can_be_mended() -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        twin.refuse, twin.status = "", 413  # no field: it is not the coordinator who says so
        play(agent, 0, 3)
        assert not agent.sync(everything=True, timeout=0.1)
        assert "413" in str(agent.status().trouble)
        assert agent.status().set_aside == 0
        twin.refuse = None
        assert agent.sync()
    assert_array_equal(twin.server.moment, counted(3))


def test_of_what_is_set_aside_the_newest_is_kept(tmp_path: Path) -> None:
    directory, more = tmp_path / "refused", 3
    refused = RefusedUploads(directory)
    for number in range(KEPT_REFUSED + more):
        refused.add(numbered(number))
        refused.add(numbered(number))  # again, after a crash say
    assert (refused.count, refused.deleted) == (KEPT_REFUSED + more, more)
    found = [wire.decode(split(each.read_bytes())[0][0]) for each in directory.iterdir()]
    kept = sorted(each.count for each in found if isinstance(each, fb.Upload))
    assert kept == list(range(more + 1, KEPT_REFUSED + more + 1))
    assert (RefusedUploads(directory).count, RefusedUploads(directory).deleted) == (KEPT_REFUSED, 0)


def numbered(number: int) -> fb.Upload:
    return fb.Upload(0, fb.Statistics(fb.Gram(np.eye(2) * number), np.zeros(2), number + 1))


@pytest.mark.parametrize("field", ["sequence", "token", "uploads"])
def test_other_refusals_are_not_about_the_upload(field: str) -> None:
    twin = Twin(RECIPES["FSCLB"])
    with joined_to(twin) as agent:
        twin.refuse = field
        play(agent, 0, 3)
        assert not agent.sync(everything=True, timeout=0.05)
        assert agent.status().set_aside == 0
        twin.refuse = None
        assert agent.sync()
    assert_array_equal(twin.server.moment, counted(3))


class Cable:
    """A transport to a coordinator that can be pulled out."""

    def __init__(self, url: str) -> None:
        self._over = HttpTransport(url, model="news", agent="phone-7", token=None, timeout=5.0)
        self.out = True

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        if self.out:
            raise Unreachable("out")
        return self._over.exchange(path, body)

    def close(self) -> None:
        self._over.close()


LIMITED = {
    "arm": wire.Limits(arm_norm=2.0, reward=100.0, count=100),
    "reward": wire.Limits(arm_norm=5.0, reward=2.0, count=100),
    "count": wire.Limits(arm_norm=100.0, reward=100.0, count=2),
}


@every_recipe
@pytest.mark.parametrize("limits", LIMITED.values(), ids=LIMITED)
def test_limits_learned_late_hold_for_what_was_observed_before(
    recipe: fb.Recipe, limits: wire.Limits, sqlite_url: Callable[[], str]
) -> None:
    store = sqlite_url()
    make_model(store, "news", recipe, limits=limits)
    with private_coordinator(store, model="news", recipe=recipe) as url:
        cable = Cable(url)
        state = open_state(cable, WHO, recipe=recipe, waiting=PATIENT)
        with ConnectedAgent(state, cable) as agent:
            for i in range(9):  # too long, too much or too many
                agent.reward(agent.decide(5.0 * np.eye(D)[i : i + 1]).id, 7.0)
            assert not agent.sync(timeout=0.02)
            cable.out = False
            agent.sync()
            play(agent, 9, 15)
            assert agent.sync(everything=True)
            assert agent.status().set_aside >= 1
            assert agent.status().trouble is None
    assert_array_equal(stored(store).moment[9:], counted(15)[9:])


@pytest.mark.parametrize("longer", [0.0, 4e-11])
def test_arms_scaled_to_the_longest_that_may_be_are_taken_here_and_there(
    sqlite_url: Callable[[], str], longer: float
) -> None:
    store, n = sqlite_url(), 200
    limits = wire.Limits(arm_norm=1.0, reward=1.0, count=1000)
    make_model(store, "news", RECIPES["FSCLB"], limits=limits)
    arms = np.random.default_rng(3).standard_normal((n, D))
    arms *= (1.0 + longer) / np.linalg.norm(arms, axis=1, keepdims=True)
    assert any(arm @ arm > 1.0 for arm in arms)
    with (
        private_coordinator(store, model="news", recipe=RECIPES["FSCLB"]) as url,
        fb.connect(url, model="news", agent="phone-7") as agent,
    ):
        for arm in arms:
            agent.reward(agent.decide([arm]).id, 1.0)
        assert agent.sync(everything=True)
        assert agent.status().set_aside == 0
        with pytest.raises(InvalidArms):
            agent.decide([arms[0] * (1.0 + 1e-9)])
    assert stored(store).count == n


@every_recipe
def test_joined_uploads_stand_for_both(recipe: fb.Recipe) -> None:
    recipe = fb.RECIPES[recipe.name](**recipe.params | {"alpha": 1e9})

    def upload(first: int, last: int) -> fb.Upload:
        agent = recipe.agent(0)
        for i in range(first, last):
            agent.observe(np.eye(D)[i], 2.0)
        made = agent.receive(fb.Collect())
        assert made is not None
        return made

    both = recipe.agent(0).combined(upload(0, 2), upload(2, 3))
    assert_array_equal(both.moment, 2 * np.array(counted(3)))
    assert both.count == 3
    decoded, server = wire.decode(wire.encode(both)), recipe.server()
    assert isinstance(decoded, fb.Upload)
    server.receive(decoded)
    assert server.count == 3


def test_backoff_grows_and_is_bounded_and_does_as_asked() -> None:
    latest = Backoff(first=0.5, longest=60.0, uniform=lambda: 1.0)
    assert [latest.after_failure() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert latest.after_failure(least=100.0) == 160.0
    latest.reset()
    assert latest.after_failure() == 0.5
    for _ in range(5000):
        assert latest.after_failure() <= 60.0
    assert Backoff(uniform=lambda: 0.0).after_failure() == 0.0
