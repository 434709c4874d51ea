"""What those who join in are told is so."""

import re

import fedbandit as fb
from fedbandit import testing
from tests.docs.blocks import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_commits_are_checked_by_what_make_test_runs_first() -> None:
    recipe = re.findall(r"^test: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[0]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    first = [command for command in commands if "pytest" not in command]
    hooks = re.findall(r"^ +entry: (.*)$", _text(".pre-commit-config.yaml"), re.MULTILINE)
    assert hooks == first
    assert commands[: len(first)] == first


def test_everything_that_is_named_exists() -> None:
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        text = _text(name)
        for target in re.findall(r"(?:`|^)make ([\w./-]+)", text, re.MULTILINE):
            assert re.search(rf"^{re.escape(target)}:", MAKEFILE, re.MULTILINE), target
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / link).exists(), link
        for path in re.findall(r"(?<![\w/])((?:src|tests)/[\w/.]+)", text):
            assert (ROOT / path).exists(), path
        for contract in re.findall(r"fedbandit\.testing\.(\w+)", text):
            assert hasattr(testing, contract), contract
    told = re.findall(r"^pytest (\S+) -k (\w+)", _text("CONTRIBUTING.md"), re.MULTILINE)
    assert told
    for path, word in told:
        assert re.search(rf"def test_\w*{word}", _text(path))


def test_the_citation_is_of_this_version_and_the_paper() -> None:
    text = _text("CITATION.cff")
    assert f"\nversion: {fb.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text
    assert text.count("family-names") == 4


def test_every_file_that_the_plan_of_the_house_names_exists() -> None:
    named = re.findall(r"`([\w/*]+(?:/|\.(?:py|js|html|md|txt)))`", _text("docs/architecture.md"))
    assert len(named) > 100
    for path in named:
        assert any(list(root.glob(path)) for root in (ROOT / "src/fedbandit", ROOT)), path
