"""What version 1 wrote and said is read, gone on from, and answered.

``written`` holds a store of schema 3 (three models, tokens), the state_dirs of their agents (*near*
was closed; *far* was killed while the coordinator was away), exports and saved states of the core.
All were made by commit 6ea7748; ``facts.json`` says what was in them, and how the core went on.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.transport import HttpTransport
from fedbandit.core.identity import form_1
from fedbandit.errors import Refused, Unreachable
from fedbandit.service.models.archive import read_archive
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Model
from fedbandit.service.storage.opening import open_store

WRITTEN = Path(__file__).parent / "written"
FACTS: dict[str, Any] = json.loads((WRITTEN / "facts.json").read_text())
CORE = {
    "FSCLB": fb.FSCLB(dimension=6, sketch_size=3, agents=2),
    "lean": fb.FSCLB(  # as FSCLB.lean was then
        dimension=12,
        sketch_size="auto",
        agents=2,
        cadence="buffered",
        estimate="corrected",
        wire="int8",
        budget=192,
    ),
    "FedLinUCB": fb.FedLinUCB(dimension=4, agents=2),
    "AsyncLinUCB": fb.AsyncLinUCB(dimension=4, agents=2),
    "Random": fb.Random(dimension=4, agents=2, seed=3),
    "CBSCFD": fb.CBSCFD(dimension=6, sketch_size=3),
}
every_model = pytest.mark.parametrize("model", FACTS["models"])


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WRITTEN, tmp_path / "written"))


def stored(place: Path, model: str) -> Model:
    store = open_store(f"sqlite:///{place}/store.db")
    try:
        return store.model(model)
    finally:
        store.close()


@contextmanager
def serving(place: Path, model: str) -> Iterator[str]:
    url = f"sqlite:///{place}/store.db"
    recipe = fb.FSCLB(dimension=6, sketch_size=3, agents=1)  # not used: the models are there
    with private_coordinator(url, model=model, recipe=recipe, settings=Settings()) as address:
        yield address


def agent_of(address: str, place: Path, model: str, who: str) -> fb.ConnectedAgent:
    token = FACTS["tokens"][f"{model}/{who}"]
    state_dir = place / f"{model}-{who}"
    return fb.connect(address, model=model, agent=who, token=token, state_dir=state_dir)


@every_model
def test_agents_go_on_and_every_observation_arrives_once(copied: Path, model: str) -> None:
    expected = FACTS["models"][model]["count"]
    with serving(copied, model) as address:
        for who in ("near", "far"):
            facts = FACTS["agents"][f"{model}/{who}"]
            expected += facts["pending"] + facts["undelivered"] + 2
            with agent_of(address, copied, model, who) as agent:
                for name in ("open-0", "open-1"):
                    agent.reward(name, 0.5)
                assert agent.sync(everything=True)
                assert agent.status().trouble is None
    found = stored(copied, model)
    assert found.count == expected
    assert found.params == json.dumps(FACTS["models"][model]["params"]).encode()


@every_model
@pytest.mark.parametrize("who", ["near", "far"])
def test_a_journal_gives_back_what_was_learned(copied: Path, model: str, who: str) -> None:
    facts, nowhere = FACTS["agents"][f"{model}/{who}"], "http://127.0.0.1:9"
    for before in (0, 1):  # as it was written, and as this version has written it anew
        agent = agent_of(nowhere, copied, model, who)
        status, arms = agent.status(), np.eye(agent.recipe.dimension)
        assert (status.version, status.open) == (facts["version"], facts["open"] + before)
        left = (facts["pending"], facts["undelivered"])
        assert (status.pending, status.undelivered) == left
        assert_same(agent.decide(arms).mean, facts["theta"])
        assert not agent.close(timeout=0.0)


@every_model
def test_agents_of_version_1_are_still_served(copied: Path, model: str) -> None:
    facts = FACTS["models"][model]
    token = FACTS["tokens"][f"{model}/near"]
    with serving(copied, model) as address:
        link = HttpTransport(address, model=model, agent="near", token=token, timeout=10.0)
        joined = wire.decode_joined(link.exchange("state"))
        assert (joined.format, joined.fingerprint) == (1, facts["fingerprint"])
        assert json.loads(joined.params) == facts["params"]
        assert joined.download is not None
        known = wire.decode_joined(link.exchange(f"state?have={joined.digest}"))
        assert known.download is None
        recipe = fb.RECIPES[joined.recipe](**json.loads(joined.params))
        agent = recipe.agent(0)
        agent.receive(joined.download)
        agent.observe(np.eye(recipe.dimension)[0], 0.5)
        upload = agent.receive(fb.Collect())
        assert upload is not None
        sync = wire.Sync(joined.fingerprint, bytes(16), 1, upload, joined.lives, format=1)
        answer = wire.decode_synced(link.exchange("sync", wire.encode_sync(sync)))
        assert (answer.format, answer.merged) == (1, True)
        assert answer.fingerprint == facts["fingerprint"]
        assert answer.download.count == facts["count"] + 1
        link.close()
    assert stored(copied, model).count == facts["count"] + 1


def test_a_recipe_that_version_1_could_not_build_is_refused_plainly(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(copied, "news")  # migrated, before the recipe grows
    monkeypatch.setattr("fedbandit.service.models.model.is_of_version_1", lambda _: False)
    token = FACTS["tokens"]["news/near"]
    with serving(copied, "news") as address:
        link = HttpTransport(address, model="news", agent="near", token=token, timeout=10.0)
        with pytest.raises(Refused, match="upgrade fedbandit on the device") as refused:
            link.exchange("state")
        assert (refused.value.status, refused.value.field) == (409, "format")
        assert wire.decode_joined(link.exchange(wire.state_path())).format == 2
        link.close()


@every_model
def test_a_store_is_migrated_once_and_says_what_decides(copied: Path, model: str) -> None:
    facts = FACTS["models"][model]
    recipe = fb.RECIPES[facts["recipe"]](**facts["params"])
    for _ in range(2):
        found = stored(copied, model)
        assert found.fingerprint == wire.fingerprint(recipe)
        assert (found.version, found.count) == (facts["version"], facts["count"])
    assert wire.fingerprint(recipe, format=1) == facts["fingerprint"]


def test_a_model_that_cannot_be_built_keeps_no_other_from_being_served(copied: Path) -> None:
    with sqlite3.connect(copied / "store.db") as database:
        row = database.execute("SELECT params FROM models WHERE name = 'news'").fetchone()
        later = row[0].replace(b'"float64"', b'"float8"')
        database.execute("UPDATE models SET params = ? WHERE name = 'news'", (later,))
    database.close()
    assert stored(copied, "lean").fingerprint != FACTS["models"]["lean"]["fingerprint"]
    for model, status in (("lean", 200), ("news", 503)):
        with serving(copied, model) as address:
            token = FACTS["tokens"][f"{model}/near"]
            link = HttpTransport(address, model=model, agent="near", token=token, timeout=10.0)
            if status == 200:
                wire.decode_joined(link.exchange(wire.state_path()))
            else:
                with pytest.raises(Unreachable, match=str(status)):
                    link.exchange(wire.state_path())
            link.close()


@every_model
def test_catching_up_after_an_upgrade_downloads_nothing(copied: Path, model: str) -> None:
    """The digest in the journal is of bytes in format 1; the answer tells the one of format 2."""
    with serving(copied, model) as address:
        with agent_of(address, copied, model, "far") as agent:
            assert agent.sync()
            first = agent.status().bytes_down
        with agent_of(address, copied, model, "far") as agent:
            before = agent.status().pending
            assert agent.sync()
            assert agent.status().bytes_down < first
            assert agent.status().pending == before


@every_model
def test_an_export_is_read(model: str) -> None:
    facts = FACTS["models"][model]
    archive = read_archive((WRITTEN / f"{model}.export").read_bytes())
    recipe = fb.RECIPES[facts["recipe"]](**facts["params"])
    assert archive.model.fingerprint == wire.fingerprint(recipe)
    assert {*archive.merged} == {"near", "far"}
    assert len(archive.tokens) == 2


@pytest.mark.parametrize("name", CORE)
def test_saved_states_go_on_decision_for_decision(name: str) -> None:
    recipe, facts = CORE[name], FACTS["goes_on"][name]
    assert form_1(recipe) == facts["repr"]
    agent = fb.Agent.restore(recipe, np.load(WRITTEN / f"{name}.agent.npz"))
    server = fb.Server.restore(recipe, np.load(WRITTEN / f"{name}.server.npz"))
    rng = np.random.default_rng(5)
    tape = [_arms(rng, recipe.dimension) for _ in range(100)][50:]
    theta = np.linspace(-1, 1, recipe.dimension)
    chosen = []
    for arms in tape:
        chosen.append(agent.choose(arms))
        upload = agent.observe(chosen[-1], float(arms[chosen[-1]] @ theta))
        for answer in server.receive(upload) if upload is not None else ():
            if answer.agent == 0:
                agent.receive(answer.message)
    assert chosen == facts["arms"]
    assert server.version == facts["version"]
    assert_same(server.moment, facts["moment"])


def assert_same(found: Any, written: Any) -> None:
    """Compare up to rounding: another eigensolver has other last bits (decision 91)."""
    np.testing.assert_allclose(found, written, rtol=1e-13, atol=0.0)


def _arms(rng: np.random.Generator, dimension: int) -> np.ndarray[Any, Any]:
    arms = rng.standard_normal((4, dimension))
    scaled: np.ndarray[Any, Any] = arms / np.linalg.norm(arms, axis=1)[:, None]
    return scaled
