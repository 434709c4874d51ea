"""What commands that run a server share: where it listens, what it logs and says."""

import logging
import sys
from collections.abc import Callable

from fedbandit.cli.command import Add
from fedbandit.cli.values import host_name


def add_listen(add: Add, default: str) -> None:
    """Add --listen."""
    told = f"address to listen on (default: {default}; port 0 picks a free one)"
    add("--listen", default=default, metavar="HOST:PORT", help=told)


def add_allow_host(add: Add, *, when: str = "") -> None:
    """Add --allow-host, for a server that asks for no token; ``when`` says under which option."""
    add(
        "--allow-host",
        type=host_name,
        action="append",
        default=[],
        metavar="NAME",
        help=f"{when}another host name to answer to, besides localhost and the address listened on "
        "(requests to other names are refused: a web page could have sent them); may be repeated",
    )


def log_to_stderr() -> None:
    """Log this program's messages, and uvicorn's warnings, to standard error."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def announce(what: str) -> Callable[[str], None]:
    """Return what prints the address of a server once it can be reached."""
    return lambda address: print(f"fedbandit: {what} at {address}", flush=True)
