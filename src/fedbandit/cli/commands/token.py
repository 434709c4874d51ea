"""``fedbandit token``: the secrets with which agents sign in, managed in a coordinator's store."""

import ssl
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import (
    add_audit,
    add_store,
    add_trust,
    audited,
    opened_store,
)
from fedbandit.cli.reporting import add_json, report
from fedbandit.cli.table import show_table
from fedbandit.cli.values import duration
from fedbandit.errors import DataError, InvalidParameter, complaint, unknown

if TYPE_CHECKING:
    from fedbandit.service.bookkeeping.token import Token

EXAMPLE = """\
fedbandit token create news phone-7 --lifetime 90d
fedbandit token create --admin
fedbandit token list
fedbandit token rotate phone-7-1a2b3c4d
fedbandit token revoke phone-7-1a2b3c4d

A code can be handed out in place of a token, and exchanged for one on the device, once:

  fedbandit token code news phone-7 --lifetime 90d
  fedbandit token enrol https://host:8400 news phone-7 --code-file code --token-file token
  fedbandit token renew https://host:8400 news phone-7 --token-file token"""

_DAY = 86_400.0


def _define_create(add: Add) -> None:
    add("model", nargs="?", metavar="MODEL", help="model that the agent may use")
    add("agent", nargs="?", metavar="AGENT", help="agent that the token is for")
    add("--admin", action="store_true", help="a token for the board and /metrics, not for an agent")
    add("--name", metavar="NAME", help="name of the token, for revoke (default: made from AGENT)")
    _add_lifetime(add)
    told = "let the holder of this client certificate in, and make no secret"
    add("--certificate", type=Path, metavar="PEM", help=told)
    _changes(add)


def _changes(add: Add) -> None:
    add_store(add)
    add_audit(add)
    add_json(add)


def _define_list(add: Add) -> None:
    add_store(add)
    add_json(add)


def _add_lifetime(add: Add) -> None:
    told = "how long a token is good: 90d, 12h, 30m or 45s (default: for ever)"
    add("--lifetime", type=duration, metavar="TIME", help=told)


def _create(arguments: Namespace) -> None:
    from fedbandit.service.tokens import certificate_digest, new_token, token_of

    _check_names(arguments)
    whom = {"model": arguments.model, "agent": arguments.agent, "name": arguments.name}
    if arguments.certificate is not None:
        digest = certificate_digest(_der(arguments.certificate))
        secret, token = None, token_of(digest, **whom, lifetime=arguments.lifetime)
    else:
        secret, token = new_token(**whom, lifetime=arguments.lifetime)
    _add(arguments, token, "token created")
    note = f"named {token.name}; copy it now, it is not shown again"
    if secret is None:
        note = f"named {token.name}; it opens {arguments.model}/{arguments.agent}"
    _tell_secret(arguments, token, secret, note)


def _tell_secret(arguments: Namespace, token: "Token", secret: str | None, note: str) -> None:
    """Print a secret alone on standard output, what to know about it on the other stream."""

    def show() -> None:
        if secret is not None:
            print(secret)
        print(note, file=sys.stderr)

    found = {"name": token.name, "model": token.model, "agent": token.agent, "secret": secret}
    report(arguments, lambda: found | {"expires": token.expires}, show)


def _check_names(arguments: Namespace) -> None:
    from fedbandit.terms import check_agent_name, check_name

    given = [word for word in (arguments.model, arguments.agent) if word is not None]
    if len(given) != (0 if arguments.admin else 2):
        expected = "a model and an agent, or --admin alone"
        got = " ".join([*given, *["--admin"] * arguments.admin]) or "nothing"
        fix = "For example: fedbandit token create news phone-7."
        raise InvalidParameter(complaint("token", got=got, expected=expected, fix=fix))
    if arguments.agent is not None:
        check_agent_name(arguments.agent)
    if arguments.name is not None:
        check_name("token name", arguments.name)


def _der(path: Path) -> bytes:
    """Return the first certificate in a file, as bytes."""
    try:
        text = path.read_text(encoding="ascii", errors="ignore")
        begin = text.index(ssl.PEM_HEADER)
        end = text.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
        return ssl.PEM_cert_to_DER_cert(text[begin:end])
    except (OSError, ValueError) as error:
        expected, fix = "a file with a certificate (PEM)", "Check the path after --certificate."
        message = complaint("certificate", got=str(error), expected=expected, fix=fix)
        raise DataError(message) from error


def _add(arguments: Namespace, token: "Token", what: str) -> None:
    with opened_store(arguments) as store:
        store.add_token(token)
    audited(arguments, what, token=token.name, model=token.model, agent=token.agent)


def _define_code(add: Add) -> None:
    add("model", metavar="MODEL", help="model that the agent may use")
    add("agent", metavar="AGENT", help="agent that the token will be for")
    told = "how long the code can be used: 7d, 12h, 30m or 45s (default: 1d)"
    add("--expires", type=duration, default=_DAY, metavar="TIME", help=told)
    _add_lifetime(add)
    _changes(add)


