"""The README's Python runs as printed, one block after the other."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block.replace("rounds=20_000", "rounds=500"), names)
    printed = capsys.readouterr().out
    assert re.search(r"^FSCLB \S+ \d+$", printed, flags=re.MULTILINE)
    assert re.search(r"^FedLinUCB \S+ \d+$", printed, flags=re.MULTILINE)


def test_links_lead_somewhere() -> None:
    root = Path(__file__).parent.parent
    for page in [root / "README.md", *root.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_files_that_the_docs_name_exist() -> None:
    root = Path(__file__).parent.parent
    for page in root.glob("docs/**/*.md"):
        for name in re.findall(r"`(\w+/[\w/]+\.py)`", page.read_text(encoding="utf-8")):
            assert (root / name).exists() or (root / "src/fedbandit" / name).exists(), name
