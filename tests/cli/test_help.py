"""Help: at every width, of every command and verb, and nothing of another one."""

import re

import pytest

from fedbandit.cli import main
from fedbandit.cli.catalogue import COMMANDS, GROUPS
from fedbandit.cli.guidance.completion import options_of
from fedbandit.cli.guidance.overview import EXIT_CODES
from fedbandit.cli.parsing import fitted
from tests.cli.leaves import LEAVES

Capture = pytest.CaptureFixture[str]
WIDTHS = (60, 80, 120)
URL = re.compile(r"\S{40,}")  # a word that is wider than its column stands on a line of its own


def shown_for(words: str, capsys: Capture) -> str:
    with pytest.raises(SystemExit) as left:
        main([*words.split(), "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", WIDTHS)
def test_help_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (*COMMANDS, *LEAVES):
        for line in shown_for(words, capsys).splitlines():
            assert len(line) <= width or URL.search(line), f"{words}: {line}"
    assert main([]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_help_of_a_verb_lists_its_own_options_alone(capsys: Capture) -> None:
    for words, leaf in LEAVES.items():
        head = shown_for(words, capsys).partition("example:")[0]
        listed = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", head, re.MULTILINE))
        assert listed == {each.name for each in options_of(leaf) if each.name}, words


def test_an_option_of_another_verb_is_refused_with_the_verbs_own(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(["model", "list", "--yes"])
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert "option: got '--yes'; expected one of --help, --json, --store, --verbose" in told
    assert "fedbandit model list --help" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"]])
def test_alone_it_shows_what_can_be_done(words: list[str], capsys: Capture) -> None:
    assert main(words) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for group, commands in GROUPS.items():
        assert group in shown.out
        for command in commands:
            assert re.search(rf"^  {command.name} ", shown.out, re.MULTILINE)
    for code, _ in EXIT_CODES:
        assert re.search(rf"^  {code} ", shown.out, re.MULTILINE)
    for line in re.findall(r"^ {4}(fedbandit .*)$", shown.out, re.MULTILINE):
        assert line.split()[1] in COMMANDS


def test_every_command_is_in_one_group() -> None:
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


@pytest.mark.parametrize("words", [*COMMANDS, *LEAVES])
def test_help_of_a_command_in_other_words(words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(["help", *words.split()])
    assert left.value.code == 0
    assert capsys.readouterr().out == shown_for(words, capsys)


def test_help_of_what_does_not_exist(capsys: Capture) -> None:
    for words, message in (
        (["help", "modle"], "Did you mean 'model'?"),
        (["help", "model", "creat"], "Did you mean 'create'?"),
    ):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 2
        assert message in capsys.readouterr().err


def test_examples_are_continued_where_a_shell_would() -> None:
    line = "fedbandit model create shop --dimension 100 --set alpha=2 --set radius=0.3"
    broken = fitted(line, 40)
    assert max(map(len, broken.splitlines())) <= 40
    assert re.sub(r" \\\n +", " ", broken) == line
    assert fitted(broken, 200) == line  # continued lines are put together first
    assert fitted("plain words " * 20, 40).count("\\") == 0
