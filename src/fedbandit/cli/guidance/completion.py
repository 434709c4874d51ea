"""``fedbandit completion``: a script by which a shell completes commands, verbs and options."""

import shlex
from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedbandit.cli.command import Add, Command

EXAMPLE = """\
fedbandit completion bash
fedbandit completion zsh
fedbandit completion fish

prints a script. To have it in every shell from the next one on, in bash:

  mkdir -p ~/.local/share/bash-completion/completions
  cd ~/.local/share/bash-completion/completions
  fedbandit completion bash > fedbandit

in zsh, with a directory that is in your fpath:

  fedbandit completion zsh > ~/.zfunc/_fedbandit

in fish:

  cd ~/.config/fish/completions
  fedbandit completion fish > fedbandit.fish"""


@dataclass(frozen=True)
class Option:
    """An option, or with an empty ``name`` an argument: what it says in help, and its choices."""

    name: str
    told: str
    takes_value: bool
    choices: tuple[str, ...]


def options_of(command: Command) -> list[Option]:
    """Return the options and arguments that a command, or a verb, defines."""
    found: list[Option] = []

    def add(*words: str, **how: Any) -> None:
        if how.get("help") is SUPPRESS:
            return
        name = next((word for word in words if word.startswith("--")), "")
        flag = how.get("action") == "store_true" or isinstance(how.get("action"), type)
        choices = tuple(map(str, how.get("choices", ())))
        found.append(Option(name, _first_words(how.get("help", "")), not flag, choices))

    command.define(add)
    found.append(Option("--verbose", "show where an error came from", False, ()))
    found.append(Option("--help", "show what it does", False, ()))
    return found


def _first_words(told: str) -> str:
    return told.partition(" (")[0].partition(";")[0]


def _leaves(commands: Mapping[str, Command]) -> Iterator[tuple[str, Command]]:
    """Yield what takes options, under the words by which it is called."""
    for command in commands.values():
        if command.verbs:
            for verb in command.verbs:
                yield f"{command.name} {verb.name}", verb
        else:
            yield command.name, command


def _names(command: Command) -> str:
    return " ".join(option.name for option in options_of(command) if option.name)


def _choices(command: Command) -> str:
    """Return the choices of the command's arguments, as for a shell to complete."""
    return " ".join(word for each in options_of(command) if not each.name for word in each.choices)


def bash_script(commands: Mapping[str, Command]) -> str:
    """Return a script for bash."""
    cases = [
        f'        "{words} "*) options="{_names(leaf)}"; offered="{_choices(leaf)}" ;;'
        for words, leaf in _leaves(commands)
    ]
    cases += [
        f'        "{each.name} "*) offered="{" ".join(verb.name for verb in each.verbs)}" ;;'
        for each in commands.values()
        if each.verbs
    ]
    valued = {
        option.name: option.choices
        for _, leaf in _leaves(commands)
        for option in options_of(leaf)
        if option.name and option.choices
    }
    values = [f'        {name}) offered="{" ".join(each)}" ;;' for name, each in valued.items()]
    return "\n".join(
        [
            "# completion of fedbandit for bash",
            "_fedbandit() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local word words="" options="--version --verbose --help" offered=""',
            '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            '        [[ $word == -* ]] || words+="$word "',
            "    done",
            '    case "$words" in',
            f'        "") offered="{" ".join(commands)}" ;;',
            *cases,
            "    esac",
            '    case "$previous" in',
            *values,
            "    esac",
            '    [[ $current == -* ]] && offered="$options"',
            '    COMPREPLY=($(compgen -W "$offered" -- "$current"))',
            "}",
            "complete -o default -F _fedbandit fedbandit",
        ]
    )


def zsh_script(commands: Mapping[str, Command]) -> str:
    """Return a script for zsh."""
    lines = [
        "#compdef fedbandit",
        "_fedbandit() {",
        "  local -a offered options",
        "  local leaf",
        "  if (( CURRENT == 2 )); then",
        f"    offered=({_described((each.name, each.summary) for each in commands.values())})",
        "    _describe command offered",
        "    return",
        "  fi",
        '  case "$words[2]" in',
    ]
    for command in commands.values():
        if command.verbs:
            verbs = _described((verb.name, verb.summary) for verb in command.verbs)
            lines += [
                f"    {command.name})",
                f"      if (( CURRENT == 3 )); then offered=({verbs}); _describe verb offered",
                '        return; fi; leaf="$words[2] $words[3]" ;;',
            ]
    lines += ['    *) leaf="$words[2]" ;;', "  esac", '  case "$leaf" in']
    for words, leaf in _leaves(commands):
        options = _described((each.name, each.told) for each in options_of(leaf) if each.name)
        lines += [f'    "{words}") options=({options}); offered=({_choices(leaf)}) ;;']
    lines += [
        "  esac",
        "  if [[ $PREFIX == -* ]]; then _describe -o option options",
        "  elif (( $#offered )); then compadd -a offered; else _files; fi",
        "}",
        'if [[ "$funcstack[1]" == _fedbandit ]]; then _fedbandit "$@"',
        "else compdef _fedbandit fedbandit; fi",
    ]
    return "\n".join(lines)


def _described(pairs: Iterator[tuple[str, str]]) -> str:
    return " ".join(shlex.quote(f"{name}:{told.replace(':', ' -')}") for name, told in pairs)


def fish_script(commands: Mapping[str, Command]) -> str:
    """Return a script for fish."""
    lines = ["# completion of fedbandit for fish"]
    for command in commands.values():
        where = "-n __fish_use_subcommand"
        lines.append(_fish(where, "-f -a", command.name, command.summary))
        seen = f"__fish_seen_subcommand_from {command.name}"
        verbs = " ".join(verb.name for verb in command.verbs)
        for verb in command.verbs:
            where = f"-n {shlex.quote(f'{seen}; and not __fish_seen_subcommand_from {verbs}')}"
            lines.append(_fish(where, "-f -a", verb.name, verb.summary))
            there = f"-n {shlex.quote(f'{seen}; and __fish_seen_subcommand_from {verb.name}')}"
            lines += _fish_options(there, verb)
        if not command.verbs:
            lines += _fish_options(f"-n {shlex.quote(seen)}", command)
    return "\n".join(lines)


def _fish_options(where: str, command: Command) -> Iterator[str]:
    for each in options_of(command):
        if each.name:
            line = _fish(where, "-l", each.name.removeprefix("--"), each.told)
            chosen = f" -f -a {shlex.quote(' '.join(each.choices))}" if each.choices else ""
            yield line + (" -r" if each.takes_value else "") + chosen
        elif each.choices:
            yield _fish(where, "-f -a", " ".join(each.choices), each.told)


def _fish(where: str, kind: str, word: str, told: str) -> str:
    return f"complete -c fedbandit {where} {kind} {shlex.quote(word)} -d {shlex.quote(told)}"


SCRIPTS: Mapping[str, Callable[[Mapping[str, Command]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}


def _define(add: Add) -> None:
    add("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def _execute(arguments: Namespace) -> None:
    from fedbandit.cli.catalogue import COMMANDS

    print(SCRIPTS[arguments.shell](COMMANDS))


COMPLETION = Command(
    name="completion",
    summary="Print a script by which bash, zsh or fish completes commands and options.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
)
