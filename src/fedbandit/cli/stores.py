"""The option --store, which every command about a coordinator has, and opening what it names."""

import os
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedbandit.service.storage.contract import Store

VARIABLE = "FEDBANDIT_STORE"
DEFAULT = "sqlite:///fedbandit.db"


def add_store(parser: ArgumentParser) -> Action:
    """Add --store. A URL with a password in it is better given in the environment."""
    return parser.add_argument(
        "--store",
        metavar="URL",
        help=f"sqlite:///PATH or postgresql://... (default: ${VARIABLE}, or {DEFAULT})",
    )


@contextmanager
def opened(arguments: Namespace, *, create: bool = False) -> Iterator["Store"]:
    """Open the store that the arguments name, and close it in the end."""
    from fedbandit.service.storage.opening import open_store

    store = open_store(store_url(arguments), create=create)
    try:
        yield store
    finally:
        store.close()


def store_url(arguments: Namespace) -> str:
    """Return the URL of the store that the arguments or the environment name."""
    return arguments.store or os.environ.get(VARIABLE) or DEFAULT
