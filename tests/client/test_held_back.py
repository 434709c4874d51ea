"""An agent that may not send for now goes on learning, and delivers everything once it may."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.connecting import open_state, waiting_for
from fedbandit.client.delivery import delivery as delivery_module
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.state.directory import Identity
from fedbandit.client.transport import HttpTransport
from fedbandit.errors import Unreachable
from fedbandit.service.bookkeeping.quotas import Quotas
from fedbandit.service.models.undo import roll_back
from fedbandit.service.storage.opening import open_store
from fedbandit.testing import coordinator
from tests.client.recipes import each_of, recipes
from tests.client.twin import Twin, joined_to, state_of

D = 6
each_recipe = each_of(recipes(D) | {"lean": fb.FSCLB.lean(dimension=D, agents=3)})


def play(agent: fb.ConnectedAgent, number: int) -> None:
    for i in range(number):
        agent.reward(agent.decide(np.eye(D)[i % D : i % D + 1]).id, 1.0)


@each_recipe
def test_over_its_quota_it_keeps_everything_and_asks_rarely(
    tmp_path: Path, recipe: fb.Recipe
) -> None:
    twin = Twin(recipe)
    twin.limits = replace(twin.limits, count=50)
    with joined_to(twin, state_dir=tmp_path) as agent:
        play(agent, 7)
        assert agent.sync(everything=True)
        twin.error = Unreachable("429 quota", retry_after=1800.0)
        asked = len(twin.requests)
        for _ in range(20):
            play(agent, 10)
        agent.sync(everything=True, timeout=0.2)
        told = agent.status()
        assert told.undelivered == 200
        assert told.trouble is not None
        assert "quota" in told.trouble
        assert told.retry_in is not None
        assert 1700.0 < told.retry_in < 1900.0
        assert len(twin.requests) <= asked + 3  # the first, and what sync asked for
        assert agent.decide(np.eye(D)).mean.max() > 0.5  # it decides with all of it
        assert not agent.close(timeout=0.2)
    twin.error = None
    with joined_to(twin, state_dir=tmp_path) as agent:
        assert agent.sync(everything=True)
        assert agent.status().retry_in is None
    assert twin.server.count == 207


def test_a_real_coordinator_holds_an_agent_back_and_nothing_is_lost(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size=4, agents=2)
    store = open_store(f"sqlite:///{tmp_path / 'c.db'}", create=True)
    with coordinator(recipe, store=store, quotas=Quotas(uploads=1)) as served:
        with served.connect("phone", state_dir=tmp_path / "phone") as agent:
            play(agent, 1)
            assert agent.sync(everything=True)
            play(agent, 20)
            assert not agent.sync(everything=True, timeout=1.0)
            told = agent.status()
            assert told.undelivered == 20
            assert "1 uploads an hour" in (told.trouble or "")
            assert 3500 < (told.retry_in or 0.0) < 3700
        with store.lock("model") as locked:
            model = locked.model
            locked.set_rules(limits=model.limits, quotas=Quotas(), history=model.history)
        with served.connect("phone", state_dir=tmp_path / "phone") as agent:
            assert agent.sync(everything=True)
        assert served.state().count == 21


@each_recipe
def test_a_quiet_agent_hears_that_the_model_was_set_back(
    tmp_path: Path, recipe: fb.Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fed nonsense, the model outweighs what agents see: they upload nothing, and would not ask."""
    monkeypatch.setattr(delivery_module, "QUIET", 0.0)
    store = open_store(f"sqlite:///{tmp_path / 'c.db'}", create=True)
    with coordinator(recipe, store=store) as served:
        with served.connect("phone") as agent, served.connect("liar") as liar:
            play(agent, 6)
            assert agent.sync(everything=True)
            with store.lock("model") as locked:
                locked.past.take_snapshot(at=time.time())
                good = locked.model.version
            for _ in range(2000):
                liar.reward(liar.decide(np.eye(D)[:1]).id, -1.0)
            assert liar.sync(everything=True)
            play(agent, 1)
            assert agent.sync(everything=True)
            play(agent, 2)  # too few to be sent by itself
            lied = agent.decide(np.eye(D)[:1]).mean[0]
            assert lied < -0.5
            with store.lock("model") as locked:
                roll_back(locked, good)
            version = served.state().version
            agent._background.wake()  # as its own clock would
            assert agent._background.wait_until(lambda: agent.status().version >= version, 10.0)
            assert agent.decide(np.eye(D)[:1]).mean[0] > 0.0
            assert agent.sync(everything=True)
        assert served.state().count == 6 + 2  # what it had not delivered stayed its own


