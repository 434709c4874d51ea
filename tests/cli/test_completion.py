"""``fedbandit completion``: what a shell offers is what there is."""

import shlex
import subprocess

import pytest

from fedbandit.cli import main
from fedbandit.cli.catalogue import COMMANDS
from fedbandit.cli.guidance.completion import SCRIPTS, bash_script, options_of
from tests.cli.leaves import LEAVES

Capture = pytest.CaptureFixture[str]
ASK = """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fedbandit
        echo "${COMPREPLY[@]}"; }
"""


def offered(*questions: tuple[str, ...]) -> list[list[str]]:
    """Return what bash offers for the last word of each question."""
    asked = "\n".join(shlex.join(["ask", "fedbandit", *words]) for words in questions)
    done = subprocess.run(
        ["bash", "-euc", f"{bash_script(COMMANDS)}\n{ASK}{asked}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def test_bash_offers_commands_verbs_options_and_choices() -> None:
    verbs = [(name, "") for name, each in COMMANDS.items() if each.verbs]
    options = [(*words.split(), "--") for words in LEAVES]
    found = offered(("",), *verbs, *options, ("fleet", "--world", "s"), ("completion", ""))
    assert found[0] == list(COMMANDS)
    for (name, _), these in zip(verbs, found[1:], strict=False):
        assert these == [verb.name for verb in COMMANDS[name].verbs]
    for leaf, these in zip(LEAVES.values(), found[1 + len(verbs) :], strict=False):
        assert these == [option.name for option in options_of(leaf) if option.name]
    assert found[-2] == ["synthetic", "satimage"]
    assert found[-1] == ["bash", "zsh", "fish"]


def test_words_that_are_begun() -> None:
    assert offered(
        ("mo",), ("model", "cr"), ("model", "create", "news", "--store", "x", "--dim")
    ) == [["model"], ["create"], ["--dimension"]]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_is_told_of_everything(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for words, leaf in LEAVES.items():
        for name in (*words.split(), *(each.name for each in options_of(leaf))):
            assert name.removeprefix("--") in script


def test_a_shell_that_is_not_known(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(["completion", "tcsh"])
    assert left.value.code == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
