"""Agents write down what they decided and what came of it; shadow decisions are compared."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.client import ConnectedAgent
from fedbandit.errors import InvalidParameter, OutputError
from fedbandit.logs import read
from fedbandit.testing import coordinator
from tests.edge.sidecar import sidecar

RECIPE = fb.FedLinUCB(dimension=3, agents=2, radius=0.3, choice=fb.Mixed(0.2))
ARMS = np.eye(3)


def offline(place: Path, **options: object) -> ConnectedAgent:
    """Return an agent that has no coordinator, and a log in ``place``."""
    given = {"model": "shop", "agent": "till", "recipe": RECIPE, "log": place, **options}
    return fb.connect("http://127.0.0.1:9", **given)  # type: ignore[arg-type]


def test_a_log_holds_what_was_decided(tmp_path: Path) -> None:
    agent = offline(tmp_path)
    made = [agent.decide(ARMS) for _ in range(20)]
    for k, decision in enumerate(made):
        agent.reward(decision.id, float(k))
    agent.close(timeout=0.0)
    reader = read(tmp_path)
    events = list(reader)
    assert [event.id for event in events] == [decision.id for decision in made]
    for event, decision in zip(events, made, strict=True):
        assert (event.chosen, event.probability) == (decision.index, decision.probability)
        assert event.arms is not None
        np.testing.assert_array_equal(event.arms, ARMS)
    assert [event.reward for event in events] == list(range(20))
    assert reader.head is not None
    assert fb.RECIPES[reader.head.recipe](**reader.head.params) == RECIPE
    assert (reader.head.model, events[0].agent) == ("shop", "till")


def test_excluded_arms_and_places_are_logged_as_what_there_was_to_choose_from(
    tmp_path: Path,
) -> None:
    agent = offline(tmp_path)
    decision = agent.decide(ARMS, exclude=[1], top=2)
    for place in decision.places:
        agent.reward(place.id, 1.0)
    agent.close(timeout=0.0)
    first, second = read(tmp_path)
    assert (first.choices, second.choices) == (2, 1)
    for event, place in zip((first, second), decision.places, strict=True):
        assert event.arms is not None
        np.testing.assert_array_equal(event.arms[event.chosen], ARMS[place.index])
        assert event.probability == place.probability


def test_named_features_are_logged_by_name_and_make_the_same_arms(tmp_path: Path) -> None:
    agent = offline(tmp_path, recipe=fb.FedLinUCB(dimension=20, agents=1, radius=0.3))
    actions = [{"id": "shoes", "price": 0.3}, {"id": "hat", "colour": "red"}]
    for _ in range(30):
        decision = agent.decide(context={"hour": 8, "new": True}, actions=actions)
        agent.reward(decision.id, 1.0)
    arms = agent.encoder.encode({"hour": 8, "new": True}, actions).arms
    agent.close(timeout=0.0)
    events = list(read(tmp_path))
    assert events[0].actions is not None
    assert [each.id for each in events[0].actions] == ["shoes", "hat"]
    assert events[0].context == {"hour": 8, "new": True}
    from fedbandit.offline.policies import arms_of

    np.testing.assert_array_equal(arms_of(agent.recipe)(events[0]), arms)
    found = fb.evaluate(tmp_path, agent.recipe)
    assert found.rows == 30


def test_defaults_and_deferred_decisions_are_logged(tmp_path: Path) -> None:
    agent = offline(tmp_path, reward_wait=0.01, default_reward=0.25)
    agent.decide(ARMS, id="silent")
    agent.decide(ARMS, id="never", defer=True)
    agent.decide(ARMS, id="shown", defer=True)
    agent.activate("shown")
    agent.reward("shown", 1.0)
    while agent.status().open:
        agent.sync(timeout=0.0)
    agent.close(timeout=0.0)
    reader = read(tmp_path)
    assert {event.id: event.reward for event in reader} == {"shown": 1.0, "silent": 0.25}
    assert reader.tally.skipped == {"deferred and never activated": 1}
    assert b'"default":true' in next(tmp_path.glob("*.ndjson")).read_bytes()


KILLED = """
import os, signal, sys
import numpy as np
import fedbandit as fb
recipe = fb.FedLinUCB(dimension=3, agents=2)
agent = fb.connect("http://127.0.0.1:9", model="m", agent="a", recipe=recipe, log=sys.argv[1])
for k in range(40):
    agent.reward(agent.decide(np.eye(3)).id, k)
