"""What README shows runs as printed; its links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest
from hatch_build import long_description

from fedbandit.cli.catalogue import COMMANDS
from fedbandit.cli.guidance.completion import options_of
from tests.cli.leaves import LEAVES
from tests.docs.blocks import ROOT, blocks_of, place

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.docs
def test_every_block_runs(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        for block in blocks_of(README):
            here.run(block)


def test_python_without_a_network_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block.code for block in blocks_of(README) if block.language == "python"]
    names: dict[str, object] = {}
    for code in blocks:
        if "connect" not in code:
            exec(code, names)
    printed = capsys.readouterr().out
    for label in ("FSCLB.lean", "FedLinUCB"):
        assert re.search(rf"^{re.escape(label)} \S+ \d+$", printed, flags=re.MULTILINE)


def test_every_command_exists_with_its_options() -> None:
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL))
    told = re.findall(r"fedbandit ([a-z][^#\n>)|]*)", shell.replace("\\\n", " "))
    assert len(told) >= 6
    for words in told:
        name, *rest = words.split()
        assert name in COMMANDS, words
        leaf = f"{name} {rest[0]}" if COMMANDS[name].verbs else name
        options = {option.name for option in options_of(LEAVES[leaf])}
        assert {word for word in rest if word.startswith("--")} <= options, words


def test_the_demo_is_the_reproduction_in_short() -> None:
    done = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "fedbandit reproduce --quick --jobs 2 --out demo" in done.stdout


def test_what_its_lines_write_is_ignored() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for written in ("/demo/", "/results/", "/quickstart/", "/token", "/fedbandit.db*", "/phone-7/"):
        assert written in ignored


def test_links_lead_somewhere() -> None:
    root = Path(__file__).parent.parent
    for page in [root / "README.md", *root.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_files_that_the_docs_name_exist() -> None:
    root = Path(__file__).parent.parent
    for page in root.glob("docs/**/*.md"):
        for name in re.findall(r"`(\w+/[\w/]+\.py)`", page.read_text(encoding="utf-8")):
            places = (root, root / "src/fedbandit", *root.glob("examples/*/"))
            assert any((place / name).exists() for place in places), name


def test_the_long_description_has_no_link_to_a_file_beside_it() -> None:
    alone = long_description(README, repository=None)
    assert "](" not in alone.replace("](http", "")
    assert "images/" not in alone
    assert "agents (docs/agents.md)" in alone
    home = "https://example.org/fedbandit"
    linked = long_description(README, repository=home)
    shown = re.findall(r"\]\(([^)]+)\)", linked)
    assert len(shown) == len(re.findall(r"\]\(([^)]+)\)", README))
    assert {link.startswith(f"{home}/") for link in shown} == {True}
    assert f"]({home}/raw/main/docs/images/frontier.png)" in linked
    for text in (alone, linked):
        assert "<!--" not in text
        code = re.compile(r"```.*?```", flags=re.DOTALL)
        assert code.findall(text) == code.findall(README)
