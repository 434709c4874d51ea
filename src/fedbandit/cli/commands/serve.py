"""``fedbandit serve``: run the coordinator."""

import logging
from argparse import Namespace
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_audit, add_store, audit_file, store_url
from fedbandit.cli.serving import (
    add_allow_host,
    add_idle_seconds,
    add_listen,
    announce,
    log_to_stderr,
)
from fedbandit.cli.values import positive, seconds
from fedbandit.errors import InvalidParameter

if TYPE_CHECKING:
    from fedbandit.service.access.audit import AuditLog
    from fedbandit.service.http.address import Tls
    from fedbandit.service.relay.upstream import Above

_log = logging.getLogger("fedbandit.service")
EXAMPLE = """\
fedbandit serve --store sqlite:///fedbandit.db --listen 127.0.0.1:8400

Create models and tokens in the same store, before it runs or while it does:

  fedbandit model create news --dimension 100
  fedbandit token create news phone-7

A relay, one agent of a coordinator above and a coordinator of its own agents:

  fedbandit serve --store sqlite:///relay.db --listen 127.0.0.1:8401 \\
    --upstream https://root.example --upstream-agent berlin --upstream-token-file news=token"""


def _define(add: Add) -> None:
    add_store(add)
    add_listen(add, "127.0.0.1:8400")
    add("--tls-cert", type=Path, metavar="PEM", help="certificate (chain); serves https")
    add("--tls-key", type=Path, metavar="PEM", help="private key of the certificate")
    told = "authorities whose client certificates may take the place of tokens (token create "
    add("--tls-client-ca", type=Path, metavar="PEM", help=f"{told}--certificate)")
    told = "answer the board, /metrics, /readyz and /docs at this address alone"
    add("--admin-listen", metavar="HOST:PORT", help=told)
    add_audit(add)
    told = "megabytes that the audit log and the one before it may take (default: 100)"
    add("--audit-megabytes", type=positive, default=100, metavar="N", help=told)
    add("--open", action="store_true", help="ask for no tokens: accept any agent that connects")
    add_allow_host(add, when="with --open: ")
    told = "allow other addresses than loopback without TLS or tokens, behind a proxy for example"
    add("--insecure", action="store_true", help=told)
    _define_upstream(add)
    told = "uploads in progress at once; more get 503 and retry later (default: 256)"
    add("--queue", type=positive, default=256, metavar="N", help=told)
    told = "seconds in which the body of a request has to arrive (default: 10)"
    add("--body-seconds", type=seconds, default=10.0, metavar="S", help=told)
    add_idle_seconds(add)
    told = "wrong tokens of one address that are told so; then one a second (default: 60)"
    add("--wrong-tokens", type=positive, default=60, metavar="N", help=told)
    told = "requests of one agent at once that change nothing (refused uploads, copies, states); "
    told += "then one a second (default: 120)"
    add("--fruitless", type=positive, default=120, metavar="N", help=told)
    told = "connections of one address that have no request admitted yet (default: 256)"
    add("--per-address", type=positive, default=256, metavar="N", help=told)


def _define_upstream(add: Add) -> None:
    told = "address of a coordinator above: pass on to it what is merged here, as one agent of it"
    add("--upstream", metavar="URL", help=told)
    told = "the name of that agent (default: this machine's host name)"
    add("--upstream-agent", metavar="NAME", help=told)
    told = "a model to pass on, made here if it does not exist, and the file with its token; may be"
    told += " repeated. Without MODEL= for the one --upstream-model"
    add("--upstream-token-file", action="append", default=[], metavar="[MODEL=]FILE", help=told)
    told = "a model to pass on to a coordinator that asks for no tokens; may be repeated"
    add("--upstream-model", action="append", default=[], metavar="MODEL", help=told)
    told = "certificates to trust with an https --upstream in place of the system's"
    add("--upstream-cafile", metavar="PEM", help=told)
    told = "send the token over http to another machine too, where anybody on the way can read it"
    add("--insecure-upstream", action="store_true", help=told)
    told = "seconds after which to pass on what waits, whether the trigger has fired or not, or to "
    told += "ask for news if nothing does (default: 60)"
    add("--upstream-wait", type=seconds, default=60.0, metavar="S", help=told)


