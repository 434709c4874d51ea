"""What docs/features.md, docs/choices.md and docs/explaining.md show runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["features.md", "choices.md", "explaining.md"])
def test_the_python_of_the_page_runs(page: str) -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    shared: dict[str, object] = {}
    for block in blocks:
        exec(block, shared)
