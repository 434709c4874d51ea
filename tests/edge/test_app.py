"""The sidecar: Personalizer's verbs in JSON, on a real agent; what is refused, and how."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit.client.state.agent_state import Waiting
from fedbandit.edge.app import LARGEST_BODY
from fedbandit.edge.openapi import DESCRIPTION
from fedbandit.features.hashed import arm_of, features_of
from tests.client.faults import disk_full_at
from tests.client.twin import Twin, joined_to
from tests.edge.sidecar import sidecar

D = 16
RECIPE = fb.FSCLB(dimension=D, sketch_size=5, agents=3, alpha=1e9)
ARTICLES: list[dict[str, Any]] = [
    {"id": "goal", "features": [{"topic": "sport", "length": 0.4}]},
    {"id": "vote", "features": {"topic": "politics", "length": 0.9}},
    {"id": "bare"},
]
QUESTION: dict[str, Any] = {
    "contextFeatures": [{"time": "morning"}, {"user": {"age": 0.3}}],
    "actions": ARTICLES,
}


@pytest.fixture
def twin() -> Twin:
    return Twin(RECIPE)


@pytest.fixture
def client(twin: Twin) -> Iterator[TestClient]:
    with sidecar(joined_to(twin)) as made:
        yield made


def rank(client: TestClient, **changes: Any) -> Any:
    response = client.post("/rank", json=QUESTION | changes)
    assert response.status_code == 201, response.text
    return response.json()


def test_what_is_learned_is_the_arm_of_the_action_that_was_taken(twin: Twin) -> None:
    with sidecar(joined_to(twin)) as client:
        answer = rank(client, eventId="visit-1")
        assert answer["eventId"] == "visit-1"
        reward = client.post("/events/visit-1/reward", json={"value": 2.0})
        assert (reward.status_code, reward.content) == (204, b"")
    taken = answer["rewardActionId"]
    features = {"goal": ARTICLES[0]["features"], "vote": ARTICLES[1]["features"]}
    action = features.get(taken, {"id": taken})
    context = features_of(QUESTION["contextFeatures"], field="c")
    arm = arm_of(context, features_of(action, field="a"), D)
    assert_array_equal(twin.server.moment, 2.0 * arm)
    assert twin.server.count == 1


def test_the_ranking_is_by_score_and_its_first_is_taken(client: TestClient) -> None:
    for _ in range(20):
        answer = rank(client)
        ranking = answer["ranking"]
        assert ranking[0]["id"] == answer["rewardActionId"]
        scores = [each["score"] for each in ranking]
        assert scores == sorted(scores, reverse=True)
        assert {each["id"] for each in ranking} == {"goal", "vote", "bare"}
        for each in ranking:
            assert each["score"] == each["mean"] + each["bonus"]
        pays = {"goal": 1.0, "vote": -1.0, "bare": 0.0}[answer["rewardActionId"]]
        client.post(f"/events/{answer['eventId']}/reward", json={"value": pays})


def test_the_ranking_tells_probabilities() -> None:
    mixed = fb.FSCLB(dimension=D, sketch_size=5, agents=3, choice=fb.Mixed(0.3))
    drawn = fb.FSCLB(dimension=D, sketch_size=5, agents=3, choice="thompson")
    for recipe, least, estimated in ((RECIPE, 0.0, False), (mixed, 0.1, False), (drawn, 0.0, True)):
        with sidecar(joined_to(Twin(recipe))) as client:
            answer = rank(client)
        told = [each["probability"] for each in answer["ranking"]]
        assert sum(told) == pytest.approx(1.0)
        assert min(told) >= least - 1e-12
        assert answer["estimatedProbabilities"] is estimated
        if recipe is RECIPE:
            assert told == [1.0, 0.0, 0.0]


def test_an_answer_says_why_if_asked(client: TestClient) -> None:
    assert rank(client)["why"] is None
    for _ in range(5):
        answer = rank(client, explain=True)
        why, best = answer["why"], answer["ranking"][0]
        assert sum(each["value"] for each in why["contributions"]) == pytest.approx(best["mean"])
        assert best["mean"] + why["added"] == pytest.approx(best["score"])
        assert why["runnerUpId"] == answer["ranking"][1]["id"]
        assert why["text"].startswith(answer["rewardActionId"])
        client.post(f"/events/{answer['eventId']}/reward", json={"value": 1.0})


def test_it_learns_what_pays_in_which_context() -> None:
    twin = Twin(fb.FSCLB(dimension=64, sketch_size=30, agents=3, radius=0.2))
    agent = joined_to(twin)
    with sidecar(agent) as client:
        for turn in range(120):
            time = ("morning", "evening")[turn % 2]
            answer = rank(client, contextFeatures={"time": time})
            good = {"morning": "goal", "evening": "vote"}[time]
            value = float(answer["rewardActionId"] == good)
            client.post(f"/events/{answer['eventId']}/reward", json={"value": value})
            assert agent.sync()
        for time, good in (("morning", "goal"), ("evening", "vote")):
            assert rank(client, contextFeatures={"time": time})["rewardActionId"] == good


def test_excluded_actions_are_not_taken(client: TestClient) -> None:
    answer = rank(client, excludedActions=["goal", "bare"])
    assert answer["rewardActionId"] == "vote"
    assert [each["id"] for each in answer["ranking"]] == ["vote"]


def test_actions_as_lists_of_numbers_are_the_arms_themselves(twin: Twin) -> None:
    arms = [[0.0] * k + [3.0] + [0.0] * (D - k - 1) for k in range(3)]
    actions = [{"id": str(k), "features": arm} for k, arm in enumerate(arms)]
    with sidecar(joined_to(twin)) as client:
        answer = rank(client, actions=actions, contextFeatures=None)
        client.post(f"/events/{answer['eventId']}/reward", json={"value": 1.0})
    assert_array_equal(twin.server.moment, arms[int(answer["rewardActionId"])])


def test_deferred_events_wait_to_be_activated(twin: Twin) -> None:
    now = 0.0
    waiting = Waiting(wait=10.0, default=1.0, clock=lambda: now)
    agent = joined_to(twin, waiting=waiting)
    with sidecar(agent) as client:
        for name in ("shown", "never"):
            rank(client, eventId=name, deferActivation=True)
        assert client.post("/events/shown/activate").status_code == 204
        now = 10.0
        agent.sync()
        status = client.get("/healthz").json()
        assert (status["open"], status["pending"], status["forgotten"]) == (0, 1, 1)
        assert client.post("/events/never/activate").status_code == 409


def test_null_is_as_good_as_nothing(client: TestClient) -> None:
    names = ("contextFeatures", "excludedActions", "eventId", "deferActivation")
    answer = rank(client, **dict.fromkeys(names))
    assert len(answer["ranking"]) == 3
    event = answer["eventId"]
    assert client.post(f"/events/{event}/reward", json={"value": 1}).status_code == 204


def test_events_that_are_not_open(client: TestClient) -> None:
    event = rank(client)["eventId"]
    assert client.post(f"/events/{event}/reward", json={"value": 1}).status_code == 204
    again = client.post(f"/events/{event}/reward", json={"value": 1})
    assert again.status_code == 409
    assert again.json()["error"]["field"] == "decision"
    for path in ("/events/nobody/reward", "/events/nobody/activate", "/rank/"):
        assert client.post(path, json={"value": 1}).status_code == 404
    assert client.post("/rank", json=QUESTION | {"eventId": event}).status_code == 409


BAD = {
    "no actions": ({"actions": []}, 422, "body"),
    "too many actions": ({"actions": [{"id": str(k)} for k in range(1001)]}, 422, "body"),
    "an id twice": ({"actions": [{"id": "a"}, {"id": "a"}]}, 422, "actions"),
    "no id": ({"actions": [{"features": {}}]}, 422, "body"),
    "all excluded": ({"excludedActions": ["goal", "vote", "bare"]}, 422, "excludedActions"),
    "excluding nobody": ({"excludedActions": ["x"]}, 422, "excludedActions"),
    "unknown field": ({"contextfeatures": []}, 422, "body"),
    "event id": ({"eventId": "a b"}, 422, "decision id"),
    "event id that a URL swallows": ({"eventId": ".."}, 422, "decision id"),
    "context": ({"contextFeatures": 3}, 422, "body"),
    "list in a context": ({"contextFeatures": [1.0]}, 422, "contextFeatures"),
    "number": ({"contextFeatures": {"x": 1e300}}, 422, "contextFeatures"),
    "list": ({"actions": [{"id": "a", "features": [1, 2]}]}, 422, "contextFeatures"),
    "mixed": ({"actions": [{"id": "a", "features": [1, {}]}]}, 422, "actions, 'a'"),
    "short arm": (
        {"contextFeatures": None, "actions": [{"id": "a", "features": [1, 2]}]},
        422,
        "actions",
    ),
    "huge arm": (
        {"contextFeatures": None, "actions": [{"id": "a", "features": [10**400] * D}]},
        422,
        "actions",
    ),
    "too many features": (
        {"contextFeatures": {str(k): k for k in range(1001)}},
        422,
        "actions",
    ),
}


@pytest.mark.parametrize(("changes", "status", "field"), BAD.values(), ids=BAD)
def test_bad_questions_are_refused_by_field(
    client: TestClient, changes: dict[str, Any], status: int, field: str
) -> None:
    response = client.post("/rank", json=QUESTION | changes)
    assert response.status_code == status
    assert response.json()["error"]["field"] == field
    assert client.get("/healthz").json()["decisions"] == 0


@pytest.mark.parametrize("value", ["1", None, True, "NaN", 1e400, 1e7])
def test_bad_rewards_change_nothing(client: TestClient, value: Any) -> None:
    event = rank(client)["eventId"]
    content = json.dumps({"value": value})
    headers = {"Content-Type": "application/json"}
    response = client.post(f"/events/{event}/reward", content=content, headers=headers)
    assert response.status_code in (400, 422)
    assert client.get("/healthz").json()["open"] == 1


def test_bodies_that_are_not_json(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (b"", b"{", b"\xff", b'{"contextFeatures":' + b"[" * 100_000):
        assert client.post("/rank", content=content, headers=headers).status_code == 400
    assert client.post("/rank", content=b"{}").status_code == 415
    form = client.post("/rank", data={"actions": "x"})
    assert form.status_code == 415
    large = b" " * (LARGEST_BODY + 1)
    assert client.post("/rank", content=large, headers=headers).status_code == 413
    assert client.get("/rank").status_code == 405
    assert client.get("/nowhere").json()["error"]["field"] == "path"


def test_a_full_disk_is_told(twin: Twin, tmp_path: Any) -> None:
    with sidecar(joined_to(twin, state_dir=tmp_path)) as client:
        event = rank(client)["eventId"]
        with disk_full_at(100):
            refused = client.post(f"/events/{event}/reward", json={"value": 1.0})
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
        assert client.post(f"/events/{event}/reward", json={"value": 1.0}).status_code == 204


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
questions = st.fixed_dictionaries(
    {"actions": values | st.lists(st.fixed_dictionaries({"id": values, "features": values}))},
    optional={
        "contextFeatures": values,
        "excludedActions": values,
        "eventId": values,
        "deferActivation": values,
    },
)


@settings(max_examples=150)
@given(questions, values)
def test_whatever_is_asked_nothing_breaks(question: Any, value: Any) -> None:
    with sidecar(joined_to(Twin(RECIPE))) as client:
        headers = {"Content-Type": "application/json"}
        ranked = client.post("/rank", content=json.dumps(question), headers=headers)
        assert ranked.status_code in (201, 400, 422)
        event = ranked.json().get("eventId", "x")
        paid = client.post(
            f"/events/{event}/reward", content=json.dumps({"value": value}), headers=headers
        )
        assert paid.status_code in (204, 400, 404, 422)
        assert np.isfinite(client.get("/healthz").json()["rewards"])


def test_the_description_is_whole_and_its_page_needs_nothing(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert described == json.loads(json.dumps(DESCRIPTION))
    assert set(described["paths"]) == {
        "/rank",
        "/events/{id}/reward",
        "/events/{id}/activate",
        "/healthz",
        "/metrics",
    }
    shown = client.get("/docs")
    page = shown.text
    assert shown.headers["content-security-policy"].startswith("default-src 'none';")
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"(src|href)=['\"]?(https?:)?//|@import|url\(", page)
    for name in re.findall(r"(?:src|href)='(docs/[^']+)'", page):
        found = client.get(f"/{name}")
        assert found.status_code == 200
        assert found.headers["content-type"].startswith(("text/css", "text/javascript"))
    assert client.get("/docs/swagger-editor.js").status_code == 404
    for operations in described["paths"].values():
        for each in operations.values():
            if "responses" in each:
                assert list(each["responses"]) == sorted(each["responses"])
                assert "curl " in each["description"]


def test_metrics_tell_the_status(client: TestClient) -> None:
    before = _metrics(client)
    assert before["fedbandit_agent_decisions_total"] == 0.0
    event = rank(client)["eventId"]
    client.post(f"/events/{event}/reward", json={"value": 0.5})
    after = _metrics(client)
    assert after["fedbandit_agent_decisions_total"] == 1.0
    assert after["fedbandit_agent_learned_total"] == 1.0
    assert after["fedbandit_agent_reward_total"] == 0.5
    assert after["fedbandit_agent_squared_errors"] == pytest.approx(0.25)  # it knew nothing yet
    assert after["fedbandit_agent_saved"] == 1.0


def _metrics(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    return {
        name: float(value) for name, value in (each.split() for each in lines if each[0] != "#")
    }
