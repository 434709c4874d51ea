"""``fedbandit doctor``: find out what is wrong here, and what to do about it."""

from argparse import Namespace
from pathlib import Path

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import COORDINATOR, add_store, add_trust
from fedbandit.cli.reporting import add_json, report, say

EXAMPLE = """\
fedbandit doctor
fedbandit doctor --store sqlite:////var/lib/fedbandit/fedbandit.db
fedbandit doctor --model news --agent phone-7 --token-file token

looks at installation, compiler, BLAS threads, store, coordinator, certificate and token, and
changes nothing. Exits with 1 if there is a problem."""

_MARKS = {"ok": "ok", "note": "note", "problem": "PROBLEM"}


def _define(add: Add) -> None:
    add_store(add)
    told = f"URL of the coordinator to ask (default: {COORDINATOR}, if one runs there)"
    add("--coordinator", metavar="URL", help=told)
    add("--model", metavar="NAME", help="model to try the token with")
    add("--agent", metavar="NAME", help="agent to try the token with")
    told = "file with an agent's token (default: $FEDBANDIT_TOKEN, if set)"
    add("--token-file", type=Path, metavar="FILE", help=told)
    add_trust(add)
    add_json(add)


def _execute(arguments: Namespace) -> int:
    from fedbandit.cli.guidance.checks import Check, checks

    arguments.default = COORDINATOR
    found: list[Check] = []

    def show() -> None:
        for each in checks(arguments):
            found.append(each)
            say(f"{_MARKS[each.state]:8}{each.about}: {each.found}", indent=" " * 8)
            if each.fix and each.state != "ok":
                say(f"{'':8}-> {each.fix}", indent=" " * 11)
        count = sum(each.state == "problem" for each in found)
        print(f"{count} problem{'' if count == 1 else 's'}")

    def listed() -> dict[str, object]:
        found.extend(checks(arguments))
        return {"checks": found}

    report(arguments, listed, show)
    return int(any(each.state == "problem" for each in found))


DOCTOR = Command(
    name="doctor",
    summary="Look for what is wrong here: installation, store, coordinator, token.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
)
