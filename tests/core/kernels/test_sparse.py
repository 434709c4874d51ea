"""Sparse arms are decided on, observed and refused as the same arms written out."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fedbandit as fb
from fedbandit import errors
from fedbandit.testing import assert_same_state
from tests.core.builds import BUILDS, D, M

FORMS = ("csr_matrix", "csr_array", "csc_array", "coo_matrix", "lil_array")


def mostly_zeros(rng: np.random.Generator, arms: int = 5) -> np.ndarray[Any, Any]:
    return np.where(rng.random((arms, D)) < 0.3, rng.standard_normal((arms, D)), 0.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BUILDS)
def test_sparse_is_dense(name: str, form: str) -> None:
    recipe, rng = BUILDS[name](), np.random.default_rng(3)
    sparse, dense, server = recipe.agent(0), recipe.agent(0), recipe.server()
    for t in range(60):
        arms = mostly_zeros(rng, 1 + t % 5)
        given = getattr(scipy.sparse, form)(arms)
        played = sparse.choose(given)
        assert played == dense.choose(arms)
        reward = float(rng.standard_normal())
        upload, same = sparse.observe(played, reward), dense.observe(played, reward)
        assert (upload is None) == (same is None)
        if upload is not None:
            for answer in server.receive(upload):
                if answer.agent == 0:
                    sparse.receive(answer.message)
                    dense.receive(answer.message)
    np.testing.assert_allclose(sparse.theta, dense.theta, rtol=1e-9, atol=1e-12)
    assert_same_state({"shown": sparse.state()["shown"]}, {"shown": dense.state()["shown"]})


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_entries_that_are_there_twice_count_as_their_sum(dtype: str) -> None:
    entries = np.array([100, 100, 120], dtype=dtype)
    twice = scipy.sparse.csr_array((entries, [3, 3, 3], [0, 2, 3]), shape=(2, D))
    for name in ("FSCLB", "FedLinUCB"):
        one, other = BUILDS[name]().agent(0), BUILDS[name]().agent(0)
        written = np.zeros((2, D))
        written[:, 3] = 200.0, 120.0
        assert one.choose(twice) == other.choose(written) == 0
        np.testing.assert_array_equal(one.state()["shown"], written)
    np.testing.assert_array_equal(twice.data, entries)


def test_sparse_arms_are_copied() -> None:
    agent, same = (fb.LinUCB(dimension=D).agent(0) for _ in range(2))
    arms = scipy.sparse.csr_array(np.eye(2, D))
    played = agent.choose(arms)
    assert played == same.choose(np.eye(2, D))
    arms.data[:] = 7.0
    agent.observe(played, 1.0)
    same.observe(played, 1.0)
    np.testing.assert_array_equal(agent.theta, same.theta)


@pytest.mark.parametrize("name", ["FSCLB", "FedLinUCB", "Random"])
@pytest.mark.parametrize(
    ("arms", "complaint"),
    [
        (scipy.sparse.csr_array((2, D + 1)), str(D)),
        (scipy.sparse.csr_array((0, D)), str(D)),
        (scipy.sparse.csr_array([[0.0] * (D - 1) + [np.nan]]), "nan"),
        (scipy.sparse.csr_array([[0.0] * (D - 1) + [np.inf]]), "inf"),
    ],
)
def test_bad_sparse_arms_change_nothing(name: str, arms: Any, complaint: str) -> None:
    agent = BUILDS[name]().agent(M - 1)
    agent.choose(np.eye(3, D))
    before = agent.state()
    with pytest.raises(errors.InvalidArms, match=complaint):
        agent.choose(arms)
    assert_same_state(agent.state(), before)


def misplaced(place: int) -> scipy.sparse.csr_array:
    arms = scipy.sparse.csr_array(np.eye(2, D))
    arms.indices[1] = place
    return arms


@pytest.mark.parametrize("name", ["FSCLB", "LinUCB"])
@pytest.mark.parametrize(
    "arms",
    [
        misplaced(50_000_000),
        misplaced(-3),
        scipy.sparse.csr_array(np.eye(2, D) * 1j),
        scipy.sparse.coo_array(np.ones(D)),
        scipy.sparse.csr_array,
    ],
)
def test_what_is_no_matrix_of_numbers(name: str, arms: Any) -> None:
    agent = BUILDS[name]().agent(0)
    before = agent.state()
    with pytest.raises(errors.InvalidArms):
        agent.choose(arms)
    assert_same_state(agent.state(), before)
