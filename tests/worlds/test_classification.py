"""The classification world deals out every instance of every class and pays the target."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import Classification, Dataset


def blobs(counts: list[int], *, features: int = 3, seed: int = 0) -> Dataset:
    labels = np.repeat(np.arange(len(counts)), counts)
    values = np.random.default_rng(seed).normal(size=(len(labels), features))
    return Dataset("blobs", values, labels, tuple("abcdefgh"[: len(counts)]))


def expected_arms(features: NDArray[np.float64]) -> NDArray[np.float64]:
    arms = []
    for row in features:
        standard = [
            (value - np.mean(column)) / np.std(column)
            for value, column in zip(row, features.T, strict=True)
        ]
        arms.append(np.array([*standard, 1.0]) / np.sqrt(np.sum(np.square(standard)) + 1.0))
    return np.array(arms)


def rows_dealt(world: Classification, n: int) -> NDArray[np.int64]:
    """Which row of the data each arm is, rounds x classes, found by comparing values."""
    instances = expected_arms(world.dataset.features)
    arms = np.array([shown.arms for shown in world.rounds(n)])
    distances = np.abs(arms[:, :, np.newaxis] - instances).max(axis=-1)
    assert distances.min(axis=-1).max() < 1e-12
    return np.asarray(distances.argmin(axis=-1), dtype=np.int64)


@given(
    st.lists(st.integers(1, 7), min_size=2, max_size=4).filter(lambda counts: max(counts) > 1),
    st.integers(0, 50),
)
def test_each_class_is_dealt_out_whole_before_any_instance_returns(
    counts: list[int], seed: int
) -> None:
    world = Classification(data=blobs(counts), seed=seed)
    dealt = rows_dealt(world, 30)
    for index, count in enumerate(counts):
        members = set(np.flatnonzero(world.dataset.labels == index))
        for start in range(0, 30 - count + 1, count):
            assert set(dealt[start : start + count, index]) == members


def test_every_pass_is_shuffled_anew_and_all_orders_occur() -> None:
    dealt = rows_dealt(Classification(data=blobs([3, 1])), 3 * 600)
    orders = Counter(map(tuple, dealt[:, 0].reshape(600, 3)))
    assert len(orders) == 6
    assert max(abs(count - 100) for count in orders.values()) < 50


def test_classes_are_shuffled_independently() -> None:
    dealt = rows_dealt(Classification(data=blobs([20, 20])), 20)
    assert list(dealt[:, 0]) != list(dealt[:, 1] - 20)


@pytest.mark.parametrize("target", [0, 1, 2])
def test_the_target_pays_one_and_the_others_nothing(target: int) -> None:
    world = Classification(data=blobs([4, 2, 5]), target=target)
    for shown in world.rounds(20):
        assert shown.means.tolist() == [float(k == target) for k in range(3)]
        assert shown.rewards is shown.means
        np.testing.assert_allclose(np.linalg.norm(shown.arms, axis=1), 1)


def test_the_target_changes_the_pay_and_nothing_else() -> None:
    data = blobs([4, 2, 5])
    tapes = [list(Classification(data=data, target=k, seed=3).rounds(20)) for k in (0, "c")]
    for left, right in zip(*tapes, strict=True):
        assert left.agent == right.agent
        np.testing.assert_array_equal(left.arms, right.arms)
        assert left.means.argmax() == 0
        assert right.means.argmax() == 2


def test_pay_cannot_be_written() -> None:
    (shown,) = Classification(data=blobs([2, 2])).rounds(1)
    with pytest.raises(ValueError, match="read-only"):
        shown.rewards[0] = 5.0


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.3, 1e-320, 1e308])
def test_a_constant_feature_stays_zero(constant: float) -> None:
    data = blobs([30, 31])
    features = np.insert(data.features, 1, constant, axis=1)
    world = Classification(data=Dataset("constant", features, data.labels, data.classes))
    plain = Classification(data=data)
    for shown, without in zip(world.rounds(50), plain.rounds(50), strict=True):
        assert not shown.arms[:, 1].any()
        np.testing.assert_allclose(np.delete(shown.arms, 1, axis=1), without.arms, atol=1e-15)


@given(st.floats(1e-200, 1e200), st.floats(-3, 3))
def test_units_of_a_feature_do_not_matter(scale: float, shift: float) -> None:
    data = blobs([3, 4])
    features = (data.features + shift) * scale
    world = Classification(data=Dataset("other units", features, data.labels, data.classes))
    for shown, plain in zip(world.rounds(9), Classification(data=data).rounds(9), strict=True):
        np.testing.assert_allclose(shown.arms, plain.arms, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "dimension", "classes"), [("satimage", 37, 6), ("mfeat-zernike", 48, 10)]
)
def test_bundled_worlds(name: str, dimension: int, classes: int) -> None:
    world = Classification(data=name)
    assert world.dimension == dimension
    assert world.agents == 10
    (shown,) = world.rounds(1)
    assert shown.arms.shape == (classes, dimension)
    assert repr(world) == (
        f"Classification(data={name!r}, target=0, agents=10, seed=0, target_column=None, "
        "categories='refuse')"
    )


def test_params_follow_content_and_class_not_how_they_were_named() -> None:
    world = Classification(data="satimage", target="cotton crop")
    assert world.params == Classification(data=world.dataset, target=1).params
    assert world.params["digest"] == world.dataset.digest
    other = Dataset(
        "satimage", world.dataset.features + 1, world.dataset.labels, world.dataset.classes
    )
    assert Classification(data=other, target=1).params != world.params


def test_an_unknown_class_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"red sail.*red soil.*Did you mean 'red soil'"):
        Classification(data="satimage", target="red sail")


@pytest.mark.parametrize("target", [-1, 6, 1.0, True, None])
def test_an_impossible_index_is_told_the_range(target: int) -> None:
    with pytest.raises(
        InvalidParameter,
        match=r"^target must be .* from 0 to 5 \(a class of data set .satimage.\); got ",
    ):
        Classification(data="satimage", target=target)


def test_a_dataset_has_no_target_column() -> None:
    with pytest.raises(InvalidParameter, match="target_column"):
        Classification(data=blobs([2, 2]), target_column="label")