def _above(arguments: Namespace) -> "Above | None":
    """Return the coordinator above and the models for it; None if there is none."""
    from fedbandit.service.relay.upstream import Above

    if arguments.upstream is None:
        if arguments.upstream_model or arguments.upstream_token_file:
            raise InvalidParameter("Models are passed on to an address. Give --upstream too.")
        return None
    models: dict[str, Path | None] = dict.fromkeys(arguments.upstream_model)
    for given in arguments.upstream_token_file:
        model, _, file = given.rpartition("=")
        if not model and len(arguments.upstream_model) != 1:
            said = f"--upstream-token-file {given} does not say for which model it is."
            raise InvalidParameter(f"{said} Give MODEL=FILE, or one --upstream-model.")
        models[model or arguments.upstream_model[0]] = Path(file)
    if not models:
        said = "--upstream needs to know which models to pass on."
        raise InvalidParameter(f"{said} Give --upstream-token-file MODEL=FILE.")
    return Above(
        url=arguments.upstream,
        agent=arguments.upstream_agent or gethostname(),
        models=models,
        wait=arguments.upstream_wait,
        cafile=arguments.upstream_cafile,
        insecure=arguments.insecure_upstream,
    )


def _execute(arguments: Namespace) -> None:
    from fedbandit.service.http.address import read_address
    from fedbandit.service.serve import serve
    from fedbandit.service.settings import Settings
    from fedbandit.web.connections import ConnectionBounds

    address, tls = read_address(arguments.listen), _tls(arguments)
    settings = Settings(
        open=arguments.open,
        allowed_hosts=_allowed_hosts(arguments),
        queue=arguments.queue,
        body_seconds=arguments.body_seconds,
        idle_seconds=arguments.idle_seconds,
        wrong_tokens=arguments.wrong_tokens,
        fruitless=arguments.fruitless,
        bounds=ConnectionBounds(per_address=arguments.per_address),
    )
    log_to_stderr()
    serve(
        store_url(arguments),
        address,
        settings=settings,
        tls=tls,
        insecure=arguments.insecure,
        admin=read_address(arguments.admin_listen) if arguments.admin_listen else None,
        audit=_audit(arguments),
        above=_above(arguments),
        announce=announce("serving"),
    )


def _audit(arguments: Namespace) -> "AuditLog | None":
    from fedbandit.service.access.audit import AuditLog

    path = audit_file(arguments)
    if path is None:
        return None
    return AuditLog(
        path,
        most_bytes=arguments.audit_megabytes * 1_000_000,
        failed=lambda error: _log.error("the audit log cannot be written: %s", error),
    )


def _allowed_hosts(arguments: Namespace) -> frozenset[str]:
    if arguments.allow_host and not arguments.open:
        said = "--allow-host is for --open alone: with tokens, any host name is answered."
        raise InvalidParameter(f"{said} Leave it out, or add --open.")
    return frozenset(name.lower() for name in arguments.allow_host)


def _tls(arguments: Namespace) -> "Tls | None":
    from fedbandit.service.http.address import Tls

    if arguments.tls_cert is None and arguments.tls_key is None:
        if arguments.tls_client_ca is not None:
            raise InvalidParameter("--tls-client-ca needs TLS. Give --tls-cert and --tls-key too.")
        return None
    if arguments.tls_cert is None or arguments.tls_key is None:
        raise InvalidParameter("TLS needs both files. Give --tls-cert and --tls-key, or neither.")
    ca = arguments.tls_client_ca
    return Tls(certificate=arguments.tls_cert, key=arguments.tls_key, clients=ca)


SERVE = Command(
    name="serve",
    summary="Run a coordinator: merge what agents upload, each upload exactly once, on disk.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
)
