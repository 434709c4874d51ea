"""No web page gets at a sidecar: neither by a name of its own, nor from another site."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit.web.host_names import HostNames
from tests.client.twin import Twin, joined_to
from tests.edge.sidecar import sidecar
from tests.web.hosts import OURS, STRANGERS


@pytest.fixture
def client() -> Iterator[TestClient]:
    twin = Twin(fb.FSCLB(dimension=4, sketch_size=3, agents=2))
    names = HostNames(allowed=frozenset({"sidecar.internal"}))
    with sidecar(joined_to(twin), names) as made:
        yield made


@pytest.mark.parametrize("host", [*OURS, "sidecar.internal", "Sidecar.Internal:80"])
def test_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == HTTPStatus.OK


@pytest.mark.parametrize("host", STRANGERS)
@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/rank", "/nowhere"])
def test_other_names_are_not(client: TestClient, host: str, path: str) -> None:
    headers = {"Host": host, "Content-Type": "application/json"}
    question = {"actions": [{"id": "a"}]}
    answer = client.request("POST", path, json=question, headers=headers)
    assert answer.status_code == HTTPStatus.MISDIRECTED_REQUEST
    assert answer.json()["error"]["field"] == "host"
    assert client.get("/healthz").json()["decisions"] == 0


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://10.0.0.1:3000", ""])
def test_pages_of_other_sites_are_not_answered(client: TestClient, origin: str) -> None:
    client.post("/rank", json={"eventId": "e", "actions": [{"id": "a"}], "deferActivation": True})
    answer = client.post("/events/e/activate", headers={"Origin": origin})
    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert answer.json()["error"]["field"] == "origin"
    own = client.post("/events/e/activate", headers={"Origin": "http://localhost:8401"})
    assert own.status_code == HTTPStatus.NO_CONTENT
