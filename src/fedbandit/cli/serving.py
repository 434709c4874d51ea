"""What commands that run a server share: where it listens, what it logs and says."""

import logging
import sys
from collections.abc import Callable

from fedbandit.cli.command import Add
from fedbandit.cli.values import host_name, seconds


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


def add_idle_seconds(add: Add) -> None:
    """Add --idle-seconds."""
    told = "seconds after which a connection without a request is closed (default: 30)"
    add("--idle-seconds", type=seconds, default=30.0, metavar="S", help=told)


def log_to_stderr() -> None:
    """Log this program's messages, and errors of uvicorn and asyncio, to standard error.

    Not their warnings: one for each request that is no HTTP, or for each write to a connection that
    has ended, would let strangers fill the disk.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)


def announce(what: str) -> Callable[[str], None]:
    """Return what prints the address of a server once it can be reached."""
    return lambda address: print(f"fedbandit: {what} at {address}", flush=True)
