"""The door lets in whatever agents can observe, rounding and all."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import sketch_of
from fedbandit.errors import InvalidMessage
from fedbandit.service.merging.validation import check_sync
from fedbandit.service.models.model import Served, new_model
from tests.service.made_uploads import GRAM, RECIPE

LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=100)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), scale=st.sampled_from([1e-6, 1.0]))
def test_honest_uploads_have_their_evidence(seed: int, count: int, scale: float) -> None:
    for recipe in (RECIPE, GRAM):
        served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
        rng = np.random.default_rng(seed)
        arms = rng.standard_normal((count, 1)) * rng.standard_normal(recipe.dimension)
        arms *= scale / np.linalg.norm(arms, axis=1, keepdims=True)
        rewards = np.where(np.arange(count) % 2, 1.0, -1.0) * rng.choice([1.0, -1.0])
        moment = rewards @ arms  # all on one line, and all but cancelled: what is left is rounding
        summary = sketch_of(arms, shed=0.0, size=3) if recipe is RECIPE else fb.Gram(_gram(arms))
        upload = fb.Upload(0, fb.Statistics(summary, moment, count))
        sync = wire.Sync(served.model.fingerprint, bytes(16), 1, upload)
        check_sync(served, sync)


def _gram(arms: Array) -> Array:
    matrix = np.zeros((arms.shape[1], arms.shape[1]))
    for arm in arms:
        matrix += np.outer(arm, arm)
    return matrix


LEAN = fb.FSCLB(
    dimension=6,
    sketch_size="auto",
    agents=2,
    cadence="buffered",
    estimate="corrected",
    wire="int8",
    budget=150,
)


@pytest.mark.parametrize(
    ("shed", "lost", "moment", "field"),
    [
        (0.0, 9.9e149, 0.0, "upload.summary.lost"),  # would drown every estimate
        (0.5, 2.0, 0.0, "upload.summary.lost"),  # more than count and the longest arm leave
        (0.1, 0.9, 0.0, "upload.summary.lost"),  # more than d times what was shed
        (0.9, 0.0, 0.0, "upload.summary.shed"),  # shed without a loss
        (0.9, 0.9, 9.0, "upload.moment"),
        (np.nan, 0.0, 0.0, "upload.summary.shed"),
        (0.0, None, 0.0, "upload.summary.lost"),
    ],
)
def test_losses_must_be_possible(
    shed: float, lost: float | None, moment: float, field: str
) -> None:
    served = Served(new_model("m", LEAN, limits=LIMITS)[0], LEAN)
    empty = LEAN.parts.memory.empty().summary
    assert isinstance(empty, fb.Sketch)
    codes = np.zeros((0, 6), np.int8)
    summary = Narrow("int8", codes, np.zeros(0), shed, empty.size, lost)
    upload = fb.Upload(0, fb.Statistics(summary, moment * np.eye(6)[0], 1))
    with pytest.raises(InvalidMessage) as refused:
        check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    assert refused.value.field == field


@pytest.mark.parametrize("estimate", ["paper", "corrected"])
@pytest.mark.parametrize(
    ("bound", "lost", "weight", "field"),
    [
        ([-1.0] * 4, 0.0, 1.0, "upload.summary.bound"),
        ([-1e9, 1e9, 0.0, 0.0], 0.0, 1.0, "upload.summary.bound"),  # 0 in all
        ([0.0] * 5, 0.0, 1.0, "upload.summary.bound"),
        ([np.nan] * 4, 0.0, 1.0, "upload.summary.bound"),
        ([0.0] * 4, -1.0, 1.0, "upload.summary.lost"),
        ([0.0] * 4, 0.0, -5.0, "upload.summary.weight"),
        ([0.0] * 4, 0.0, np.nan, "upload.summary.weight"),
    ],
)
def test_bounds_by_coordinate_must_be_possible(
    bound: list[float], lost: float, weight: float, field: str, estimate: Literal["paper"]
) -> None:
    recipe = fb.FSCLB(
        dimension=4, sketch_size=3, agents=2, estimate=estimate, compensation="coordinates"
    )
    served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
    summary = LossyRows(np.eye(4)[:2], np.array(bound), lost, weight)
    upload = fb.Upload(0, fb.Statistics(summary, 0.1 * np.eye(4)[0], 5))
    sync = wire.Sync(served.model.fingerprint, bytes(16), 1, upload)
    with pytest.raises(InvalidMessage) as refused:
        check_sync(served, wire.decode_sync(wire.encode_sync(sync)))
    assert refused.value.field == field
