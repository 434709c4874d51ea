"""Which names a server answers to, so that no web page gets at it through a browser.

A sidecar asks for no token, nor does an open coordinator: whoever runs programs on the machine may
ask it. A browser runs the programs of strangers. It keeps them to the site that they came from, but
by its *name*, and who owns a name can let it point to 127.0.0.1 (DNS rebinding). Then the browser
says that name in ``Host``, which is how it is told apart. What a page of another site posts says so
in ``Origin``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fedbandit.web.errors import error_response


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The address that is listened at, localhost, this machine's own numbers, and what is allowed.

    A number cannot be made to point elsewhere, so one that listens everywhere answers to any.
    """

    listen: str = "127.0.0.1"
    allowed: frozenset[str] = frozenset()

    def include(self, given: str) -> bool:
        """Say whether HOST[:PORT] is one of them."""
        name = _without_port(given).lower()
        if name in {"localhost", self.listen.lower()} or name in self.allowed:
            return True
        try:
            return ip_address(name).is_loopback or ip_address(self.listen).is_unspecified
        except ValueError:
            return False


LOCAL: Final = Names()
"""For a server that is reached from its own machine alone."""


class OwnNamesOnly:
    """Lets requests through to an application that were meant for it.

    ``refused`` is told the status of each that was not.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: Names,
        refused: Callable[[HTTPStatus], None] = lambda _: None,
    ) -> None:
        self._app, self._names, self._refused = app, names, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what was meant for another name, or comes from a page of another site."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._names.include(host):
            message = f"got {host[:80]!r}; expected this machine, or what --allow-host names"
            return self._no(HTTPStatus.MISDIRECTED_REQUEST, "host", message)
        if origin is not None and not self._names.include(origin.partition("://")[2]):
            message = f"got {origin[:80]!r}; expected no page of another site"
            return self._no(HTTPStatus.FORBIDDEN, "origin", message)
        return None

    def _no(self, status: HTTPStatus, field: str, message: str) -> Response:
        self._refused(status)
        return error_response(status, field, message)


def _without_port(given: str) -> str:
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]