agent.decide(np.eye(3), id="last")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_agent_leaves_every_whole_record(tmp_path: Path) -> None:
    environment = os.environ | {"FEDBANDIT_COMPILE": "0"}
    run = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=environment, check=False)
    assert run.returncode == -signal.SIGKILL
    reader = read(tmp_path)
    assert [event.reward for event in reader] == list(range(40))
    assert reader.tally.skipped == {"no reward": 1}


FULL = """
import resource, signal, sys
import numpy as np
import fedbandit as fb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
recipe = fb.FedLinUCB(dimension=3, agents=2)
agent = fb.connect("http://127.0.0.1:9", model="m", agent="a", recipe=recipe, log=sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
for k in range(100):
    agent.reward(agent.decide(np.eye(3)).id, k)
print(agent.status().rewards, agent.status().log_lost > 0)
agent.close(timeout=0.0)
"""


def test_a_full_disk_loses_records_and_nothing_else(tmp_path: Path) -> None:
    environment = os.environ | {"FEDBANDIT_COMPILE": "0"}
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert said.stdout == "100 True\n"
    reader = read(tmp_path)
    rewards = [event.reward for event in reader]
    assert rewards == list(range(len(rewards)))
    assert 5 < len(rewards) < 40
    assert set(reader.tally.skipped) <= {"no reward"}


def test_two_agents_cannot_share_a_log(tmp_path: Path) -> None:
    agent = offline(tmp_path / "log", state_dir=tmp_path / "one")
    with pytest.raises(OutputError, match="written by another process"):
        offline(tmp_path / "log", state_dir=tmp_path / "two")
    agent.close(timeout=0.0)
    offline(tmp_path / "log", state_dir=tmp_path / "two").close(timeout=0.0)


def test_in_shadow_mode_the_baseline_happens_and_the_agent_learns(tmp_path: Path) -> None:
    means = np.array([0.2, 0.8, 0.1])
    rng = np.random.default_rng(0)
    with coordinator(fb.FedLinUCB(dimension=3, agents=1, radius=0.1)) as running:
        agent = running.connect("till", log=tmp_path)
        for _ in range(1500):
            baseline = int(rng.integers(3))  # your own rule, here: anything
            decision = agent.decide(ARMS, baseline=baseline, baseline_probability=1 / 3)
            assert decision.index == baseline
            assert decision.probability == 1 / 3
            assert decision.preferred is not None
            agent.reward(decision.id, float(rng.random() < means[decision.index]))
        agent.sync(everything=True)
        shadow = agent.status().shadow
        agent.close()
        assert running.state().count == 1500
    assert (shadow.decisions, shadow.rewarded, shadow.basis) == (1500, 1500, "weights")
    assert shadow.safe
    assert shadow.gain_low <= 0.8 - means.mean() <= shadow.gain_high
    assert 0.25 < shadow.agreement < 0.42
    assert "It is safe to switch." in shadow.sentence
    found = fb.evaluate(tmp_path, fb.FedLinUCB(dimension=3, agents=1, radius=0.1))
    assert found.of("FedLinUCB", "dr").verdict == "better"


def test_a_baseline_that_is_no_arm_is_refused(tmp_path: Path) -> None:
    agent = offline(tmp_path)
    for given in (3, "hat", True):
        with pytest.raises(InvalidParameter, match="baseline: got"):
            agent.decide(ARMS, baseline=given)
    with pytest.raises(InvalidParameter, match="baseline_probability: got 0"):
        agent.decide(ARMS, baseline=0, baseline_probability=0)
    with pytest.raises(InvalidParameter, match="baseline: got 1"):
        agent.decide(ARMS, baseline=1, exclude=[1])
    with pytest.raises(InvalidParameter, match="top must be"):
        agent.decide(ARMS, baseline=1, top=2)
    agent.close(timeout=0.0)


def test_the_sidecar_in_shadow_mode_answers_with_the_first_action(tmp_path: Path) -> None:
    agent = offline(tmp_path)
    actions = [{"id": name, "features": {"colour": name}} for name in ("red", "blue")]
    with sidecar(agent, shadow=True) as client:
        for _ in range(3):
            answer = client.post("/rank", json={"actions": actions}).json()
            assert answer["rewardActionId"] == "red"
            assert answer["preferredActionId"] in ("red", "blue")
            client.post(f"/events/{answer['eventId']}/reward", json={"value": 1.0})
        assert client.get("/healthz").json()["shadow"]["rewarded"] == 3
        lines = client.get("/metrics").text.splitlines()
    assert "fedbandit_agent_shadow_rewarded 3" in lines
    events = list(read(tmp_path))
    assert [event.chosen for event in events] == [0, 0, 0]
    assert all(event.own is not None and event.means is not None for event in events)