def test_asking_brings_no_download_unless_something_was_taken_out(tmp_path: Path) -> None:
    recipe = fb.FedLinUCB(dimension=40, agents=2)
    with coordinator(recipe) as served, served.connect("b") as other:
        who, token = Identity(model=served.model, agent="a"), served.token("a")
        transport = HttpTransport(
            served.url, model=who.model, agent=who.agent, token=token, timeout=10.0
        )
        state = open_state(transport, who, waiting=waiting_for(None, None))
        agent = fb.ConnectedAgent(state, transport)
        for each in (agent, other):
            each.reward(each.decide(np.eye(40)[:1]).id, 1.0)
            assert each.sync(everything=True)
        now = [0.0]
        quiet = Delivery(state, transport, clock=lambda: now[0])
        assert agent.status().version == 1
        for now[0] in (10.0, 5000.0, 20000.0):
            quiet.do_housekeeping()
        assert 0 < quiet.bytes_down < 2 * 1000  # two answers, no matrix of 12,800 bytes
        assert agent.status().version == 1
        assert state.digest == wire.digest(fb.Download(_first(recipe), 1))
        assert agent.close()
    assert tmp_path.exists()


def _first(recipe: fb.Recipe) -> fb.Statistics:
    agent = recipe.agent(0)
    agent.observe(np.eye(40)[0], 1.0)
    upload = agent.receive(fb.Collect())
    assert upload is not None
    server = recipe.server()
    server.receive(upload)
    return server.statistics


def test_without_an_answer_a_quiet_agent_has_no_trouble(tmp_path: Path) -> None:
    twin = Twin(recipes(D)["FSCLB"])
    state = state_of(twin, state_dir=tmp_path)
    now = [0.0]
    delivery = Delivery(state, twin, clock=lambda: now[0])
    twin.down, asked = True, len(twin.requests)
    for now[0] in np.arange(0.0, 36000.0, 60.0):
        delivery.do_housekeeping()
    assert 5 <= len(twin.requests) - asked <= 21
    state.close()


@each_recipe
def test_an_agent_that_was_not_heard_for_long_sends_what_it_has(recipe: fb.Recipe) -> None:
    """One that says that everything is known would silence it: nothing counts any more."""
    with coordinator(recipe) as served, served.connect("liar") as liar:
        for _ in range(3000):
            liar.reward(liar.decide(np.eye(D)[:1]).id, -1.0)
        assert liar.sync(everything=True)
        who, token = Identity(model=served.model, agent="a"), served.token("a")
        transport = HttpTransport(
            served.url, model=who.model, agent=who.agent, token=token, timeout=10.0
        )
        state = open_state(transport, who, waiting=waiting_for(None, None))
        agent = fb.ConnectedAgent(state, transport)
        for _ in range(3):
            agent.reward(agent.decide(np.eye(D)[:1]).id, 1.0)
        now = [0.0]
        delivery = Delivery(state, transport, clock=lambda: now[0])
        for now[0], due in ((29.0, False), (91.0, True)):
            delivery.do_housekeeping()
            assert delivery.due() is due
        delivery.deliver()
        now[0] = 120.0  # it was heard just now
        agent.reward(agent.decide(np.eye(D)[:1]).id, 1.0)
        delivery.do_housekeeping()
        assert not delivery.due()
        assert not agent.close(flush=False)  # what it learned since is not delivered
        assert served.state().count == 3003


def test_it_sends_some_ten_times_in_the_first_hour_and_then_once_an_hour(tmp_path: Path) -> None:
    twin = Twin(fb.FSCLB(dimension=D, sketch_size=2, agents=4, alpha=1e9))  # never due by itself
    state = state_of(twin, state_dir=tmp_path)
    now, sent = [0.0], list[float]()
    delivery = Delivery(state, twin, clock=lambda: now[0])
    while now[0] < 11 * 3600.0:
        now[0] += max(delivery.do_housekeeping(), 1.0)
        state.learn(np.eye(D)[:1], np.ones(1), str(now[0]))
        if delivery.due():
            sent.append(now[0])
            delivery.deliver()
    early = sum(at < 3600.0 for at in sent)
    assert 4 <= early <= 16
    assert 6 <= len(sent) - early <= 21
    state.close()
