"""A data set is checked when made, and known by its content."""

import hashlib
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import DataError, InvalidParameter, UnknownName
from fedbandit.worlds import Dataset

FEATURES = np.arange(8.0).reshape(4, 2)
LABELS = np.array([0, 1, 1, 0])


def make(**changes: Any) -> Dataset:
    parts = {"name": "toy", "features": FEATURES, "labels": LABELS, "classes": ("a", "b")}
    return Dataset(**{**parts, **changes})


def test_arrays_are_copied_and_cannot_be_written() -> None:
    features = FEATURES.copy()
    data = make(features=features)
    features[0, 0] = 99.0
    assert data.features[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        data.features[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 1


def test_digest_is_the_sum_of_shape_features_and_labels() -> None:
    content = b"(4, 2)" + FEATURES.astype("<f8").tobytes() + LABELS.astype("<i8").tobytes()
    assert make().digest == hashlib.sha256(content).hexdigest()


def test_digest_and_equality_follow_content() -> None:
    data = make()
    assert make(features=np.asfortranarray(FEATURES), labels=LABELS.astype(np.uint8)) == data
    assert make(features=FEATURES.astype(np.int16)).digest == data.digest
    assert make(name="other").digest == data.digest
    assert make(features=FEATURES + 1).digest != data.digest
    assert make(labels=1 - LABELS).digest != data.digest
    assert make(name="other") != data
    assert make(classes=("a", "c")) != data
    assert data != "toy"
    assert len({data, make(), pickle.loads(pickle.dumps(data))}) == 1
    assert repr(data) == "Dataset('toy', rows=4, features=2, classes=2)"


def with_value(value: float) -> Any:
    features = FEATURES.copy()
    features[2, 1] = value
    return features


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": FEATURES[0]}, r"features of shape \(2,\)"),
        ({"features": FEATURES[:, :0]}, r"features of shape \(4, 0\)"),
        ({"features": FEATURES[:0], "labels": LABELS[:0]}, r"features of shape \(0, 2\)"),
        ({"features": FEATURES.astype(str)}, "type <U"),
        ({"features": FEATURES.astype(object)}, "type object"),
        ({"features": FEATURES.astype(complex)}, "type complex"),
        ({"features": with_value(np.nan)}, "got nan in feature column 1, row 2, and 0 more"),
        ({"features": with_value(-np.inf)}, "got -inf in feature column 1, row 2"),
        ({"labels": LABELS[:3]}, r"labels of shape \(3,\).*expected 4 whole numbers"),
        ({"labels": LABELS.astype(float)}, "type float64"),
        ({"labels": LABELS * 0, "classes": ("a",)}, "got 1 class; expected two or more classes"),
        ({"classes": ("a", "a")}, "the class name 'a' twice"),
        ({"labels": LABELS * 0}, "2 class names and labels 0"),
        ({"labels": LABELS - 1}, "2 class names and labels -1, 0"),
        ({"labels": LABELS + 1}, "2 class names and labels 1, 2"),
        ({"labels": np.arange(4), "classes": tuple("abcd")}, "4 rows in 4 classes"),
    ],
)
def test_what_cannot_be_a_data_set(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"^data set 'toy': .*{message}"):
        make(**changes)


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["10", "9", "2", "9"], ("2", "9", "10"), [2, 1, 0, 1]),
        (["7.", "1.", "7.", "1."], ("1", "7"), [1, 0, 1, 0]),
        ([3, -1, 3, 3], ("-1", "3"), [1, 0, 1, 1]),
        (["1E2", "100", "100", "01"], ("01", "100", "1E2"), [2, 1, 1, 0]),
        (
            ["9007199254740993", "9007199254740992"] * 2,
            ("9007199254740992", "9007199254740993"),
            [1, 0, 1, 0],
        ),
        (["9" * 5000, "1", "1", "1"], ("1", "9" * 5000), [1, 0, 0, 0]),
        ([2.0, 1.0, 2.0, 2.0], ("1", "2"), [1, 0, 1, 1]),
        ([True, False, True, True], ("False", "True"), [1, 0, 1, 1]),
        (["b", "a", "b", "c"], ("a", "b", "c"), [1, 0, 1, 2]),
        (["10", "9", "x", "9"], ("10", "9", "x"), [0, 1, 2, 1]),
        (["0.5", "1.5", "0.5", "0.5"], ("0.5", "1.5"), [0, 1, 0, 0]),
        (list(np.array(["u", "v", "u", "u"])), ("u", "v"), [0, 1, 0, 0]),
        (list(np.array([5, 6, 5, 5], dtype=np.uint8)), ("5", "6"), [0, 1, 0, 0]),
    ],
)
def test_labels_as_people_write_them(
    labels: list[object], classes: tuple[str, ...], codes: list[int]
) -> None:
    data = Dataset.from_labels("toy", FEATURES, labels)
    assert data.classes == classes
    assert data.labels.tolist() == codes


@given(
    st.lists(st.integers(), min_size=3, max_size=20).filter(
        lambda labels: 1 < len(set(labels)) < len(labels)
    )
)
def test_classes_give_the_labels_back(labels: list[int]) -> None:
    data = Dataset.from_labels("toy", np.zeros((len(labels), 1)), labels)
    assert [int(data.classes[code]) for code in data.labels] == labels
    assert list(map(int, data.classes)) == sorted(set(labels))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (0.37, r"got the label 0\.37 in row 2; .*looks like a measurement"),
        (float("nan"), "got the label nan in row 2; .*Drop the rows"),
        (None, "got the label None in row 2"),
        ("", "got the label '' in row 2"),
        (b"a", "got the label b'a' in row 2; expected a whole number or text"),
    ],
)
def test_labels_that_name_no_class(label: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_labels("toy", FEATURES, [1, 2, label, 2])


def test_a_class_by_index_or_by_name() -> None:
    data = Dataset.from_labels("toy", FEATURES, ["2", "1", "1", "2"])
    assert data.index_of(1) == 1
    assert data.index_of("1") == 0
    with pytest.raises(UnknownName, match="class of data set 'toy': got '3'; expected one of 1, 2"):
        data.index_of("3")
    with pytest.raises(
        InvalidParameter, match=r"^target must be .* from 0 to 1 \(a class of .*\); got 2"
    ):
        data.index_of(2)
