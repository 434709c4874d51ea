"""``fedbandit edge``: the sidecar."""

import logging
import os
import re
import socket
import sys
from argparse import Action, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Command
from fedbandit.cli.options import (
    above_zero,
    add_allow_host,
    add_cafile,
    directory,
    number_or_none,
    positive,
)
from fedbandit.errors import DataError, InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.service.http.address import Address

_log = logging.getLogger(__name__)

VARIABLE = "FEDBANDIT_TOKEN"
COORDINATOR = "http://127.0.0.1:8400"
EXAMPLE = """\
fedbandit edge --model news --coordinator http://127.0.0.1:8400 --state-dir edge-state

Then any program on this machine asks and tells in JSON:

  curl -s localhost:8401/rank -H 'Content-Type: application/json' -d '
    {"contextFeatures": [{"time": "morning"}],
     "actions": [{"id": "a", "features": [{"topic": "sport"}]},
                 {"id": "b", "features": [{"topic": "politics"}]}]}'
  curl -s localhost:8401/events/EVENT_ID/reward -H 'Content-Type: application/json' \\
    -d '{"value": 1}'"""


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument("--model", required=True, metavar="NAME", help="the model to serve"),
        parser.add_argument(
            "--coordinator",
            default=COORDINATOR,
            metavar="URL",
            help=f"where the coordinator is (default: {COORDINATOR})",
        ),
        parser.add_argument(
            "--listen",
            default="127.0.0.1:8401",
            metavar="HOST:PORT",
            help="where to listen (default: 127.0.0.1:8401; port 0 is any that is free)",
        ),
        parser.add_argument(
            "--agent", metavar="NAME", help="who this is (default: this machine's name)"
        ),
        parser.add_argument(
            "--token-file",
            type=Path,
            metavar="FILE",
            help=f"file with the agent's token (default: ${VARIABLE}, or none)",
        ),
        parser.add_argument(
            "--state-dir",
            type=directory,
            metavar="DIR",
            help="where to keep what is not delivered yet (default: in memory alone)",
        ),
        *_define_rewards(parser),
        add_cafile(parser),
        parser.add_argument(
            "--insecure", action="store_true", help="listen outside loopback: it asks for no token"
        ),
        add_allow_host(parser),
    ]


def _define_rewards(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument(
            "--reward-wait",
            type=above_zero,
            metavar="S",
            help="seconds that an event waits for its reward (default: for ever)",
        ),
        parser.add_argument(
            "--default-reward",
            type=number_or_none,
            default=0.0,
            metavar="R",
            help="what an event is paid after that (default: 0), or none: it is forgotten",
        ),
        parser.add_argument(
            "--max-open",
            type=positive,
            default=10_000,
            metavar="N",
            help="events without a reward at once; the oldest is forgotten (default: 10000)",
        ),
        parser.add_argument(
            "--durability",
            choices=["process", "machine"],
            default="process",
            help="what an answered reward survives: the end of the process (default), or of the "
            "machine",
        ),
    ]


def _execute(arguments: Namespace) -> None:
    from fedbandit.client import connect
    from fedbandit.edge.run import serve
    from fedbandit.service.http.address import read_address

    address = read_address(arguments.listen)
    _check_exposure(address, insecure=arguments.insecure)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if arguments.state_dir is None:
        _log.warning("no --state-dir: what is not delivered is lost with this process")
    agent = connect(
        arguments.coordinator,
        model=arguments.model,
        agent=arguments.agent or machine_name(socket.gethostname()),
        token=_token(arguments.token_file),
        state_dir=arguments.state_dir,
        reward_wait=arguments.reward_wait,
        default_reward=arguments.default_reward,
        max_open=arguments.max_open,
        durability=arguments.durability,
        cafile=arguments.cafile,
    )
    serve(
        agent,
        host=address.host,
        port=address.port,
        allowed=arguments.allow_host,
        announce=_say,
    )


def _check_exposure(address: "Address", *, insecure: bool) -> None:
    """Raise InvalidParameter where strangers could ask, who need no token here."""
    from fedbandit.service.http.address import OTHERWISE

    if not (address.is_loopback or insecure):
        got = f"{address.host}, where anybody may ask: a sidecar has no TLS and no tokens"
        fix, expected = OTHERWISE.capitalize(), "nothing outside loopback"
        raise InvalidParameter(complaint("listen", got=got, expected=expected, fix=fix))


def machine_name(host: str) -> str:
    """Return a machine's name as an agent can have it."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip("._-")[:64]
    return plain or "agent"


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(VARIABLE) or None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        expected, fix = "a file with a token in it", "Look at --token-file."
        message = complaint("token file", got=str(error), expected=expected, fix=fix)
        raise DataError(message) from error


def _say(address: str) -> None:
    print(f"fedbandit: ranking at {address}", flush=True)


EDGE = Command(
    name="edge",
    summary="Run a sidecar: rank and reward in JSON, for programs in any language.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
