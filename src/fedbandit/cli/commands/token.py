"""``fedbandit token``: who may talk to a coordinator, managed in its store."""

import sys
import time
from argparse import Action, ArgumentParser, Namespace

from fedbandit.cli.command import Command
from fedbandit.cli.stores import add_store, opened
from fedbandit.cli.table import show_table
from fedbandit.cli.verbs import Verb, define_verbs, execute_verb
from fedbandit.errors import InvalidParameter, complaint

EXAMPLE = """\
fedbandit token create news phone-7
fedbandit token create --admin
fedbandit token list
fedbandit token revoke phone-7-1a2b3c4d"""


def _define_create(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument("model", nargs="?", metavar="MODEL", help="the one model it opens"),
        parser.add_argument("agent", nargs="?", metavar="AGENT", help="the one agent it opens"),
        parser.add_argument(
            "--admin", action="store_true", help="for /metrics instead of an agent"
        ),
        parser.add_argument("--name", metavar="NAME", help="what to call it when revoking it"),
        add_store(parser),
    ]


def _create(arguments: Namespace) -> None:
    from fedbandit.service.tokens import new_token
    from fedbandit.terms import check_name

    given = [word for word in (arguments.model, arguments.agent) if word is not None]
    if len(given) != (0 if arguments.admin else 2):
        fix = "Write: fedbandit token create MODEL AGENT, or fedbandit token create --admin."
        expected = "a model and an agent, or --admin alone"
        got = " ".join([*given, *["--admin"] * arguments.admin]) or "nothing"
        raise InvalidParameter(complaint("token", got=got, expected=expected, fix=fix))
    if arguments.agent is not None:
        check_name("agent", arguments.agent)
    if arguments.name is not None:
        check_name("token name", arguments.name)
    secret, token = new_token(model=arguments.model, agent=arguments.agent, name=arguments.name)
    with opened(arguments) as store:
        store.add_token(token)
    print(secret)
    print(f"named {token.name}; it is not shown again", file=sys.stderr)


def _define_revoke(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument("name", metavar="NAME", help="as list shows it"),
        add_store(parser),
    ]


def _revoke(arguments: Namespace) -> None:
    with opened(arguments) as store:
        store.revoke(arguments.name)
    print(f"{arguments.name}: revoked")


def _define_list(parser: ArgumentParser) -> list[Action]:
    return [add_store(parser)]


def _list(arguments: Namespace) -> None:
    with opened(arguments) as store:
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


_VERBS = (
    Verb("create", "Make a token and print it, once.", _define_create, _create),
    Verb(
        "revoke", "Take a token back; a coordinator follows in a second.", _define_revoke, _revoke
    ),
    Verb("list", "List the tokens by name; they themselves are not stored.", _define_list, _list),
)

TOKEN = Command(
    name="token",
    summary="Create, revoke and list the tokens with which agents talk to a coordinator.",
    example=EXAMPLE,
    define=define_verbs(_VERBS),
    execute=execute_verb(_VERBS),
    extra="service",
)
