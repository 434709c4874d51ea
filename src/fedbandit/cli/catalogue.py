"""All commands, by what they are for."""

from collections.abc import Mapping

from fedbandit.cli.command import Command
from fedbandit.cli.commands.advise import ADVISE
from fedbandit.cli.commands.agent import AGENT
from fedbandit.cli.commands.beyond import BEYOND
from fedbandit.cli.commands.edge import EDGE
from fedbandit.cli.commands.evaluate import EVALUATE
from fedbandit.cli.commands.fleet import FLEET
from fedbandit.cli.commands.listing import LIST
from fedbandit.cli.commands.log import LOG
from fedbandit.cli.commands.model import MODEL
from fedbandit.cli.commands.plot import PLOT
from fedbandit.cli.commands.reproduce import REPRODUCE
from fedbandit.cli.commands.run import RUN
from fedbandit.cli.commands.serve import SERVE
from fedbandit.cli.commands.simulate import SIMULATE
from fedbandit.cli.commands.table import TABLE
from fedbandit.cli.commands.token import TOKEN
from fedbandit.cli.guidance.completion import COMPLETION
from fedbandit.cli.guidance.doctor import DOCTOR
from fedbandit.cli.guidance.overview import HELP
from fedbandit.cli.quickstart.quickstart import QUICKSTART

GROUPS: Mapping[str, tuple[Command, ...]] = {
    "Learn together": (QUICKSTART, MODEL, TOKEN, SERVE, EDGE, AGENT, FLEET),
    "Judge decisions": (LOG, EVALUATE),
    "Compare": (REPRODUCE, BEYOND, ADVISE, RUN, PLOT, TABLE, SIMULATE, LIST),
    "Find your way": (DOCTOR, COMPLETION, HELP),
}
COMMANDS: dict[str, Command] = {each.name: each for group in GROUPS.values() for each in group}
