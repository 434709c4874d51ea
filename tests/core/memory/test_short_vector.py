"""The moment in float32 is what rounding one row gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.core.memory.narrow import rounded, short_vector, values


@given(st.lists(st.floats(-1e140, 1e140), min_size=1, max_size=9))
def test_a_short_vector_is_a_rounded_row(numbers: list[float]) -> None:
    vector = np.array(numbers)
    row = values(*rounded(vector[None], "float32"), "float32")[0]
    np.testing.assert_array_equal(short_vector(vector), row)
    np.testing.assert_array_equal(short_vector(row), row)
