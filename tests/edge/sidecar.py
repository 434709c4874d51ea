"""A sidecar in this process."""

from starlette.testclient import TestClient

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import make_app
from fedbandit.web.host_names import LOCAL, HostNames


def sidecar(agent: ConnectedAgent, names: HostNames = LOCAL) -> TestClient:
    """Return a client of an agent's sidecar, to be entered; it says localhost, as programs do."""
    return TestClient(make_app(agent, names), base_url="http://localhost")
