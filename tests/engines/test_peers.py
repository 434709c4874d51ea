"""Learners of other packages, with the packages: they choose as the same algorithm of ours does."""

from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.lab import parse_spec, run
from fedbandit.peers import PEERS

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]

D, K, ROUNDS = 6, 5, 300


def rounds(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return arms and what each would pay."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(D)
    theta /= np.linalg.norm(theta)
    arms = rng.standard_normal((ROUNDS, K, D))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    paid = arms @ theta + 0.1 * rng.standard_normal((ROUNDS, K))
    return list(zip(arms, paid, strict=True))


@pytest.mark.parametrize(("name", "share"), [("MABWiser", 1.0), ("ContextualBandits", 0.97)])
def test_short_they_choose_as_our_linucb_does(name: str, share: float) -> None:
    theirs = PEERS[name](radius=0.3, ridge=1.0)
    ours = fb.LinUCB(dimension=D, agents=1, radius=0.3, ridge=1.0).agent(0)
    same = []
    for arms, paid in rounds(0):
        arm = theirs.choose(arms)
        same.append(ours.choose(arms) == arm)
        theirs.observe(arm, float(paid[arm]))
        ours.observe(arm, float(paid[arm]))  # what theirs has played: one history for both
    assert np.mean(same[1:]) >= share  # the first is chosen without data; numbers have 32 bits


@pytest.mark.parametrize("name", PEERS)
def test_short_they_learn(name: str) -> None:
    learner, got = PEERS[name](), []
    for arms, paid in rounds(1):
        arm = learner.choose(arms)
        learner.observe(arm, float(paid[arm]))
        got.append(paid[arm] - paid.mean())
    late = np.array(got[ROUNDS // 2 :])
    assert late.mean() > 5 * late.std() / np.sqrt(len(late))


def test_short_they_are_lines_of_a_spec(tmp_path: Path) -> None:
    spec = parse_spec(
        {
            "rounds": 200,
            "trials": 2,
            "worlds": {"easy": {"kind": "synthetic", "dimension": 5, "arms": 4, "agents": 2}},
            "recipes": {name: {"kind": name} for name in PEERS},
        },
        name="peers",
    )
    results = run(spec, out=tmp_path, jobs=1)
    frame = results.frame()
    assert set(frame["recipe"]) == set(PEERS)
    assert (frame["uploads"] == 0).all()