def _code(arguments: Namespace) -> None:
    from fedbandit.service.tokens import new_token
    from fedbandit.terms import check_agent_name

    code, token = new_token(
        model=arguments.model,
        agent=check_agent_name(arguments.agent),
        lifetime=arguments.lifetime,
        code_for=arguments.expires,
    )
    _add(arguments, token, "code created")
    note = f"named {token.name}; it can be used once, until {_when(token.expires)}"
    _tell_secret(arguments, token, code, note)


def _define_rotate(add: Add) -> None:
    add("name", metavar="NAME", help="name of the token, as fedbandit token list shows it")
    told = "how long the old one stays good: 7d, 12h, 30m or 45s (default: 1d)"
    add("--overlap", type=duration, default=_DAY, metavar="TIME", help=told)
    _changes(add)


def _rotate(arguments: Namespace) -> None:
    from fedbandit.service.tokens import new_token

    ends = time.time() + arguments.overlap
    with opened_store(arguments) as store:
        tokens = {token.name: token for token in store.tokens()}
        old = tokens.get(arguments.name)
        if old is None or old.code:
            raise unknown("token", arguments.name, tokens)
        secret, new = new_token(model=old.model, agent=old.agent, lifetime=old.lifetime)
        store.succeed(old.digest, new, ends=ends)
    audited(arguments, "token rotated", token=old.name, made=new.name)
    told = f"named {new.name}; copy it now, it is not shown again"
    note = f"{told}. {old.name} stays good until {_when(ends)}"
    _tell_secret(arguments, new, secret, note)


def _define_revoke(add: Add) -> None:
    add("name", metavar="NAME", help="name of the token, as fedbandit token list shows it")
    _changes(add)


def _revoke(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        store.revoke(arguments.name)
    audited(arguments, "token revoked", token=arguments.name)
    report(
        arguments,
        lambda: {"name": arguments.name, "revoked": True},
        lambda: print(f"{arguments.name}: revoked"),
    )


def _list(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        tokens = store.tokens()
    report(arguments, lambda: {"tokens": list(map(_listed, tokens))}, lambda: _show_tokens(tokens))


def _listed(token: "Token") -> dict[str, object]:
    return {
        "name": token.name,
        "model": token.model,
        "agent": token.agent,
        "admin": token.model is None,
        "code": bool(token.code),
        "made": token.created,
        "used": token.used,
        "expires": token.expires,
    }


def _show_tokens(tokens: "Sequence[Token]") -> None:
    rows = [
        (
            each.name,
            each.model or "(admin)",
            each.agent or "",
            _when(each.created),
            "(code)" if each.code else _when(each.used),
            _when(each.expires),
        )
        for each in tokens
    ]
    show_table("Tokens", ("name", "model", "agent", "made", "used", "expires"), rows)


def _when(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _define_renew(add: Add) -> None:
    add("url", metavar="URL", help="the coordinator's address")
    add("model", metavar="MODEL", help="name of the model")
    add("agent", metavar="AGENT", help="name of this agent")
    told = "file with the token; agents that were given this file go over to the new one"
    add("--token-file", type=Path, required=True, metavar="FILE", help=told)
    add_trust(add)
    add_json(add)


def _define_enrol(add: Add) -> None:
    _define_renew(add)
    told = "file with the code; better than on the command line, where other users see it"
    add("--code-file", type=Path, required=True, metavar="FILE", help=told)


def _enrol(arguments: Namespace) -> None:
    from fedbandit.client.enrolment import enrol, read_token

    enrol(
        arguments.url,
        model=arguments.model,
        agent=arguments.agent,
        code=read_token(arguments.code_file),
        token_file=arguments.token_file,
        cafile=arguments.cafile,
        insecure=arguments.insecure_coordinator,
    )
    _tell_file(arguments, "a token")


def _renew(arguments: Namespace) -> None:
    from fedbandit.client.enrolment import renew

    renew(
        arguments.url,
        model=arguments.model,
        agent=arguments.agent,
        token_file=arguments.token_file,
        cafile=arguments.cafile,
        insecure=arguments.insecure_coordinator,
    )
    _tell_file(arguments, "a new token")


def _tell_file(arguments: Namespace, what: str) -> None:
    model, agent, file = arguments.model, arguments.agent, arguments.token_file
    report(
        arguments,
        lambda: {"file": file, "model": model, "agent": agent},
        lambda: print(f"{file}: {what} for {model}/{agent}"),
    )


TOKEN = Command(
    name="token",
    summary="Create, rotate, revoke and list the tokens with which agents talk to a coordinator.",
    example=EXAMPLE,
    extra="service",
    verbs=(
        Command("create", "Create a token and print it, this one time.", _define_create, _create),
        Command("code", "Create a code to be exchanged for a token, once.", _define_code, _code),
        Command("rotate", "Replace a token without a gap.", _define_rotate, _rotate),
        Command("revoke", "Revoke a token, within a second.", _define_revoke, _revoke),
        Command("list", "List tokens by name; the secrets are not stored.", _define_list, _list),
        Command("enrol", "On a device: exchange a code for a token.", _define_enrol, _enrol),
        Command("renew", "On a device: exchange a token for another.", _define_renew, _renew),
    ),
)
