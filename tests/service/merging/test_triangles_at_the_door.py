"""What a coordinator asks of a triangle before it merges it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.triangle import TRIANGLE_CODES, Triangle, triangle_of
from fedbandit.errors import InvalidMessage
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.upload import check_sync
from tests.service.made_uploads import TRIANGLE, sync_for
from tests.service.running import BODY, client_of, make_model, state_path, stored, sync_path

LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=100)
ROOM = Triangle("int8", np.ones(3), np.zeros(3, np.int8), 0.0, 0.0).room


def refused(recipe: fb.Recipe, summary: Any, moment: list[float], count: int = 2) -> str:
    """Return the field by which an upload is refused, "" if it is taken."""
    served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
    upload = fb.Upload(0, fb.Statistics(summary, np.array(moment), count))
    try:
        check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    except InvalidMessage as error:
        return error.field
    return ""


def triangle(
    *codes: int, diagonal: tuple[float, ...] = (1.0, 0.5, 0.0), raised: float = 0.0, shed: float = 0
) -> Triangle:
    return Triangle("int8", np.array(diagonal), np.array(codes, np.int8), raised, shed)


ZERO = [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("summary", "moment", "field"),
    [
        (triangle(60, 0, 0), ZERO, ""),
        (triangle(60, 0, 0, raised=0.01, shed=0.02), [0.9, 0.2, 0.0], ""),
        (triangle(60, 0, 0, raised=0.01, shed=1.01 * 2 * ROOM * 1.515), ZERO, "summary.shed"),
        (triangle(60, 0, 0, shed=np.nan), ZERO, "summary.shed"),
        (triangle(60, 0, 0, shed=-1e-9), ZERO, "summary.shed"),
        (triangle(60, 0, 0, raised=np.inf), ZERO, "summary.raised"),
        (triangle(60, 0, 0, raised=-1e-9), ZERO, "summary.raised"),
        (triangle(60, 0, 0, raised=0.4), ZERO, "summary"),  # a trace that two arms cannot have
        (triangle(127, 127, -127, diagonal=(0.6, 0.6, 0.6)), ZERO, "summary.data"),  # indefinite
        (triangle(-128, 0, 0), ZERO, "summary.data"),  # a ratio beyond -1
        (triangle(60, 0, 0), [9.0, 0.0, 0.0], "moment"),
        (triangle(60, 0, 0, shed=2 * ROOM * 1.5), [0.0, 0.0, 1e-3], "moment"),  # no such arm
        (triangle(0, 0, 0, diagonal=(1.0, 1e-6, 0.0), shed=0.01), [0.0, 0.1, 0.0], "moment"),
        (fb.Gram(np.diag([1.0, 0.5, 0.0])), ZERO, "summary"),
        (triangle_of(fb.Gram(np.diag([1.0, 0.5, 0.0])), "float64"), ZERO, "summary.width"),
        (triangle_of(fb.Gram(np.diag([1.0, 0.5])), "int8"), ZERO, "summary.dimension"),
        (fb.Sketch(np.eye(1, 3), 0.0, 3), ZERO, "summary"),
    ],
)
def test_triangles_must_be_possible(summary: Any, moment: list[float], field: str) -> None:
    assert refused(TRIANGLE, summary, moment) == (field and f"upload.{field}")


def test_in_float64_nothing_was_added() -> None:
    recipe = fb.FedLinUCB(dimension=2, agents=1, wire="float64")
    exact = triangle_of(fb.Gram(np.diag([1.0, 0.5])), "float64")
    lifted = triangle_of(fb.Gram(np.diag([1.0, 0.5]), 1e-6), "float64")
    assert refused(recipe, exact, [0.0, 0.0]) == ""
    assert refused(recipe, lifted, [0.0, 0.0]) == "upload.summary.shed"
    assert refused(recipe, fb.Gram(np.diag([1.0, 0.5])), [0.0, 0.0]) == "upload.summary"
    full = fb.FedLinUCB(dimension=2, agents=1)
    assert refused(full, exact, [0.0, 0.0]) == "upload.summary"


@settings(max_examples=60, deadline=None)
@given(
    width=st.sampled_from(sorted(TRIANGLE_CODES)),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    scale=st.sampled_from([1e-6, 1.0]),
)
def test_honest_triangles_have_their_evidence(
    width: Any, seed: int, count: int, scale: float
) -> None:
    """Also where an estimate predicts far too much, and arms on one line all but cancel."""
    rng = np.random.default_rng(seed)
    recipe = fb.FedLinUCB(dimension=5, agents=2, wire=width)
    rank = int(rng.integers(1, 6))
    arms = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, 5))
    arms *= scale / np.linalg.norm(arms, axis=1, keepdims=True)
    rewards = np.where(np.arange(count) % 2, 1.0, -1.0) * rng.choice([1.0, -1.0])
    agent, paid = recipe.agent(0), fb.Rewards(count, float(rewards.sum()), float(count))
    known = fb.Statistics(fb.Gram(1e3 * np.eye(5)), 1e9 * rng.standard_normal(5), 1)
    agent.receive(fb.Download(known, 1))
    sent = agent.packed(
        fb.Upload(0, fb.Statistics(fb.Gram(_gram(arms)), rewards @ arms, count, paid))
    ).statistics
    assert refused(recipe, sent.summary, sent.moment.tolist(), count) == ""


def _gram(arms: Any) -> Any:
    matrix = np.zeros((arms.shape[1], arms.shape[1]))
    for arm in arms:
        matrix += np.outer(arm, arm)
    return matrix


def test_agents_of_format_1_are_refused_plainly(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", TRIANGLE)
    sync = sync_for(TRIANGLE, 1)
    old = wire.Sync(sync.fingerprint, sync.life, 1, sync.upload, format=1)
    with client_of(url) as client:
        for answer in (
            client.get(state_path().partition("?")[0]),  # those of version 1 do not ask
            client.post(sync_path(), content=wire.encode_sync(old), headers=BODY),
        ):
            assert answer.status_code == 409
            assert answer.json()["error"]["field"] == "format"
            assert "upgrade fedbandit on the device" in answer.json()["error"]["message"]
        answer = client.post(sync_path(), content=wire.encode_sync(sync), headers=BODY)
        assert answer.status_code == 200
        down = wire.decode_synced(answer.content).download
    assert isinstance(down.summary, Triangle)
    assert down.summary.width == "int8"
    kept = stored(url).summary
    assert isinstance(kept, Triangle)
    assert kept.width == "float64"  # in full precision, with what rounding has added
    assert kept.shed > 0.0
