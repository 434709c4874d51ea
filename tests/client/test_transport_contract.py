"""The contract of every transport, on the one that is shipped."""

from functools import partial

import pytest

from fedbandit.client.transport import HttpTransport
from fedbandit.testing import OpenTransport, TransportContract


class TestHttp(TransportContract):
    @pytest.fixture
    def open_transport(self) -> OpenTransport:
        return partial(HttpTransport, timeout=5.0)
