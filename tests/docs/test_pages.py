"""What the guide shows runs as it stands there."""

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks_of, place

PAGES = sorted(ROOT.glob("docs/*.md"))


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    with place(tmp_path) as here:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            here.run(block)


def test_comments_say_how_a_block_is_run() -> None:
    text = """
<!-- python
x = 1
-->
```python
y = x
```
<!-- not run: takes minutes -->
```sh
sleep 999
```
<!-- background -->
```sh
serve
```
<!-- run as 20_000 => 20 -->
```python
rounds = 20_000
```
```text
nothing to run
```
"""
    assert blocks_of(text) == [
        Block("python", "x = 1\n"),
        Block("python", "y = x\n"),
        Block("sh", "serve\n", background=True),
        Block("python", "rounds = 20\n"),
    ]
