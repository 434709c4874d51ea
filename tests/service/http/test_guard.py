"""No web page gets at a coordinator that asks for no tokens."""

from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from fedbandit import wire
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.address import Address
from fedbandit.service.http.guard import guarded
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import BODY, make_model, make_token, state_path, stored, sync_path
from tests.web.hosts import OURS, STRANGERS

HERE = Address(host="127.0.0.1", port=8400)
OPEN = Settings(open=True, allowed_hosts=frozenset({"coordinator.internal"}))


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    return made


def client_at(url: str, settings: Settings) -> TestClient:
    return TestClient(guarded(Coordinator(open_store(url), settings), HERE))


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with client_at(url, OPEN) as made:
        yield made


@pytest.mark.parametrize("host", [*OURS, "coordinator.internal", "Coordinator.Internal:80"])
def test_own_names_are_answered(client: TestClient, host: str) -> None:
    for path in ("/healthz", state_path()):
        assert client.get(path, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", STRANGERS)
def test_other_names_are_not_and_nothing_is_merged(client: TestClient, url: str, host: str) -> None:
    body = wire.encode_sync(sync_for(RECIPE, 1))
    answers = [
        client.post(sync_path(), content=body, headers={"Host": host, **BODY}),
        *(
            client.get(path, headers={"Host": host})
            for path in (state_path(), "/healthz", "/readyz", "/metrics", "/docs", "/nowhere")
        ),
    ]
    assert {answer.status_code for answer in answers} == {421}
    assert {answer.json()["error"]["field"] for answer in answers} == {"host"}
    assert stored(url).version == 0
    refused = f'fedbandit_refused_total{{status="421"}} {len(answers)}'
    assert refused in client.get("/metrics", headers={"Host": "localhost"}).text


def test_pages_of_other_sites_are_not_answered(client: TestClient, url: str) -> None:
    body, known = wire.encode_sync(sync_for(RECIPE, 1)), {"Host": "localhost", **BODY}
    for origin in ("https://evil.example", "null"):
        answer = client.post(sync_path(), content=body, headers={**known, "Origin": origin})
        assert (answer.status_code, answer.json()["error"]["field"]) == (403, "origin")
    assert stored(url).version == 0
    assert client.post(sync_path(), content=body, headers=known).status_code == 200


def test_with_tokens_any_name_will_do(url: str) -> None:
    token = make_token(url, model="news", agent="phone")
    with client_at(url, Settings()) as client:
        for host in ("coordinator.example", "10.0.0.1:8400"):
            headers = {"Host": host, "Authorization": f"Bearer {token}"}
            assert client.get(state_path(), headers=headers).status_code == 200


def test_a_fleets_own_coordinator_is_guarded_too(sqlite_url: Callable[[], str]) -> None:
    with private_coordinator(sqlite_url(), model="news", recipe=RECIPE) as address:
        connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
        for host, status in (("evil.example", 421), ("localhost", 200)):
            connection.request("GET", "/healthz", headers={"Host": host})
            with connection.getresponse() as answer:
                answer.read()
                assert answer.status == status
        connection.close()
