"""Everything that can be typed: commands, and the verbs of those that have some."""

from fedbandit.cli.catalogue import COMMANDS
from fedbandit.cli.command import Command

LEAVES: dict[str, Command] = {
    words: leaf
    for command in COMMANDS.values()
    for words, leaf in (
        [(f"{command.name} {verb.name}", verb) for verb in command.verbs]
        or [(command.name, command)]
    )
}
