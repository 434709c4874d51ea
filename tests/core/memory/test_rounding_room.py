"""The room that the coordinator's door leaves for rounding is enough, whatever the rows are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.core.memory.narrow import CODES, narrowed, rounding_room
from fedbandit.core.memory.summary import Sketch, sketch_of


@given(
    width=st.sampled_from(sorted(CODES)),
    k=st.integers(1, 12),
    d=st.integers(1, 40),
    spikes=st.booleans(),
    spread=st.floats(0.0, 6.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_trace_and_shed_stay_within_the_room_after_rounding_twice(
    width: str, k: int, d: int, spikes: bool, spread: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-spread, 0.0, (k, 1))
    if spikes:  # one large entry and many small ones: the worst for integers with one scale
        rows *= np.where(rng.random((k, d)) < 0.1, 1.0, 0.01)
    sketch: Sketch = sketch_of(rows, shed=0.0, size=k + 1)
    mass = float(sketch.squares.sum())
    once = narrowed(sketch, width)
    twice = narrowed(once.sketch(), width)
    assert float(once.squares.sum()) + once.shed <= (1.0 + rounding_room(once)) * mass
    assert float(twice.squares.sum()) + twice.shed <= (1.0 + rounding_room(twice)) * mass


def test_sketches_in_full_precision_need_none() -> None:
    assert rounding_room(sketch_of(np.eye(3), shed=0.0, size=4)) == 0.0
