"""``fedbandit token``: the secrets with which agents sign in, managed in a coordinator's store."""

import sys
import time
from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_store, opened_store
from fedbandit.cli.table import show_table
from fedbandit.errors import InvalidParameter, complaint

EXAMPLE = """\
fedbandit token create news phone-7
fedbandit token create --admin
fedbandit token list
fedbandit token revoke phone-7-1a2b3c4d"""


def _define_create(add: Add) -> None:
    add("model", nargs="?", metavar="MODEL", help="model that the agent may use")
    add("agent", nargs="?", metavar="AGENT", help="agent that the token is for")
    add("--admin", action="store_true", help="a token for /metrics, not for an agent")
    add("--name", metavar="NAME", help="name of the token, for revoke (default: made from AGENT)")
    add_store(add)


def _create(arguments: Namespace) -> None:
    from fedbandit.service.tokens import new_token
    from fedbandit.terms import check_name

    given = [word for word in (arguments.model, arguments.agent) if word is not None]
    if len(given) != (0 if arguments.admin else 2):
        expected = "a model and an agent, or --admin alone"
        got = " ".join([*given, *["--admin"] * arguments.admin]) or "nothing"
        fix = "For example: fedbandit token create news phone-7."
        raise InvalidParameter(complaint("token", got=got, expected=expected, fix=fix))
    if arguments.agent is not None:
        check_name("agent", arguments.agent)
    if arguments.name is not None:
        check_name("token name", arguments.name)
    secret, token = new_token(model=arguments.model, agent=arguments.agent, name=arguments.name)
    with opened_store(arguments) as store:
        store.add_token(token)
    print(secret)
    print(f"named {token.name}; copy it now, it is not shown again", file=sys.stderr)


def _define_revoke(add: Add) -> None:
    add("name", metavar="NAME", help="name of the token, as fedbandit token list shows it")
    add_store(add)


def _revoke(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        store.revoke(arguments.name)
    print(f"{arguments.name}: revoked")


def _list(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        tokens = store.tokens()
    rows = [
        (
            each.name,
            each.model or "(admin)",
            each.agent or "",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.created)),
        )
        for each in tokens
    ]
    show_table("Tokens", ("name", "model", "agent", "made"), rows)


TOKEN = Command(
    name="token",
    summary="Create, revoke and list the tokens with which agents talk to a coordinator.",
    example=EXAMPLE,
    extra="service",
    verbs=(
        Command("create", "Create a token and print it, this one time.", _define_create, _create),
        Command("revoke", "Revoke a token, within a second.", _define_revoke, _revoke),
        Command("list", "List tokens by name; the secrets are not stored.", add_store, _list),
    ),
)
