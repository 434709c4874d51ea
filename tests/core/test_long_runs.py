"""What many observations without an upload, and arms of extreme size, may not do."""

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.statistics import Base


def test_the_running_inverse_does_not_drift() -> None:
    """20,000 rank-one updates of long arms over a small ridge, against one dense solve."""
    d, rng = 6, np.random.default_rng(0)
    agent = fb.LinUCB(dimension=d, ridge=1e-6).agent(0)
    theta = rng.standard_normal(d)
    gram, moment = 1e-6 * np.eye(d), np.zeros(d)
    for x in 1e3 * rng.standard_normal((20_000, d)):
        reward = float(x @ theta)
        agent.observe(x, reward)
        gram += np.outer(x, x)
        moment += reward * x
    np.testing.assert_allclose(agent.theta, np.linalg.solve(gram, moment), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1.0, 1e8])
def test_repeated_shedding_does_not_drift(scale: float) -> None:
    """10,000 rank-one updates of a decaying spectrum, against an SVD at every step."""
    d, size, rng = 6, 4, np.random.default_rng(1)
    memory = SketchMemory(d, ridge=1.0, size=size)
    pending = memory.pending(Base(memory.empty(), memory))
    rows, shed = np.zeros((0, d)), 0.0
    for x in scale * rng.standard_normal((10_000, d)) * 10.0 ** -np.arange(d):
        pending.absorb(x, 1.0, 1.0)
        _, sigma, vt = np.linalg.svd(np.vstack([rows, x]), full_matrices=False)
        delta = sigma[size - 1] ** 2 if len(sigma) >= size else 0.0
        rows, shed = (
            np.sqrt(np.maximum(sigma**2 - delta, 0.0))[: size - 1, None] * vt[: size - 1],
            shed + delta,
        )
    sketch = pending.summary()
    assert isinstance(sketch, Sketch)
    norm = float(np.sum(rows**2))
    np.testing.assert_allclose(sketch.rows.T @ sketch.rows, rows.T @ rows, atol=1e-10 * norm)
    assert sketch.shed == pytest.approx(shed, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 1e4, 3e6, 1e7])
@pytest.mark.parametrize("name", ["FSCLB", "FedLinUCB", "LinUCB", "AsyncLinUCB", "CBSCFD"])
def test_arms_of_extreme_length_fail_nowhere(name: str, scale: float) -> None:
    world = fb.worlds.Synthetic(
        dimension=6, arms=5, agents=2, spectrum="low-rank", rank=2, norm=scale, seed=0
    )
    size = {"sketch_size": 4} if name in ("FSCLB", "CBSCFD") else {}
    recipe = fb.RECIPES[name](dimension=6, agents=2, **size)
    trace = fb.simulate(recipe, world, rounds=400)
    assert np.isfinite(trace.regret).all()
