"""Options that several commands have."""

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add
from fedbandit.cli.reporting import add_json
from fedbandit.cli.values import directory, positive

if TYPE_CHECKING:
    from fedbandit.service.storage.contract import Store

STORE_VARIABLE = "FEDBANDIT_STORE"
AUDIT_VARIABLE = "FEDBANDIT_AUDIT"
DEFAULT_STORE = "sqlite:///fedbandit.db"
COORDINATOR = "http://127.0.0.1:8400"


def add_out(add: Add, *, holds: str) -> None:
    """Add the required --out; ``holds`` names what is written there."""
    add("--out", type=directory, required=True, metavar="DIR", help=f"directory for {holds}")


def add_jobs(add: Add) -> None:
    """Add --jobs."""
    told = "worker processes (default: one per available CPU); does not change results"
    add("--jobs", type=positive, metavar="N", help=told)


def add_trials(add: Add, *, quick: str) -> None:
    """Add --trials, --rounds and --quick; ``quick`` says how long --quick takes."""
    add("--trials", type=positive, metavar="N", help="trials per setting (default: 20)")
    add("--rounds", type=positive, metavar="N", help="rounds per trial (default: 20000)")
    add("--quick", action="store_true", help=f"few and short trials: {quick}")


def add_trust(add: Add) -> None:
    """Add --cafile, for a private authority, and --insecure-coordinator, for none at all."""
    add("--cafile", metavar="PEM", help="certificates to trust with https, not the system's")
    told = "send tokens over http to another machine too, where anybody on the way can read them"
    add("--insecure-coordinator", action="store_true", help=told)


def add_state_dir(add: Add) -> None:
    """Add --state-dir."""
    told = "directory for what is not delivered yet (default: memory only, lost at the end)"
    add("--state-dir", type=directory, metavar="DIR", help=told)


def add_logs(add: Add) -> None:
    """Add the logs to read."""
    add("logs", nargs="+", type=Path, metavar="LOGS", help="directory of a log, or its files")


def add_store(add: Add) -> None:
    """Add --store. A URL with a password in it is better given in the environment."""
    add(
        "--store",
        metavar="URL",
        help="the coordinator's database, sqlite:///PATH or postgresql://... "
        f"(default: ${STORE_VARIABLE}, or {DEFAULT_STORE})",
    )


def add_audit(add: Add) -> None:
    """Add --audit."""
    told = f"file to which a line is added about what is done (default: ${AUDIT_VARIABLE}, or none)"
    add("--audit", type=Path, metavar="FILE", help=told)


def audit_file(arguments: Namespace) -> Path | None:
    """Return the audit log that the arguments or the environment name."""
    given = os.environ.get(AUDIT_VARIABLE)
    return arguments.audit or (Path(given) if given else None)


def audited(arguments: Namespace, what: str, **more: object) -> None:
    """Add a line to the audit log, if there is one."""
    from fedbandit.service.access.audit import note_locally

    path = audit_file(arguments)
    if path is not None:
        note_locally(path, what, **more)


def store_url(arguments: Namespace) -> str:
    """Return the URL of the store that the arguments or the environment name."""
    return arguments.store or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


@contextmanager
def opened_store(arguments: Namespace, *, create: bool = False) -> Iterator["Store"]:
    """Open the store that the arguments name, and close it at the end."""
    from fedbandit.service.storage.opening import open_store

    store = open_store(store_url(arguments), create=create)
    try:
        yield store
    finally:
        store.close()


def add_model(add: Add) -> None:
    """Add the name of a model, the store that it is in, and --json."""
    add("name", metavar="NAME", help="name of the model")
    add_store(add)
    add_json(add)


def add_changed_model(add: Add) -> None:
    """Add what ``add_model`` does, and --audit: for commands that change the model."""
    add_model(add)
    add_audit(add)
