"""What those who join in are told is so."""

import re
from pathlib import Path

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


PLAN = _text("docs/architecture.md")


def _found(path: str) -> list[Path]:
    return [found for root in (ROOT / "src/fedbandit", ROOT) for found in root.glob(path)]


def test_every_file_that_the_plan_of_the_house_names_exists() -> None:
    named = re.findall(r"`([\w/*]+(?:/|\.(?:py|js|css|html|md|txt)))`", PLAN)
    assert len(named) > 100
    for path in named:
        assert _found(path), path


def test_the_names_behind_a_file_are_in_it() -> None:
    behind = re.findall(r"`([\w/*]+\.(?:py|js))`\s\((`\w+`(?:,\s+`\w+`)*)", PLAN)
    assert len(behind) > 20
    for path, names in behind:
        texts = [found.read_text(encoding="utf-8") for found in _found(path)]
        for name in re.findall(r"\w+", names):
            assert any(re.search(rf"\b{name}\b", text) for text in texts), (path, name)


def test_every_package_is_in_the_plan_of_the_house() -> None:
    plan = PLAN.partition("## Rooms")[2].partition("## Nouns")[0]
    for each in (ROOT / "src/fedbandit").rglob("__init__.py"):
        assert re.search(rf"\b{each.parent.name}\b", plan), each.parent


def test_no_test_imports_from_another_test_file() -> None:
    imports = re.compile(r"^\s*from tests\S*\.(test_\w+|conftest) import", re.MULTILINE)
    for folder in ("tests", "benchmarks", "tools"):
        for each in (ROOT / folder).rglob("*.py"):
            assert not imports.search(each.read_text(encoding="utf-8")), each


def test_modules_and_folders_are_as_small_as_contributors_are_told() -> None:
    assert "files of at most 400 lines, at most 12 modules a folder" in _text("CONTRIBUTING.md")
    for folder in {each.parent for each in (ROOT / "src").rglob("*.py")}:
        modules = [each for each in folder.glob("*.py") if each.name != "__init__.py"]
        for each in modules:
            assert len(each.read_text(encoding="utf-8").splitlines()) <= 400, each
        assert len(modules) <= 12 or folder.name == "commands", folder
