"""``fedbandit serve``: the coordinator."""

import logging
import sys
from argparse import Action, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Command
from fedbandit.cli.options import add_allow_host, positive, seconds
from fedbandit.cli.stores import add_store, store_url
from fedbandit.errors import InvalidParameter, complaint

if TYPE_CHECKING:
    from fedbandit.service.http.address import Tls

EXAMPLE = """\
fedbandit serve --store sqlite:///fedbandit.db --listen 127.0.0.1:8400

Models and tokens are made on the same store, before or while it serves:

  fedbandit model create news --dimension 100 --sketch-size 40
  fedbandit token create news phone-7"""


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        add_store(parser),
        parser.add_argument(
            "--listen",
            default="127.0.0.1:8400",
            metavar="HOST:PORT",
            help="where to listen (default: 127.0.0.1:8400; port 0 is any that is free)",
        ),
        parser.add_argument("--tls-cert", type=Path, metavar="PEM", help="certificate (chain)"),
        parser.add_argument("--tls-key", type=Path, metavar="PEM", help="its key"),
        parser.add_argument(
            "--open", action="store_true", help="ask for no tokens: whoever can connect may talk"
        ),
        add_allow_host(parser, when="with --open: "),
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="listen outside loopback without TLS or tokens, behind a proxy say",
        ),
        parser.add_argument(
            "--queue",
            type=positive,
            default=256,
            metavar="N",
            help="syncs under way at once; more are told to come back (default: 256)",
        ),
        parser.add_argument(
            "--body-seconds",
            type=seconds,
            default=10.0,
            metavar="S",
            help="time for a sender to send its body (default: 10)",
        ),
        parser.add_argument(
            "--idle-seconds",
            type=seconds,
            default=30.0,
            metavar="S",
            help="time after which a connection without a request is cut (default: 30)",
        ),
    ]


def _execute(arguments: Namespace) -> None:
    from fedbandit.service.http.address import read_address
    from fedbandit.service.serve import serve
    from fedbandit.service.settings import Settings

    address, tls = read_address(arguments.listen), _tls(arguments)
    settings = Settings(
        open=arguments.open,
        allowed_hosts=_allowed_hosts(arguments),
        queue=arguments.queue,
        body_seconds=arguments.body_seconds,
        idle_seconds=arguments.idle_seconds,
    )
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    url, insecure = store_url(arguments), arguments.insecure
    serve(url, address, settings=settings, tls=tls, insecure=insecure, announce=_say)


def _allowed_hosts(arguments: Namespace) -> frozenset[str]:
    if arguments.allow_host and not arguments.open:
        fix = "Leave it out: with tokens any name will do."
        got, expected = ", ".join(arguments.allow_host), "none without --open"
        raise InvalidParameter(complaint("--allow-host", got=got, expected=expected, fix=fix))
    return frozenset(name.lower() for name in arguments.allow_host)


def _tls(arguments: Namespace) -> "Tls | None":
    from fedbandit.service.http.address import Tls

    if arguments.tls_cert is None and arguments.tls_key is None:
        return None
    if arguments.tls_cert is None or arguments.tls_key is None:
        fix = "Give --tls-cert and --tls-key, or neither."
        message = complaint("TLS", got="one of two files", expected="both", fix=fix)
        raise InvalidParameter(message)
    return Tls(certificate=arguments.tls_cert, key=arguments.tls_key)


def _say(address: str) -> None:
    print(f"fedbandit: serving at {address}", flush=True)


SERVE = Command(
    name="serve",
    summary="Run a coordinator: merge what agents upload, exactly once and durably.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
