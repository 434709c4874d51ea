"""``fedbandit fleet``: run many agents at once, and show what they sent."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_state_dir, add_trust
from fedbandit.cli.reporting import add_json, report
from fedbandit.cli.table import show_table
from fedbandit.cli.values import positive
from fedbandit.errors import DataError, InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.worlds import World

WORLDS = ("synthetic", "satimage", "mfeat-zernike")
EXAMPLE = """\
fedbandit fleet --agents 50 --world synthetic --rounds 20000

starts a coordinator of its own, with a new model. Against one that runs, with a model it has:

  fedbandit fleet --agents 50 --coordinator http://127.0.0.1:8400 --model news"""


def _define(add: Add) -> None:
    add("--agents", type=positive, default=10, metavar="N", help="number of agents (default: 10)")
    told = "decisions of all agents together (default: 10000)"
    add("--rounds", type=positive, default=10_000, metavar="N", help=told)
    told = f"where arms and rewards come from: {', '.join(WORLDS)} (default: synthetic)"
    add("--world", choices=WORLDS, default="synthetic", metavar="NAME", help=told)
    add("--seed", type=int, default=0, metavar="N", help="seed of the world (default: 0)")
    told = "dimension of a synthetic world (default: the model's, or 50)"
    add("--dimension", type=positive, metavar="D", help=told)
    add("--arms", type=positive, metavar="K", help="arms of a synthetic world (default: 10)")
    told = "sketch size of the model (default: 0.4 D)"
    add("--sketch-size", type=positive, metavar="L", help=told)
    add("--lean", action="store_true", help="a model of FSCLB.lean, not FSCLB")
    told = "a running coordinator (default: start one for this run)"
    add("--coordinator", metavar="URL", help=told)
    add("--model", default="fleet", metavar="NAME", help="name of the model (default: fleet)")
    told = "file with a line AGENT TOKEN for every agent: agent-0, agent-1, ..."
    add("--tokens", type=Path, metavar="FILE", help=told)
    add_trust(add)
    add_state_dir(add)
    told = "wait for every answer: the same arms and uploads as in a simulation"
    add("--in-step", action="store_true", help=told)
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.cli.fleet.playing import Fleet, not_delivered, play
    from fedbandit.cli.fleet.traffic import compared, traffic_of, traffic_of_fedlinucb

    tokens = _tokens(arguments.tokens)
    with _coordinator(arguments) as url:
        fleet = Fleet.connect(
            url,
            model=arguments.model,
            agents=arguments.agents,
            tokens=tokens,
            state_dir=arguments.state_dir,
            cafile=arguments.cafile,
            insecure=arguments.insecure_coordinator,
        )
        try:
            world = _world(arguments, fleet.recipe.dimension)
            rewards = play(
                fleet, world, arguments.rounds, in_step=arguments.in_step, stream=sys.stderr
            )
            sent = traffic_of(fleet)
        finally:
            delivered = fleet.close()
    title = f"{arguments.agents} agents, {arguments.rounds:,} decisions, {rewards:.4f} a decision"
    other = traffic_of_fedlinucb(fleet.recipe, world, arguments.rounds)
    report(
        arguments,
        lambda: {
            "recipe": fleet.recipe.label,
            "agents": arguments.agents,
            "decisions": arguments.rounds,
            "mean_reward": rewards,
            "sent": sent,
            "fedlinucb": other,
            "delivered": delivered,
        },
        lambda: show_table(
            title,
            ("", "uploads", "bytes up", "bytes down", "bytes"),
            compared(fleet.recipe.label, sent, other),
        ),
    )
    if not delivered:
        raise not_delivered(fleet, arguments.state_dir)


@contextmanager
def _coordinator(arguments: Namespace) -> Iterator[str]:
    """Yield the URL of the coordinator given, or of one that runs as long as this block."""
    if arguments.coordinator is not None:
        for option, given in (("--sketch-size", arguments.sketch_size), ("--lean", arguments.lean)):
            if given:
                said = f"{option} has no effect with --coordinator: the model says it."
                raise InvalidParameter(f"{said} Leave it out.")
        yield arguments.coordinator
        return
    from fedbandit.service.private import private_coordinator

    with TemporaryDirectory(prefix="fedbandit-") as place:
        recipe = _recipe(arguments)
        store = f"sqlite:///{place}/fedbandit.db"
        with private_coordinator(store, model=arguments.model, recipe=recipe) as url:
            yield url


def _recipe(arguments: Namespace) -> "Recipe":
    from fedbandit.core.algorithms.fsclb import FSCLB

    d, agents = _world(arguments, None).dimension, arguments.agents
    if arguments.lean:
        if arguments.sketch_size is None:
            return FSCLB.lean(dimension=d, agents=agents, radius=0.3)
        return FSCLB.lean(dimension=d, sketch_size=arguments.sketch_size, agents=agents, radius=0.3)
    size = arguments.sketch_size or max(2, round(0.4 * d))
    return FSCLB(dimension=d, sketch_size=size, agents=agents, radius=0.3, cadence="buffered")


def _world(arguments: Namespace, dimension: int | None) -> "World":
    """Return the world; a synthetic one has the model's dimension unless told otherwise."""
    from fedbandit.worlds import Classification, Synthetic

    if arguments.world != "synthetic":
        for option, value in (("--dimension", arguments.dimension), ("--arms", arguments.arms)):
            if value is not None:
                said = f"{option} has no effect with --world {arguments.world}: the data says it."
                raise InvalidParameter(f"{said} Leave it out.")
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
        expected, fix = "a file of lines AGENT TOKEN", "Check the path after --tokens."
        message = complaint(f"tokens in {file}", got=str(error), expected=expected, fix=fix)
        raise DataError(message) from error
    return dict(_pair(file, i, line) for i, line in enumerate(lines, 1) if line.strip())


def _pair(file: Path, number: int, line: str) -> tuple[str, str]:
    """Return an agent and its token. An error does not quote the line: it may hold a secret."""
    words = line.split()
    if len(words) != 2:
        got, expected = f"{len(words)} words" if len(words) > 1 else "1 word", "two: AGENT TOKEN"
        fix = "Write the agent's name, a space and its token, as in: agent-0 TOKEN."
        who = f"tokens in {file}, line {number}"
        raise DataError(complaint(who, got=got, expected=expected, fix=fix))
    return words[0], words[1]


FLEET = Command(
    name="fleet",
    summary="Run many agents against a coordinator, and compare what they sent with FedLinUCB.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
