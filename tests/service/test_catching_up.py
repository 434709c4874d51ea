"""Who has what the coordinator would send is sent nothing, and nobody else is spared it."""

from collections.abc import Callable

import numpy as np
import pytest
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.state.learner import Learner
from fedbandit.service.models.undo import roll_back
from fedbandit.service.storage.contract import Model
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import client_of, make_model, post, state_path, stored

D = 12
RECIPES = {  # what is stored is what is sent, or more, or in full where that is rounded
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=4, agents=2),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=2),
    "triangle": fb.FedLinUCB(dimension=D, agents=2, wire="float64"),
    "FedLinUCB, rounded": fb.FedLinUCB(dimension=D, agents=2, wire="int8"),
    "rounded": fb.FSCLB(dimension=D, sketch_size=4, agents=2, wire="bfloat16"),
    "lean": fb.FSCLB.lean(dimension=D, agents=2),
    "lean, fixed": fb.FSCLB.lean(dimension=D, sketch_size=4, agents=2),
}


def ask(client: TestClient, have: str | None = None) -> wire.Joined:
    """Join, or catch up from the download with this digest."""
    answer = client.get(
        state_path(), params={"format": "2"} | ({} if have is None else {"have": have})
    )
    assert answer.status_code == 200, answer.text
    return wire.decode_joined(answer.content)


def deliver(client: TestClient, learner: Learner) -> wire.Synced:
    """Let an honest agent observe a little, and post it."""
    rng = np.random.default_rng(learner.outbox.sequence)
    for arm in rng.standard_normal((7, D)):
        learner.observe(arm, float(rng.uniform(-1, 1)))
    learner.flush()
    box = learner.outbox = learner.outbox.next_in_flight(learner.packed)
    assert box.in_flight is not None
    synced = post(client, wire.Sync(learner.fingerprint, box.life, box.sequence, box.in_flight))
    learner.acknowledge(synced)
    return synced


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_download_is_left_out_for_its_own_digest_alone(
    sqlite_url: Callable[[], str], recipe: fb.Recipe
) -> None:
    """However it came, with joining or in answer to an upload, and after a restart too."""
    url, learner, told = sqlite_url(), Learner.fresh(recipe, bytes(16)), []
    make_model(url, "news", recipe)
    for _ in range(5):
        with client_of(url) as client:
            told.append(ask(client).digest)
            assert ask(client, told[-1]).download is None
            synced = deliver(client, learner)
            assert learner.digest == synced.digest
            for old in told:
                assert ask(client, old).digest == synced.digest
            assert ask(client, synced.digest).download is None
        with client_of(url) as client:
            assert ask(client, synced.digest).download is None
    assert len({*told}) == 5
    assert stored(url).version == 5


def test_another_state_at_the_same_version_is_sent(sqlite_url: Callable[[], str]) -> None:
    digests = []
    for seed in (1, 2):
        url = sqlite_url()
        make_model(url, "news", RECIPE)
        with client_of(url) as client:
            digests.append(post(client, sync_for(RECIPE, seed)).digest)
            assert ask(client, digests[-1]).download is None
            if seed == 2:
                caught_up = ask(client, digests[0])
                assert caught_up.download is not None
                assert caught_up.download.version == 1
                assert caught_up.digest == digests[1] != digests[0]


def test_a_version_alone_is_not_enough(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
        answer = client.get(state_path(), params={"version": "1", "format": "2"})
        assert wire.decode_joined(answer.content).download is not None


def test_since_comes_before_have(sqlite_url: Callable[[], str]) -> None:
    """A version that was reached says all; one that was not is as if it had not been said."""
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url) as client:
        digest = post(client, sync_for(RECIPE, 1)).digest
        for since, have, sent, told in (
            ("1", digest, False, ""),
            ("1", "0" * 64, False, ""),
            ("2", digest, False, digest),
            ("2", "0" * 64, True, digest),
        ):
            asked = {"format": "2", "since": since, "have": have}
            joined = wire.decode_joined(client.get(state_path(), params=asked).content)
            assert (joined.download is not None, joined.digest) == (sent, told)


def test_what_is_set_back_while_one_asks_is_told_with_what_is_left(
    sqlite_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two questions that an answer is made of: or nobody hears that it was."""
    make_model(url := sqlite_url(), "news", RECIPE)
    store = open_store(url)
    outline = store.outline

    def then_forgotten(name: str) -> tuple[Model, bytes]:
        monkeypatch.undo()
        before = outline(name)
        with store.lock(name) as locked:
            roll_back(locked, 0)
        return before

    with client_of(store) as client:
        post(client, sync_for(RECIPE, 1))
        monkeypatch.setattr(store, "outline", then_forgotten)
        joined = ask(client)
    assert joined.download is not None
    assert (joined.download.version, joined.download.statistics.count) == (2, 0)
    assert joined.set_back == 2
