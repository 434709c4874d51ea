"""The data sets inside the package are the ones that UCI documents."""

import pickle
from importlib.resources import files

import numpy as np
import pytest

from fedbandit.errors import UnknownName
from fedbandit.worlds import BUNDLED, load_dataset
from fedbandit.worlds.recorded.dataset import Dataset

# Rows per class in UCI's documentation of the whole set (6435 rows), and in the five rows left out.
UCI_SATIMAGE = {
    "red soil": (1533, 2),
    "cotton crop": (703, 0),
    "grey soil": (1358, 2),
    "damp grey soil": (626, 1),
    "soil with vegetation stubble": (707, 0),
    "very damp grey soil": (1508, 0),
}


def test_satimage_is_uci_without_five_rows() -> None:
    data = load_dataset("satimage")
    assert data.features.shape == (6430, 36)
    assert data.classes == tuple(UCI_SATIMAGE)
    counts = np.bincount(data.labels)
    assert counts.tolist() == [total - without for total, without in UCI_SATIMAGE.values()]
    assert data.features.min() == 27
    assert data.features.max() == 157
    assert np.array_equal(data.features, np.round(data.features))
    # The first line of UCI's training file.
    assert data.features[0, :8].tolist() == [92, 115, 120, 94, 84, 102, 106, 79]
    assert data.classes[data.labels[0]] == "grey soil"


def test_mfeat_zernike_has_two_hundred_of_every_digit() -> None:
    data = load_dataset("mfeat-zernike")
    assert data.features.shape == (2000, 47)
    assert data.classes == tuple("0123456789")
    assert data.labels.tolist() == [digit for digit in range(10) for _ in range(200)]
    # The first values as OpenML 22 publishes them.
    published = [0.0110327400, 0.831465810, 15.3518037, 75.8065588, 171.554214]
    np.testing.assert_allclose(data.features[0, :5], published, rtol=5e-5)


@pytest.mark.parametrize("name", BUNDLED)
def test_content_is_what_was_derived(name: str) -> None:
    recorded = (files("fedbandit.worlds") / "data" / "DIGESTS").read_text()
    assert f"{load_dataset(name).digest}  {name}" in recorded.splitlines()


@pytest.mark.parametrize("name", BUNDLED)
def test_is_read_once_and_travels_by_name(name: str) -> None:
    data = load_dataset(name)
    sent = pickle.dumps(data)
    assert load_dataset(name) is data
    assert len(sent) < 200
    assert pickle.loads(sent) is data


def test_data_of_the_same_name_travels_by_content() -> None:
    mine = Dataset("satimage", np.eye(3), np.array([0, 1, 1]), ("a", "b"))
    came = pickle.loads(pickle.dumps(mine))
    assert came == mine != load_dataset("satimage")
    assert not came.features.flags.writeable


def test_the_notice_names_sources_and_licence() -> None:
    notice = (files("fedbandit.worlds") / "data" / "NOTICE.md").read_text()
    for needed in ("10.24432/C55887", "10.24432/C5HC70", "CC BY 4.0", *BUNDLED):
        assert needed in notice


@pytest.mark.parametrize(("name", "nearest"), [("satimag", "satimage"), ("mfeat", "mfeat-zernike")])
def test_an_unknown_name_gets_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownName, match=f"data set: got '{name}'.*Did you mean '{nearest}'"):
        load_dataset(name)
