"""A coordinator that goes on from a backup is followed, whatever number it has reached since."""

import shutil
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.state.directory import Identity
from fedbandit.client.state.learner import Learner
from fedbandit.client.state.records import Learned, decode_all, encode
from fedbandit.service.private import private_coordinator
from tests.client.recipes import each_of, recipes
from tests.client.twin import Twin, joined_to

D = 24
RECIPES = recipes(D) | {"FSCLB.lean": fb.FSCLB.lean(dimension=D, agents=3)}
every_recipe = each_of(RECIPES)
OTHER = Identity(model="news", agent="phone-8")


def play(agent: ConnectedAgent, *arms: int) -> None:
    for i in arms:
        agent.reward(agent.decide(np.eye(D)[i : i + 1]).id, 1.0)


def deliver(agent: ConnectedAgent, *arms: int) -> None:
    play(agent, *arms)
    assert agent.sync(everything=True)


def backup(twin: Twin) -> fb.Server:
    return fb.Server.restore(twin.recipe, twin.server.state())


def decides_like_a_newcomer(agent: ConnectedAgent, twin: Twin) -> bool:
    with joined_to(twin, who=Identity(model="news", agent="newcomer")) as newcomer:
        old, new = agent.decide(np.eye(D)), newcomer.decide(np.eye(D))
    return np.array_equal(old.mean, new.mean) and np.array_equal(old.bonus, new.bonus)


@every_recipe
def test_an_agent_that_starts_again_takes_the_other_state_of_the_same_version(
    tmp_path: Path, recipe: fb.Recipe
) -> None:
    twin = Twin(recipe)
    with joined_to(twin, state_dir=tmp_path) as agent:
        deliver(agent, 0, 1)
        saved, ledger = backup(twin), twin.ledger
        deliver(agent, 2, 3)
        before = agent.status().version
    twin.server, twin.ledger = saved, ledger
    with joined_to(twin, who=OTHER) as other:
        deliver(other, 4, 5)
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync()
        assert agent.status().version == twin.server.version == before
        assert decides_like_a_newcomer(agent, twin)


@every_recipe
def test_an_answer_with_the_other_state_of_the_same_version_is_taken(recipe: fb.Recipe) -> None:
    twin = Twin(recipe)
    with joined_to(twin) as agent:
        deliver(agent, 0, 1)
        saved = backup(twin)
        deliver(agent, 2, 3)
        before = twin.server.version
        twin.server = saved
        deliver(agent, 4, 5)
        assert agent.status().version == twin.server.version == before
        assert decides_like_a_newcomer(agent, twin)
    assert_array_equal(np.flatnonzero(twin.server.moment > 0.5), [0, 1, 4, 5])


@every_recipe
def test_what_is_not_delivered_is_kept(tmp_path: Path, recipe: fb.Recipe) -> None:
    twin = Twin(recipe)
    with joined_to(twin, state_dir=tmp_path) as agent:
        deliver(agent, 0, 1)
        saved, ledger = backup(twin), twin.ledger
        deliver(agent, 2, 3)
        twin.down = True
        play(agent, 6, 7, 8)
        agent.close(timeout=0.01)
    twin.down, twin.server, twin.ledger = False, saved, ledger
    with joined_to(twin, who=OTHER) as other:
        deliver(other, 4, 5)
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync(everything=True)
        assert agent.status().pending == agent.status().undelivered == 0
    assert_array_equal(np.flatnonzero(twin.server.moment > 0.5), [0, 1, 4, 5, 6, 7, 8])


@every_recipe
def test_who_is_up_to_date_downloads_nothing_after_a_restart(
    tmp_path: Path, recipe: fb.Recipe
) -> None:
    twin = Twin(recipe)
    with joined_to(twin, state_dir=tmp_path) as agent:
        deliver(agent, *range(9))
    with joined_to(twin, state_dir=tmp_path) as agent:
        before = agent.decide(np.eye(D))
        assert agent.sync()
        assert agent.status().bytes_down < 1000 < 8 * D * D
        assert_array_equal(agent.decide(np.eye(D)).mean, before.mean)
    assert twin.requests[-1] == wire.state_path(wire.digest(twin.server.download()))


def test_a_record_without_a_digest_is_read_and_asks_for_a_download() -> None:
    learner = Learner.fresh(RECIPES["FSCLB"], bytes(16))
    learner.digest = "0" * 64
    fields = msgspec.msgpack.decode(encode(learner.saved()))
    before = fields[: fields.index(learner.digest)]  # and without what was added after it
    (read,) = decode_all([msgspec.msgpack.encode(before)])
    assert isinstance(read, Learned)
    assert Learner.restore(learner.recipe, read).digest == ""


def test_a_real_coordinators_file_put_back(tmp_path: Path) -> None:
    recipe, file, copy = RECIPES["FSCLB.lean"], tmp_path / "c.db", tmp_path / "copy.db"
    serving = partial(private_coordinator, f"sqlite:///{file}", model="news", recipe=recipe)
    connect = partial(fb.connect, model="news", agent="a", state_dir=tmp_path / "a")
    with serving() as url, connect(url) as agent:
        deliver(agent, 0, 1)
    shutil.copy(file, copy)
    with serving() as url, connect(url) as agent:
        deliver(agent, 2, 3)
        version, given_up = agent.status().version, agent.decide(np.eye(D))
    shutil.copy(copy, file)
    with serving() as url:
        with fb.connect(url, model="news", agent="b") as other:
            deliver(other, 4, 5)
            expected = other.decide(np.eye(D))
        with connect(url) as agent:
            assert agent.sync()
            assert agent.status().version == version
            assert_array_equal(agent.decide(np.eye(D)).mean, expected.mean)
    assert not np.array_equal(given_up.mean, expected.mean)
