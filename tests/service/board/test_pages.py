"""The board over HTTP: signing in, what is shown, and that nothing is changed by it."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.messages import Upload
from fedbandit.core.statistics import Estimates, Rewards, Statistics
from fedbandit.service.access.audit import AuditLog
from fedbandit.service.access.sessions import parent_of
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.app import app_of, watching_app
from fedbandit.service.http.board import WATCHERS, board_routes
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import sync_for, upload_for
from tests.service.running import (
    BODY,
    OPEN,
    client_of,
    make_model,
    make_token,
    overwrite,
    post,
    state_path,
    sync_path,
)

RECIPE = fb.FSCLB(dimension=4, sketch_size=3, agents=2)
TOKENS = Settings(remember_seconds=0.0, refusal_seconds=0.0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/board.db"
    make_model(made, "news", RECIPE)
    return made


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with client_of(url, TOKENS) as made:
        yield made


@pytest.fixture
def signed_in(url: str, client: TestClient) -> TestClient:
    sign_in(client, make_token(url, model=None, agent=None))
    return client


def sign_in(client: TestClient, secret: str) -> Any:
    return client.post("/board/sign-in", data={"token": secret}, follow_redirects=False)


def use_cookie(client: TestClient, value: str) -> None:
    client.cookies.clear()
    client.cookies.set("fedbandit_board", value)


PAGES = ("/", "/board/models", "/board/models/news", "/board/events")


def test_without_a_session_there_is_a_form_and_no_number(client: TestClient) -> None:
    shown = client.get("/")
    assert shown.status_code == 200
    assert "Admin token" in shown.text
    for path in PAGES[1:]:
        assert client.get(path).status_code == 401
    for cookie in ("", "x", "board-00000000 of boss"):
        use_cookie(client, cookie)
        assert client.get("/board/models").status_code == 401


def test_an_admins_token_begins_a_session(url: str, client: TestClient) -> None:
    answer = sign_in(client, make_token(url, model=None, agent=None))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    for flag in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert flag in cookie
    assert "Admin token" not in client.get("/").text
    assert [each["name"] for each in client.get("/board/models").json()] == ["news"]
    secret = client.cookies["fedbandit_board"]
    client.post("/board/sign-out")
    use_cookie(client, secret)  # it is over, not only forgotten here
    assert client.get("/board/models").status_code == 401


def test_a_stolen_store_opens_no_session(url: str, signed_in: TestClient) -> None:
    store = open_store(url)
    stored = [each.digest.hex() for each in store.tokens()]
    store.close()
    assert signed_in.cookies["fedbandit_board"] not in stored
    for each in stored:
        use_cookie(signed_in, each)
        assert signed_in.get("/board/models").status_code == 401


def test_a_cookie_is_a_session_and_no_other_token(url: str, client: TestClient) -> None:
    boss = make_token(url, model=None, agent=None)
    sign_in(client, boss)
    session = client.cookies["fedbandit_board"]
    assert sign_in(client, session).status_code == 401  # no session from a session
    use_cookie(client, boss)
    assert client.get("/board/models").status_code == 401
    client.cookies.clear()
    shown = {"Authorization": f"Bearer {session}"}  # it would outlive the token it was begun with
    for path in ("/board/models", "/metrics"):
        assert client.get(path, headers=shown).status_code == 401


def test_a_cookie_is_found_among_others_and_read_in_no_time(signed_in: TestClient) -> None:
    secret = signed_in.cookies["fedbandit_board"]
    signed_in.cookies.clear()
    found = (f"fedbandit_board={secret}", f"a=b; fedbandit_board={secret}; c=d")
    others = (
        f"xfedbandit_board={secret}",
        f"fedbandit_board={secret}x",
        f"a=fedbandit_board={secret}",
    )
    for status, headers in ((200, found), (401, others)):
        for each in headers:
            answer = signed_in.get("/board/models", headers={"Cookie": each})
            assert answer.status_code == status, each
    absurd = 'fedbandit_board="' + "\\" * 200_000 + '"'  # takes two minutes where quotes are undone
    assert signed_in.get("/board/models", headers={"Cookie": absurd}).status_code == 401


@pytest.mark.parametrize("secret", ["", "wrong", "<script>"])
def test_other_tokens_begin_none(client: TestClient, url: str, secret: str) -> None:
    agents = make_token(url, model="news", agent="phone")
    for each in (secret, agents):
        answer = sign_in(client, each)
        assert answer.status_code == 401
        assert "not an admin token" in answer.text
        assert "set-cookie" not in answer.headers
        assert "<script>" not in answer.text


def test_a_session_ends_with_its_token(url: str, signed_in: TestClient) -> None:
    assert signed_in.get("/board/models").status_code == 200
    store = open_store(url)
    store.revoke(next(each.name for each in store.tokens() if parent_of(each) is None))
    store.close()
    assert signed_in.get("/board/models").status_code == 401


def test_a_session_outlives_a_restart(url: str, signed_in: TestClient) -> None:
    cookie = signed_in.cookies["fedbandit_board"]
    with client_of(url, TOKENS) as again:
        use_cookie(again, cookie)
        assert again.get("/board/models").status_code == 200


def test_programs_may_show_a_token_instead(url: str, client: TestClient) -> None:
    boss, agent = (make_token(url, model=m, agent=a) for m, a in ((None, None), ("news", "a")))
    for secret, status in ((boss, 200), (agent, 401), ("wrong", 401)):
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get("/board/models", headers=headers).status_code == status


def test_forms_of_other_sites_are_refused(client: TestClient) -> None:
    for origin in ("http://evil.example", "null"):
        for path in ("/board/sign-in", "/board/sign-out"):
            answer = client.post(path, data={"token": "x"}, headers={"Origin": origin})
            assert answer.status_code == 403
    same = {"Origin": "http://testserver"}
    assert client.post("/board/sign-in", data={"token": "x"}, headers=same).status_code == 401


def test_a_form_that_is_too_large_is_refused(client: TestClient) -> None:
    assert sign_in(client, "x" * 10_000).status_code == 413
    many = {f"field{number}": "x" for number in range(11)}
    assert client.post("/board/sign-in", data=many).status_code == 422


def test_the_audit_log_tells_who_signed_in_and_who_tried(url: str, tmp_path: Path) -> None:
    boss, log = make_token(url, model=None, agent=None), tmp_path / "audit"
    coordinator = Coordinator(open_store(url), TOKENS, audit=AuditLog(log))
    with TestClient(app_of(coordinator)) as client:
        sign_in(client, "wrong")
        use_cookie(client, "wrong")
        client.get("/")
        client.cookies.clear()
        client.get("/")  # has done nothing wrong
        sign_in(client, boss)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["what"] for each in lines if each["what"] != "refused"] == ["signed in"]
    assert sum(each["count"] for each in lines if each["what"] == "refused") == 2
    assert boss not in log.read_text()


def test_headers_are_strict_and_nothing_comes_from_elsewhere(signed_in: TestClient) -> None:
    pages = ["/", "/board/models", "/board/board.js", "/board/charts.js", "/board/words.js"]
    for path in [*pages, "/board/board.css", "/board/icon.svg"]:
        shown = signed_in.get(path)
        assert shown.status_code == 200
        policy = shown.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert shown.headers["x-frame-options"] == "DENY"
        assert shown.headers["cache-control"] == "no-store"
        addresses = set(re.findall(r"https?://[^\"'\s)]+", shown.text))
        assert addresses <= {"http://www.w3.org/2000/svg"}
        assert " style=" not in shown.text
        assert "onclick=" not in shown.text
    assert signed_in.get("/board/nothing.js").status_code == 404
    assert signed_in.get("/board/../board.py").status_code == 404


def test_the_board_is_where_operators_are_answered(url: str) -> None:
    store = open_store(url)
    coordinator = Coordinator(store, OPEN)
    with TestClient(app_of(coordinator, watched=False)) as agents:
        assert [agents.get(path).status_code for path in PAGES] == [404] * 4
        with TestClient(watching_app(coordinator)) as operators:
            assert operators.get("/board/models").status_code == 200


def test_so_many_browsers_watch_and_no_more_even_if_they_come_at_once(url: str) -> None:
    coordinator = Coordinator(open_store(url), OPEN)
    routes = {route.path: route for route in board_routes(coordinator) if isinstance(route, Route)}
    asked = {"type": "http", "method": "GET", "headers": [], "query_string": b""}

    async def run() -> list[bytes]:
        ask = routes["/board/events"].endpoint
        answers = await asyncio.gather(*(ask(Request(asked)) for _ in range(WATCHERS + 20)))
        told = [await anext(answer.body_iterator) for answer in answers]
        for answer in answers:
            await answer.body_iterator.aclose()
        again = await ask(Request(asked))
        told.append(await anext(again.body_iterator))
        await coordinator.stop()
        return told

    told = asyncio.run(run())
    assert sum(b"event: view" in each for each in told[:-1]) == WATCHERS
    assert b"event: view" in told[-1]  # the others have left


def test_an_unknown_model_or_range_is_refused(signed_in: TestClient) -> None:
    assert signed_in.get("/board/models/nws").status_code == 404
    assert signed_in.get("/board/models/news?range=week").status_code == 422
    assert signed_in.get("/board/events?model=nws").status_code == 404


def _told(seed: int, rewards: list[float], estimates: list[float]) -> wire.Sync:
    """Return a sync of one upload that tells of its rewards and estimates."""
    made = upload_for(RECIPE, seed).statistics
    r, e = np.resize(rewards, made.count), np.resize(estimates, made.count)
    sums = Rewards(made.count, float(r.sum()), float(r @ r))
    guessed = Estimates(made.count, float(e.sum()), float((r - e) @ (r - e)))
    told = Statistics(made.summary, 0.0 * made.moment, made.count, sums, 0, guessed)
    return wire.Sync(wire.fingerprint(RECIPE), bytes(16), seed, Upload(0, told), 0)


def test_what_was_uploaded_is_shown(url: str) -> None:
    with client_of(url) as client:
        first = _told(1, [0.5], [0.25])
        n = first.upload.count
        post(client, first)
        client.get(state_path(agent="other"))
        refused = client.post(sync_path(), content=b"nonsense", headers=BODY)
        assert refused.status_code == 422
        post(client, first)  # a copy
        client.get("/metrics")  # writes down what waits
        view = client.get("/board/models/news?range=hour").json()
        text = client.get("/metrics").text
    assert (view["version"], view["observations"], view["average"]) == (1, n, 0.5)
    totals = view["totals"]
    counted = [totals[name] for name in ("uploads", "copies", "joins", "refused")]
    assert counted == [1, 1, 1, 1]
    assert totals["received"] == 2 * len(wire.encode_sync(first))
    assert totals["saved"] == totals["fedlinucb"] - totals["received"] - totals["sent"]
    points = view["points"]
    assert (points["average"][-1], points["estimate"][-1]) == (0.5, 0.25)
    assert points["error"][-1] == pytest.approx(0.25)
    (agent,) = view["listed"]
    shown = [agent[name] for name in ("name", "held", "behind", "average", "share")]
    assert shown == ["phone", 1, 0, 0.5, 1.0]
    (refusal,) = view["refusals"]
    assert (refusal["status"], refusal["agent"], refusal["count"]) == (422, "phone", 1)
    for line in (
        f'fedbandit_model_rewards{{model="news"}} {n}',
        f'fedbandit_model_reward_sum{{model="news"}} {0.5 * n}',
        f'fedbandit_model_estimate_sum{{model="news"}} {0.25 * n}',
        'fedbandit_model_refused_uploads{model="news"} 1',
        f'fedbandit_model_saved_bytes{{model="news"}} {totals["saved"]}',
    ):
        assert line in text.splitlines()


def test_who_has_not_synced_since_is_behind(url: str) -> None:
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1), agent="early")
        post(client, sync_for(RECIPE, 2), agent="late")
        post(client, sync_for(RECIPE, 3, sequence=2), agent="late")
        held = {each["name"]: each for each in client.get("/board/models/news").json()["listed"]}
        assert (held["early"]["held"], held["early"]["behind"]) == (1, 2)
        assert (held["late"]["held"], held["late"]["behind"]) == (3, 0)
        client.get(state_path(agent="early"))  # it catches up
        client.get("/metrics")
    with client_of(url) as client:
        held = {each["name"]: each for each in client.get("/board/models/news").json()["listed"]}
        assert held["early"]["behind"] == 0


def test_older_agents_are_served_and_their_averages_are_not_known(url: str) -> None:
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
        view = client.get("/board/models/news").json()
    assert (view["average"], view["lately"], view["points"]["estimate"][-1]) == (None, None, None)
    assert view["totals"]["uploads"] == 1


def test_progress_outlives_a_restart_and_looking_changes_nothing(url: str) -> None:
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
    store = open_store(url)
    before = store.archive("news")
    store.close()
    with client_of(url) as client:
        for path in ("/", "/board/models", "/board/models/news?range=all"):
            assert client.get(path).status_code == 200
            assert client.post(path).status_code == 405
        assert client.get("/board/models/news").json()["totals"]["uploads"] == 1
    store = open_store(url)
    assert store.archive("news") == before
    store.close()


def test_a_store_that_is_away_is_told_in_the_form(signed_in: TestClient, url: str) -> None:
    overwrite(url, "DROP TABLE tokens")
    shown = signed_in.get("/")
    assert shown.status_code == 200
    assert "cannot read its store" in shown.text


def _events(stream: IO[bytes]) -> Iterator[Any]:
    """Return the views of a stream of events."""
    for line in stream:
        if line.startswith(b'data: {"now"'):
            yield json.loads(line.removeprefix(b"data: "))["view"]


def test_changes_are_told_as_they_happen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/live.db"
    with (
        private_coordinator(store, model="news", recipe=RECIPE) as address,
        urllib.request.urlopen(f"{address}/board/events?model=news", timeout=30) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        views = _events(stream)
        assert next(views)["version"] == 0
        with fb.connect(address, model="news", agent="phone") as agent:
            for k in range(40):
                decision = agent.decide(np.eye(4))
                agent.reward(decision.id, 0.25 * (k % 4))
        after = next(view for view in views if view["observations"] == 40)
    assert after["totals"]["observations"] == 40
    assert after["average"] == pytest.approx(0.375)
    store_again = open_store(store)
    total = store_again.totals()["news"]
    store_again.close()
    assert (total.rewards, total.judged) == (40, 40)  # agents tell what they estimated
    assert total.earned == pytest.approx(15.0)
    assert 0.0 < total.errors < 40.0
    assert total.joins >= 1
    assert total.sent > 0
