"""What every transport between agents and their coordinator must do."""

from collections.abc import Iterator
from contextlib import closing
from typing import Protocol

import numpy as np
import pytest

from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import open_state, waiting_for
from fedbandit.client.state.directory import Identity
from fedbandit.client.transport import Transport
from fedbandit.core.algorithms.baselines import FedLinUCB
from fedbandit.core.messages import Collect, Upload
from fedbandit.errors import Refused, Unreachable
from fedbandit.testing.coordinators import RunningCoordinator, coordinator

AGENT = "phone"
RECIPE = FedLinUCB(dimension=100, agents=2)  # messages of 80 kB: more than one packet


class OpenTransport(Protocol):
    """Makes a transport for one agent of the coordinator at ``url``."""

    def __call__(self, url: str, *, model: str, agent: str, token: str | None) -> Transport:
        """Return the transport; it need not be connected yet."""
        ...


class TransportContract:
    """Tests of a transport, by the words of ``fedbandit.client.transport.Transport``.

    Give a fixture ``open_transport`` that returns a function ``(url, *, model, agent, token)``. At
    ``url`` is a real coordinator; whatever stands between it and your transport, such as a gateway
    of your own, the fixture has to start.
    """

    @pytest.fixture
    def served(self) -> Iterator[RunningCoordinator]:
        """Return a coordinator that runs."""
        with coordinator(RECIPE) as running:
            yield running

    @pytest.fixture
    def transport(
        self, served: RunningCoordinator, open_transport: OpenTransport
    ) -> Iterator[Transport]:
        """Return a transport of an agent that the coordinator lets in."""
        token = served.token(AGENT)
        with closing(open_transport(served.url, model="model", agent=AGENT, token=token)) as mine:
            yield mine

    def test_an_agent_is_told_its_model(self, transport: Transport) -> None:
        answer = wire.decode_joined(transport.exchange(wire.state_path()))
        assert answer.fingerprint == wire.fingerprint(RECIPE)
        assert answer.download is not None

    def test_what_is_sent_twice_is_answered_twice_and_counts_once(
        self, served: RunningCoordinator, transport: Transport
    ) -> None:
        body = wire.encode_sync(_sync(1))
        first = wire.decode_synced(transport.exchange("sync", body))
        again = wire.decode_synced(transport.exchange("sync", body))
        assert (first.merged, again.merged) == (True, False)
        assert first.version == again.version == 1
        assert served.state().count == 1

    def test_it_goes_on_after_it_was_closed(self, transport: Transport) -> None:
        before = transport.exchange(wire.state_path())
        transport.close()
        transport.close()
        assert transport.exchange(wire.state_path()) == before

    def test_what_the_coordinator_refuses_is_told_with_status_and_field(
        self, transport: Transport
    ) -> None:
        with pytest.raises(Refused) as caught:
            transport.exchange("sync", wire.encode_sync(_sync(0)))
        assert (caught.value.status, caught.value.field) == (422, "sequence")
        with pytest.raises(Refused):
            transport.exchange("sync", b"hello")
        assert wire.decode_synced(transport.exchange("sync", wire.encode_sync(_sync(1)))).merged

    @pytest.mark.parametrize("token", [None, "wrong"])
    def test_an_agent_without_its_token_is_refused(
        self, served: RunningCoordinator, open_transport: OpenTransport, token: str | None
    ) -> None:
        with closing(open_transport(served.url, model="model", agent=AGENT, token=token)) as mine:
            with pytest.raises(Refused) as caught:
                mine.exchange(wire.state_path())
            assert caught.value.status == 401

    def test_a_coordinator_that_is_gone_is_unreachable(self, open_transport: OpenTransport) -> None:
        with coordinator(RECIPE) as gone:
            token = gone.token(AGENT)
            mine = open_transport(gone.url, model="model", agent=AGENT, token=token)
            mine.exchange(wire.state_path())
        with closing(mine):
            for _ in range(2):
                with pytest.raises(Unreachable):
                    mine.exchange(wire.state_path())
                with pytest.raises(Unreachable):
                    mine.exchange("sync", wire.encode_sync(_sync(1)))

    def test_an_agent_delivers_everything_over_it(
        self, served: RunningCoordinator, transport: Transport
    ) -> None:
        who = Identity(model="model", agent=AGENT)
        state = open_state(transport, who, waiting=waiting_for(None, None))
        with ConnectedAgent(state, transport) as agent:
            for arm in np.eye(20, RECIPE.dimension):
                agent.reward(agent.decide([arm]).id, 1.0)
            assert agent.sync(everything=True)
        merged = served.state()
        assert merged.count == 20
        np.testing.assert_array_equal(merged.moment, np.eye(20, RECIPE.dimension).sum(axis=0))


def _sync(sequence: int) -> wire.Sync:
    """Return the envelope of an upload of one observation; sequences begin with 1."""
    agent = RECIPE.agent(0)
    upload = agent.observe(np.ones(RECIPE.dimension), 1.0) or agent.receive(Collect())
    assert isinstance(upload, Upload)
    return wire.Sync(wire.fingerprint(RECIPE), bytes(wire.LIFE_BYTES), sequence, upload)
