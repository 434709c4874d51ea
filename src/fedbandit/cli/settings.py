"""``--set NAME=VALUE``: a parameter of a recipe or a world, written as in a spec file (TOML)."""

import json
import tomllib
from argparse import ArgumentTypeError
from collections.abc import Iterable
from typing import Any

from fedbandit.cli.command import Add
from fedbandit.errors import InvalidParameter


def add_set(add: Add, *, of: str, topic: str) -> None:
    """Add --set; ``topic`` is that of ``fedbandit list`` which names the parameters."""
    add(
        "--set",
        type=setting,
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help=f"set a parameter of {of}, as a spec file would; text needs no quotes, a dot enters "
        f"a table (bounds.noise=0.1); may be repeated (names: fedbandit list {topic})",
    )


def setting(text: str) -> str:
    """Read NAME=VALUE; return it as a line of TOML, in which a value that is not TOML is quoted."""
    name, _, value = (part.strip() for part in text.partition("="))
    quoted = json.dumps(value, ensure_ascii=False)
    for line in (f"{name} = {value}", f"{name} = {quoted}"):
        if value and _is_toml(line):
            return line
    raise ArgumentTypeError(f"got {text!r}; expected NAME=VALUE")


def settings(lines: Iterable[str]) -> dict[str, Any]:
    """Return what lines of ``setting`` say together, tables as nested dictionaries."""
    text = ""
    for line in lines:
        text += f"{line}\n"
        if not _is_toml(text):
            name = line.partition(" = ")[0]
            raise InvalidParameter(f"--set: {name} is set twice. Set each parameter once.")
    return tomllib.loads(text)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True
