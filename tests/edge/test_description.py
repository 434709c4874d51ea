"""The sidecar does what its description says, for whatever the description allows and more."""

import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import positive_data_acceptance

import fedbandit as fb
from fedbandit.edge.app import make_app
from tests.client.twin import Twin, joined_to

REFUSALS = {"expected-statuses": [400, 404, 405, 409, 413, 415, 422]}  # 413: some are that large


@pytest.fixture(scope="module")
def described() -> Iterator[BaseSchema]:
    """The description, as a running sidecar gives it."""
    agent = joined_to(Twin(fb.FSCLB(dimension=16, sketch_size=5, agents=3)))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(agent), log_config=None, lifespan="on"))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield schemathesis.openapi.from_url(
        f"http://127.0.0.1:{listener.getsockname()[1]}/openapi.json",
        wait_for_schema=10,
        config=SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": REFUSALS}}),
    )
    server.should_exit = True
    thread.join()
    listener.close()


OPERATIONS = [
    ("/rank", "POST", GenerationMode.POSITIVE),
    ("/rank", "POST", GenerationMode.NEGATIVE),
    ("/events/{id}/reward", "POST", GenerationMode.POSITIVE),
    ("/events/{id}/reward", "POST", GenerationMode.NEGATIVE),
    ("/events/{id}/activate", "POST", GenerationMode.POSITIVE),
    ("/healthz", "GET", GenerationMode.POSITIVE),
    ("/metrics", "GET", GenerationMode.POSITIVE),
]


every_operation = pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)


def hold_to_the_description(
    described: BaseSchema, path: str, method: str, mode: GenerationMode, *, examples: int
) -> None:
    """Not that all is accepted: that ids differ, say, no description can tell."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(described[path][method].as_strategy(generation_mode=mode))
    def holds(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    holds()


@every_operation
def test_answers_are_as_described(
    described: BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    hold_to_the_description(described, path, method, mode, examples=40)


@pytest.mark.chaos
@every_operation
def test_answers_are_as_described_to_many_more(
    described: BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    hold_to_the_description(described, path, method, mode, examples=2000)
