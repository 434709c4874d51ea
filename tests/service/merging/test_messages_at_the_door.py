"""A refusal says what is wrong with an upload in words that help in any language."""

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.upload import check_sync

AUTO = fb.FSCLB(
    dimension=8, sketch_size="auto", agents=2, budget=96 + 8 * 8 + 3 * 8 * 8, server_size=8
)
FIXED = fb.FSCLB(dimension=8, sketch_size=4, agents=2)
GRAM = fb.FedLinUCB(dimension=8, agents=2)


def refusal(recipe: fb.Recipe, summary: object, *, dimension: int = 8) -> str:
    served = Served(new_model("m", recipe)[0], recipe)
    upload = fb.Upload(0, fb.Statistics(summary, np.zeros(dimension), 100))
    with pytest.raises(InvalidMessage) as refused:
        check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    return str(refused.value)


def rows(*given: list[float]) -> np.ndarray:
    made = np.zeros((len(given), 8))
    for row, entries in zip(made, given, strict=True):
        row[: len(entries)] = entries
    return made


def test_a_size_is_told_the_sizes_that_agents_may_send() -> None:
    assert AUTO.parts.memory.empty_server().summary.size == 8  # more than agents may send
    said = refusal(AUTO, fb.Sketch(rows([1.0]), 0.0, 5, 0.0))
    assert "upload.summary.size: got 5; expected a size from 2 to 4" in said
    assert "8" not in said
    assert "got 5; expected 4, its sketch_size" in refusal(FIXED, fb.Sketch(rows([1.0]), 0.0, 5))


@pytest.mark.parametrize(("recipe", "lost"), [(AUTO, 0.0), (FIXED, None)])
def test_rows_that_are_not_orthogonal_are_named_as_such(
    recipe: fb.Recipe, lost: float | None
) -> None:
    said = refusal(recipe, fb.Sketch(rows([2.0], [1e-3, 1.0]), 0.0, 4, lost))
    assert "rows that are not orthogonal: two have the product 0.002" in said
    assert "at most 4e-11" in said
    assert "one-sided Jacobi" in said


def test_too_many_rows_and_wrong_lengths_are_named() -> None:
    many = fb.Sketch(rows(*[[0.0] * k + [1.0] for k in range(4)]), 0.0, 4)
    assert "got 4 rows of 8; expected fewer rows than the size, 4, each of 8" in refusal(
        FIXED, many
    )
    short = fb.Sketch(np.eye(1, 7), 0.0, 4)
    assert "got 1 rows of 7; expected fewer rows than the size" in refusal(FIXED, short)


def test_another_kind_is_told_by_its_name_on_the_wire() -> None:
    said = refusal(GRAM, fb.Sketch(rows([1.0]), 0.0, 4))
    assert "got a 'sketch' of rows of shape (1, 8); expected a 'gram'" in said
    said = refusal(FIXED, fb.Gram(np.eye(8)))
    assert "got a 'gram' of shape (8, 8); expected a 'sketch'" in said
    lean = fb.FSCLB.lean(dimension=8, agents=2)
    assert "expected a 'fitted', since the recipe's wire is 'fitted'" in refusal(
        lean, fb.Gram(np.eye(8))
    )


def test_a_life_of_a_deleted_model_is_told_what_to_do() -> None:
    with pytest.raises(InvalidMessage, match=r"Draw a new life, join again, .* as its number 1"):
        MergedUploads().copy_of(bytes(16), born=1, sequence=7)
