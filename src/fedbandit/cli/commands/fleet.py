"""``fedbandit fleet``: many agents at once, and what they sent."""

import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fedbandit.cli.command import Command
from fedbandit.cli.options import add_cafile, directory, positive
from fedbandit.cli.table import show_table
from fedbandit.errors import DataError, InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.worlds import World

WORLDS = ("synthetic", "satimage", "mfeat-zernike")
EXAMPLE = """\
fedbandit fleet --agents 50 --world synthetic --rounds 20000

runs against a coordinator of its own. Against yours, whose model says what a fleet needs to know:

  fedbandit fleet --agents 50 --coordinator http://127.0.0.1:8400 --model news"""


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument(
            "--agents", type=positive, default=10, metavar="N", help="how many (default: 10)"
        ),
        parser.add_argument(
            "--rounds",
            type=positive,
            default=10_000,
            metavar="N",
            help="decisions (default: 10000)",
        ),
        parser.add_argument(
            "--world",
            choices=WORLDS,
            default="synthetic",
            help="what they face (default: synthetic)",
        ),
        parser.add_argument(
            "--seed", type=int, default=0, metavar="N", help="its seed (default: 0)"
        ),
        parser.add_argument(
            "--dimension", type=positive, metavar="D", help="of a synthetic world (default: 50)"
        ),
        parser.add_argument(
            "--arms",
            type=positive,
            metavar="K",
            help="of a synthetic world (default: 10)",
        ),
        parser.add_argument(
            "--sketch-size", type=positive, metavar="L", help="of the model (default: 0.4 D)"
        ),
        parser.add_argument("--lean", action="store_true", help="FSCLB.lean in place of FSCLB"),
        *_define_coordinator(parser),
        parser.add_argument(
            "--in-step",
            action="store_true",
            help="wait for every answer: the same arms and uploads as in a simulation",
        ),
    ]


def _define_coordinator(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument(
            "--coordinator", metavar="URL", help="a running one (default: one of its own)"
        ),
        parser.add_argument("--model", default="fleet", metavar="NAME", help="default: fleet"),
        parser.add_argument(
            "--tokens", type=Path, metavar="FILE", help="a line AGENT TOKEN for each, agent-0 first"
        ),
        add_cafile(parser),
        parser.add_argument(
            "--state-dir", type=directory, metavar="DIR", help="where agents keep their states"
        ),
    ]


def _execute(arguments: Namespace) -> None:
    from fedbandit.cli.fleet_play import (
        Fleet,
        ledger,
        not_delivered,
        play,
        sent_by,
        sent_by_fedlinucb,
    )

    tokens = _tokens(arguments.tokens)
    with _coordinator(arguments) as url:
        fleet = Fleet.connect(
            url,
            model=arguments.model,
            agents=arguments.agents,
            tokens=tokens,
            state_dir=arguments.state_dir,
            cafile=arguments.cafile,
        )
        try:
            world = _world(arguments, fleet.recipe.dimension)
            rewards = play(
                fleet, world, arguments.rounds, in_step=arguments.in_step, stream=sys.stderr
            )
            sent = sent_by(fleet)
        finally:
            delivered = fleet.close()
    title = f"{arguments.agents} agents, {arguments.rounds:,} decisions, {rewards:.4f} a decision"
    other = sent_by_fedlinucb(fleet.recipe, world, arguments.rounds)
    rows = ledger(fleet.recipe.name, sent, other)
    show_table(title, ("", "uploads", "bytes up", "bytes down", "bytes"), rows)
    if not delivered:
        raise not_delivered(fleet, arguments.state_dir)


@contextmanager
def _coordinator(arguments: Namespace) -> Iterator[str]:
    """Yield the address of the coordinator, made for the occasion unless one is given."""
    if arguments.coordinator is not None:
        for option, given in (("--sketch-size", arguments.sketch_size), ("--lean", arguments.lean)):
            if given:
                fix, expected = "Leave it out: the model says.", "none with --coordinator"
                raise InvalidParameter(complaint(option, got=given, expected=expected, fix=fix))
        yield arguments.coordinator
        return
    from fedbandit.cli.private_coordinator import private_coordinator

    with TemporaryDirectory(prefix="fedbandit-") as place:
        recipe = _recipe(arguments)
        store = f"sqlite:///{place}/fedbandit.db"
        with private_coordinator(store, model=arguments.model, recipe=recipe) as url:
            yield url


def _recipe(arguments: Namespace) -> "Recipe":
    from fedbandit.core.recipes import FSCLB

    d, agents = _world(arguments, None).dimension, arguments.agents
    if arguments.lean:
        if arguments.sketch_size is None:
            return FSCLB.lean(dimension=d, agents=agents, radius=0.3)
        return FSCLB.lean(dimension=d, sketch_size=arguments.sketch_size, agents=agents, radius=0.3)
    size = arguments.sketch_size or max(2, round(0.4 * d))
    return FSCLB(dimension=d, sketch_size=size, agents=agents, radius=0.3, cadence="buffered")


def _world(arguments: Namespace, dimension: int | None) -> "World":
    """Return the world, of the model's dimension where that is known."""
    from fedbandit.worlds import Classification, Synthetic

    if arguments.world != "synthetic":
        for option, value in (("--dimension", arguments.dimension), ("--arms", arguments.arms)):
            if value is not None:
                expected, fix = (
                    f"none with --world {arguments.world}",
                    "Leave it out: data has one.",
                )
                raise InvalidParameter(complaint(option, got=value, expected=expected, fix=fix))
        return Classification(data=arguments.world, agents=arguments.agents, seed=arguments.seed)
    return Synthetic(
        dimension=arguments.dimension or dimension or 50,
        arms=arguments.arms or 10,
        agents=arguments.agents,
        seed=arguments.seed,
    )


def _tokens(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        expected, fix = "a file of lines AGENT TOKEN", "Look at --tokens."
        message = complaint(f"tokens in {file}", got=str(error), expected=expected, fix=fix)
        raise DataError(message) from error
    return dict(_pair(file, i, line) for i, line in enumerate(lines, 1) if line.strip())


def _pair(file: Path, number: int, line: str) -> tuple[str, str]:
    """Return an agent and its token. What an unreadable line says is not repeated: it is secret."""
    words = line.split()
    if len(words) != 2:
        got, expected = f"{len(words)} words" if len(words) > 1 else "1 word", "two: AGENT TOKEN"
        fix = "Write the agent's name, a space and its token, as in: agent-0 TOKEN."
        who = f"tokens in {file}, line {number}"
        raise DataError(complaint(who, got=got, expected=expected, fix=fix))
    return words[0], words[1]


FLEET = Command(
    name="fleet",
    summary="Run many agents against a coordinator, and show what they sent.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
