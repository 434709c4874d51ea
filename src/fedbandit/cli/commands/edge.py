"""``fedbandit edge``: run the sidecar."""

import logging
import os
import re
import socket
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import COORDINATOR, add_state_dir, add_trust
from fedbandit.cli.serving import (
    add_allow_host,
    add_idle_seconds,
    add_listen,
    announce,
    log_to_stderr,
)
from fedbandit.cli.values import above_zero, directory, number_or_none, positive
from fedbandit.errors import InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.logs import LogTo
    from fedbandit.service.http.address import Address

_log = logging.getLogger(__name__)

VARIABLE = "FEDBANDIT_TOKEN"
STOP_SECONDS = 30.0
"""Longer than a sidecar takes to stop: requests that run, then what is due."""
EXAMPLE = """\
fedbandit edge --model news --coordinator http://127.0.0.1:8400 --state-dir edge-state

Then any program on this machine asks for decisions and reports rewards in JSON:

  json='Content-Type: application/json'
  curl -s localhost:8401/rank -H "$json" -d '{
    "eventId": "visit-81",
    "contextFeatures": [{"time": "morning"}],
    "actions": [
      {"id": "a", "features": [{"topic": "sport"}]},
      {"id": "b", "features": [{"topic": "politics"}]}]}'
  curl -s localhost:8401/events/visit-81/reward \\
    -H "$json" -d '{"value": 1}'"""


def _define(add: Add) -> None:
    add("--model", required=True, metavar="NAME", help="name of the model")
    told = f"URL of the coordinator (default: {COORDINATOR})"
    add("--coordinator", default=COORDINATOR, metavar="URL", help=told)
    add_listen(add, "127.0.0.1:8401")
    add("--agent", metavar="NAME", help="name of this agent (default: this machine's name)")
    told = f"file with the agent's token, which may be replaced (default: ${VARIABLE}, or none)"
    add("--token-file", type=Path, metavar="FILE", help=told)
    told = "client certificate and its key, to show in place of a token"
    add("--certificate", metavar="PEM", help=told)
    add_state_dir(add)
    _define_rewards(add)
    _define_log(add)
    add_trust(add)
    told = "allow other addresses than loopback; a sidecar has no tokens and no TLS"
    add("--insecure", action="store_true", help=told)
    add_allow_host(add)
    add_idle_seconds(add)


def _define_rewards(add: Add) -> None:
    told = "seconds that an event waits for its reward (default: for ever)"
    add("--reward-wait", type=above_zero, metavar="S", help=told)
    told = "reward of an event that got none by then (default: 0), or none to drop the event"
    add("--default-reward", type=number_or_none, default=0.0, metavar="R", help=told)
    told = "events that may wait at once; beyond that the oldest is dropped (default: 10000)"
    add("--max-open", type=positive, default=10_000, metavar="N", help=told)
    add(
        "--durability",
        choices=["process", "machine"],
        default="process",
        help="what an acknowledged reward survives: a crash of the process (default), or of the "
        "machine (slower: every reward waits for the disk)",
    )


def _define_log(add: Add) -> None:
    told = "directory for a log of decisions and rewards, which stays here (docs/logs.md)"
    add("--log", type=directory, metavar="DIR", help=told)
    told = "megabytes of the log that are kept; older files are deleted (default: 1024)"
    add("--log-megabytes", type=positive, default=1024, metavar="N", help=told)
    told = "turn closed files of the log into Parquet (needs pyarrow)"
    add("--log-parquet", action="store_true", help=told)
    told = "shadow mode: the first action of each request is what your own rule takes, and is the "
    told += "answer; /healthz and /metrics say how the agent compares"
    add("--shadow", action="store_true", help=told)


def _log_to(arguments: Namespace) -> "LogTo | None":
    from fedbandit.logs import LogTo

    if arguments.log is None:
        return None
    total = arguments.log_megabytes * 2**20
    each = min(64 * 2**20, total // 4)
    return LogTo(arguments.log, each, total, parquet=arguments.log_parquet)


def _execute(arguments: Namespace) -> None:
    from fedbandit.client import connect
    from fedbandit.edge.serve import serve
    from fedbandit.service.http.address import read_address
    from fedbandit.web.gate import Patience

    address = read_address(arguments.listen)
    _check_exposure(address, insecure=arguments.insecure)
    log_to_stderr()
    if arguments.state_dir is None:
        _log.warning("no --state-dir: what is not delivered is lost when this process ends")
    else:
        _wait_for(arguments.state_dir)
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
        certificate=arguments.certificate,
        insecure=arguments.insecure_coordinator,
        log=_log_to(arguments),
    )
    serve(
        agent,
        host=address.host,
        port=address.port,
        allowed=arguments.allow_host,
        patience=Patience(idle=arguments.idle_seconds),
        shadow=arguments.shadow,
        announce=announce("ranking"),
    )


def _wait_for(state_dir: Path) -> None:
    """Give a sidecar that was told to stop just now the time to finish."""
    from fedbandit.client.state.directory import wait_until_free

    if not wait_until_free(state_dir, seconds=0.0):
        _log.info("%s is in use: waiting for the process that has it", state_dir)
        wait_until_free(state_dir, seconds=STOP_SECONDS)


def _check_exposure(address: "Address", *, insecure: bool) -> None:
    """Raise InvalidParameter if other machines could connect: a sidecar asks for no token."""
    from fedbandit.service.http.address import OTHERWISE

    if not (address.is_loopback or insecure):
        fix, expected = OTHERWISE.capitalize(), "a loopback address: a sidecar has no TLS or tokens"
        raise InvalidParameter(complaint("listen", got=address.host, expected=expected, fix=fix))


def machine_name(host: str) -> str:
    """Return a machine's name with every character replaced that an agent's name cannot have."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip("._-")[:64]
    return plain or "agent"


def _token(file: Path | None) -> str | Path | None:
    """Return the token in the environment, or the file, which is read again when it changes."""
    return os.environ.get(VARIABLE) or None if file is None else file


EDGE = Command(
    name="edge",
    summary="Run a sidecar: an agent behind a JSON API, for programs in any language.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
