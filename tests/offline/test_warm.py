"""Past observations become part of a model, exactly once."""

from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.errors import DataError, InvalidArms, InvalidReward
from fedbandit.logs import Event, LogWriter
from fedbandit.logs.records import Decided
from fedbandit.offline.policies import arms_of
from fedbandit.service.models.model import new_model, recipe_of
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from fedbandit.service.warming import Warmed, warm
from fedbandit.testing import coordinator
from fedbandit.wire import Limits
from tests.offline.known_truth import D, draw
from tests.testing.memory_store import MemoryStore, Place

RECIPE = fb.FedLinUCB(dimension=D, agents=5, radius=0.3)


@pytest.fixture
def events() -> list[Event]:
    return draw(np.random.default_rng(3), 2500).events()


def store_with(recipe: fb.Recipe, store: Store) -> Store:
    store.create(*new_model("shop", recipe))
    return store


def merged(store: Store, events: list[Event]) -> Warmed:
    return warm(store, "shop", events, arms=arms_of(recipe_of(store.model("shop"))))


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        fb.FSCLB(dimension=D, sketch_size=3, agents=5),
        fb.FSCLB.lean(dimension=D, sketch_size=3, agents=5),
    ],
    ids=lambda each: each.name,
)
def test_a_log_is_merged_once_and_a_longer_one_from_where_it_stopped(
    recipe: fb.Recipe, events: list[Event]
) -> None:
    store = store_with(recipe, MemoryStore(Place()))
    assert merged(store, events[:1500]).new == 1500
    state = store.state("shop")[1]
    again = merged(store, events[:1500])
    assert (again.new, again.before) == (0, 1500)
    assert store.state("shop")[1] == state
    longer = merged(store, events)
    assert (longer.new, longer.before) == (1000, 1500)
    assert store.model("shop").count == 2500


def test_a_log_that_holds_one_that_was_merged_is_not_merged_twice(events: list[Event]) -> None:
    """In the wrong order, or from an earlier beginning."""
    store = store_with(RECIPE, MemoryStore(Place()))
    assert merged(store, events[1500:]).new == 1000
    with pytest.raises(DataError, match=r"event 1,501 is the first of a log that was merged"):
        merged(store, events)
    assert store.model("shop").count == 1000 + 1000  # whole blocks before that one
    with pytest.raises(DataError, match=r"event 1,501 is the first of a log that was merged"):
        merged(store, events)
    assert store.model("shop").count == 2000
    assert merged(store, events[:1500]).new == 500
    assert store.model("shop").count == 2500


def test_what_is_learned_is_the_sum_over_the_log(events: list[Event]) -> None:
    store = store_with(RECIPE, MemoryStore(Place()))
    merged(store, events)
    with coordinator(RECIPE, model="shop", store=store) as running:
        state = running.state()
    played = np.stack([e.arms[e.chosen] for e in events if e.arms is not None])
    rewards = np.array([event.reward for event in events])
    np.testing.assert_allclose(state.statistics.moment, played.T @ rewards, rtol=1e-9)
    assert state.count == len(events)


def test_what_does_not_fit_the_model_is_refused_by_the_event(events: list[Event]) -> None:
    store = store_with(fb.FedLinUCB(dimension=2, agents=1), MemoryStore(Place()))
    with pytest.raises(DataError, match=r"event 0: got 4 numbers an arm; expected 2"):
        merged(store, events)
    with pytest.raises(DataError, match="got no events"):
        merged(store, [])
    narrow = MemoryStore(Place())
    narrow.create(*new_model("shop", RECIPE, limits=Limits(arm_norm=0.1, reward=1.0, count=500)))
    with pytest.raises(DataError, match="the upload that ends with event 500 was refused"):
        merged(narrow, events)


def test_the_command_says_what_it_merged(
    tmp_path: Path, events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store_with(RECIPE, open_store(url, create=True)).close()
    log = LogWriter(tmp_path / "log")
    for event in events[:50]:
        assert event.arms is not None
        arms = event.arms.tolist()
        log.decided(Decided(id=event.id, chosen=event.chosen, probability=0.5, arms=arms))
        log.rewarded(event.id, event.reward)
    log.close()
    warm_it = ["model", "warm", "shop", str(tmp_path / "log"), "--store", url]
    assert main(warm_it) == 0
    assert "shop: 50 observations merged as warm-" in capsys.readouterr().out
    assert main(warm_it) == 0
    assert "0 observations merged" in (said := capsys.readouterr().out)
    assert "50 were there already" in said


def test_an_agent_learns_the_same_observations_once(tmp_path: Path) -> None:
    rows = draw(np.random.default_rng(4), 300)
    with coordinator(RECIPE, model="shop") as running:
        with running.connect("till", state_dir=tmp_path) as agent:
            assert agent.learn(rows.played, rows.reward) == 300
            assert agent.learn(rows.played, rows.reward) == 0
            assert agent.learn(rows.played[:10], rows.reward[:10]) == 10
            assert (agent.status().taught, agent.status().learned) == (310, 310)
            assert agent.sync(everything=True)
        with running.connect("till", state_dir=tmp_path) as agent:
            assert agent.learn(rows.played, rows.reward) == 0
            assert agent.sync(everything=True)
        assert running.state().count == 310
        total = rows.played.T @ rows.reward + rows.played[:10].T @ rows.reward[:10]
        np.testing.assert_allclose(running.state().statistics.moment, total, rtol=1e-9)


def test_a_bad_row_leaves_the_agent_as_it_was() -> None:
    rows = draw(np.random.default_rng(5), 20)
    with coordinator(RECIPE, model="shop") as running, running.connect("till") as agent:
        with pytest.raises(InvalidReward):
            agent.learn(rows.played, np.where(np.arange(20) == 7, np.nan, rows.reward))
        with pytest.raises(InvalidArms):
            agent.learn(rows.played[:, :2], rows.reward)
        with pytest.raises(InvalidArms, match="20 arms and 3 rewards"):
            agent.learn(rows.played, rows.reward[:3])
        assert agent.status().pending == agent.status().undelivered == 0
