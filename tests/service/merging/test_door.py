"""The door lets in whatever agents can observe, rounding and all."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow, Width, narrowed
from fedbandit.core.memory.summary import sketch_of
from fedbandit.core.statistics import Rewards
from fedbandit.errors import InvalidMessage
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.upload import check_sync
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
        (0.4, 0.9, 9.0, "upload.moment"),
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


def refusal(recipe: fb.Recipe, statistics: fb.Statistics) -> str:
    """Return the field for which an upload is refused; "" if it is let in."""
    served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
    sync = wire.Sync(served.model.fingerprint, bytes(16), 1, fb.Upload(0, statistics))
    try:
        check_sync(served, sync)
    except InvalidMessage as error:
        return error.field
    return ""


@pytest.mark.parametrize("tiny", [1e-150, 1e-305, 1e-308, 1e-313, 5e-324])
@pytest.mark.parametrize("size", [0.0, 1.0, 99.0])
@pytest.mark.parametrize("level", [0, 1, 255])
def test_numbers_that_are_hardly_any_are_refused_by_name(
    tiny: float, size: float, level: int
) -> None:
    """No moment is explained by them, and nothing overflows."""
    d, recipe = 6, fb.FSCLB.lean(dimension=6, agents=2)
    levels = np.full(d, level, np.uint8)
    levels[0] = 255
    told = Rewards(100, 0.0, 100.0)
    for lost in (0.0, tiny / d, tiny, d * tiny):
        summary = Fitted(np.zeros((0, d), np.int32), 1.0, levels, tiny, lost, 1.0)
        statistics = fb.Statistics(summary, size * np.eye(d)[-1], 100, told)
        field = refusal(recipe, statistics)
        assert (field != "") if size else field in ("", "upload.summary.lost")
    shed = fb.Sketch(np.zeros((0, d)), tiny, 4)
    field = refusal(
        fb.FSCLB(dimension=d, sketch_size=4, agents=2),
        fb.Statistics(shed, size * np.eye(d)[-1], 100),
    )
    assert (field == "upload.moment") if size else (field == "")
    gram = fb.Gram(tiny * np.eye(d))
    for wire_form in ("float64", "float32", "int8"):
        made = fb.FedLinUCB(dimension=d, agents=2, wire=wire_form)
        sent = made.parts.memory.uploaded(
            fb.Statistics(gram, size * np.eye(d)[-1], 100), made.server().base
        )
        assert not size or refusal(made, sent) != ""


@pytest.mark.parametrize("tiny", [1e-200, 1e-300, 1e-310, 5e-324])
@pytest.mark.parametrize("lost", [1e-12, 1e-7, 1e-3])
def test_what_was_lost_beside_bounds_of_next_to_nothing_is_merged_or_refused_by_name(
    tiny: float, lost: float
) -> None:
    """What rows explain of a loss leaves room for it; its share of such bounds is no number."""
    recipe = fb.FSCLB.lean(dimension=6, agents=2)
    agent = recipe.agent(0)
    agent.observe(0.3 * np.random.default_rng(0).standard_normal(6), 0.5)
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    assert isinstance(upload.statistics.summary, Fitted)
    for moment in (np.zeros(6), upload.statistics.moment):
        summary = replace(upload.statistics.summary, top=tiny, lost=lost)
        statistics = replace(upload.statistics, summary=summary, moment=moment)
        if refusal(recipe, statistics) == "":
            server = recipe.server()
            merge(recipe, server, [upload])
            merge(recipe, server, [fb.Upload(0, statistics)])


def test_a_matrix_that_is_not_symmetric_is_refused_for_that() -> None:
    served = Served(new_model("m", GRAM, limits=LIMITS)[0], GRAM)
    matrix = np.full((GRAM.dimension, GRAM.dimension), 0.1)
    matrix[0, 1] = np.nextafter(0.1, 0.0)
    upload = fb.Upload(0, fb.Statistics(fb.Gram(matrix), np.zeros(GRAM.dimension), 1))
    with pytest.raises(InvalidMessage) as refused:
        check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    assert refused.value.field == "upload.summary.matrix"
    said = "not symmetric to the last bit: 0.09999999999999999 at [0, 1] and 0.1 at [1, 0]"
    assert said in str(refused.value)
    assert "expected a symmetric Gram matrix" in str(refused.value)


@pytest.mark.parametrize(("estimate", "lost"), [("paper", 0.0), ("averaged", None)])
def test_lost_is_nil_or_a_number_as_the_recipe_says(
    estimate: Literal["paper", "averaged"], lost: float | None
) -> None:
    recipe = fb.FSCLB(dimension=4, sketch_size=3, agents=2, estimate=estimate)
    rows, other = np.eye(4)[:2], None if lost is not None else 0.0
    for each, field in ((lost, "upload.summary.lost"), (other, "")):
        assert refusal(recipe, fb.Statistics(fb.Sketch(rows, 0.0, 3, each), rows[0], 5)) == field


@pytest.mark.parametrize(("weight", "field"), [(1.0, ""), (1.1, ""), (1.21, ""), (1.3, "weight")])
def test_rows_may_have_been_rounded_twice(weight: float, field: str) -> None:
    recipe = fb.FSCLB.lean(dimension=4, agents=2)
    codes = np.array([[100, 0, 0, 0]], np.int32)
    summary = Fitted(codes, 0.01, np.zeros(4, np.uint8), 0.0, 0.0, weight)
    statistics = fb.Statistics(summary, 0.1 * np.eye(4)[0], 5)
    assert refusal(recipe, statistics) == (field and f"upload.summary.{field}")


def test_what_was_shed_was_lost_as_many_times_as_the_sketch_is_large() -> None:
    recipe, none = fb.FSCLB(dimension=10, sketch_size=5, agents=2), np.zeros((0, 10))
    for share, field in ((0.199, ""), (0.201, "upload.summary.shed"), (1.0, "upload.summary.shed")):
        lie = fb.Statistics(fb.Sketch(none, share * 100.0, 5), np.zeros(10), 100)
        assert refusal(recipe, lie) == field
    auto = fb.FSCLB(dimension=10, sketch_size="auto", agents=2)
    for share, field in ((0.499, ""), (0.501, "upload.summary.shed")):
        sketch = fb.Sketch(none, share * 100.0, 11, 100.0)
        assert refusal(auto, fb.Statistics(sketch, np.zeros(10), 100)) == field
    rows = np.sqrt(50.0) * np.eye(10)[:1]
    for shed, field in ((9.99, ""), (10.01, "upload.summary.shed")):
        lie = fb.Statistics(fb.Sketch(rows, shed, 5), np.zeros(10), 100)
        assert refusal(recipe, lie) == field


@pytest.mark.parametrize("share", [1e-9, 1e-10, 1e-12])
def test_a_negative_eigenvalue_that_rounding_does_not_explain_is_refused(share: float) -> None:
    recipe, v = fb.FedLinUCB(dimension=10, agents=2), np.eye(10)[0]
    rest = 10.0 * (np.eye(10) - np.outer(v, v))
    u = np.ones(10) / np.sqrt(10.0)
    turn = np.eye(10) - 2.0 * np.outer(u - v, u - v) / ((u - v) @ (u - v))
    matrix = turn @ (rest - share * 90.0 * np.outer(v, v)) @ turn
    matrix = (matrix + matrix.T) / 2.0
    lie = fb.Statistics(fb.Gram(matrix), np.zeros(10), 100)
    assert refusal(recipe, lie) == "upload.summary.matrix"


@pytest.mark.parametrize("kind", ["gram", "sketch", "narrow"])
def test_a_moment_beside_the_arms_is_refused_whatever_lies_along_them(kind: str) -> None:
    """Half of this moment lies where no arm was played: |m|^2 <= R^2 count u^T X^T X u holds."""
    moment = 49.0 * (np.eye(10)[0] + np.eye(10)[1])
    rows = 10.0 * np.eye(10)[:1]
    summary: fb.Gram | fb.Sketch | Narrow = fb.Gram(rows.T @ rows)
    recipe = fb.FedLinUCB(dimension=10, agents=2)
    if kind != "gram":
        width: Width = "float64" if kind == "sketch" else "float32"
        recipe = fb.FSCLB(dimension=10, sketch_size=5, agents=2, wire=width)
        summary = fb.Sketch(rows, 0.0, 5)
        summary = narrowed(summary, width) if kind == "narrow" else summary
    assert refusal(recipe, fb.Statistics(summary, moment, 100)) == "upload.moment"
    honest = fb.Statistics(summary, 99.0 * np.eye(10)[0], 100)
    assert refusal(recipe, honest) == ""


def test_rewards_that_are_told_have_to_explain_the_moment_too() -> None:
    recipe, arm = fb.FedLinUCB(dimension=10, agents=2), np.eye(10)[0]
    gram, moment = fb.Gram(100.0 * np.outer(arm, arm)), 50.0 * arm
    for squares, field in ((25.0, ""), (24.9, "upload.moment")):
        rewards = Rewards(100, 49.0, squares)
        assert refusal(recipe, fb.Statistics(gram, moment, 100, rewards)) == field
    assert refusal(recipe, fb.Statistics(gram, moment, 100)) == ""


def test_a_mass_too_small_to_divide_by_is_refused_as_any_other() -> None:
    recipe = fb.FSCLB.lean(dimension=3, agents=2)
    served = Served(new_model("m", recipe, limits=LIMITS)[0], recipe)
    none = np.zeros((0, 3), np.int32)
    faint = Fitted(none, 1.0, np.full(3, 255, np.uint8), 5e-324, 5e-324, 1.1)
    sync = wire.Sync(
        served.model.fingerprint, bytes(16), 1, fb.Upload(0, fb.Statistics(faint, np.ones(3), 9))
    )
    with pytest.raises(InvalidMessage, match="moment"):
        check_sync(served, sync)
