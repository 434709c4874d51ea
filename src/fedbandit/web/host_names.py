"""The host names that a server without tokens answers to: a guard against web pages.

A sidecar and an open coordinator answer any program on the machine. That includes a browser, which
runs scripts of web pages. A browser lets a script talk to the host *name* it came from only, but
the owner of that name can point it to 127.0.0.1 (DNS rebinding). The ``Host`` header then still has
the page's name, and a request from a page of another site says so in ``Origin``: both are refused.
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
class HostNames:
    """localhost, loopback addresses, the address listened on, and the names that are ``allowed``.

    A server that listens on every address answers to any IP address too: rebinding needs a name.
    """

    listen: str = "127.0.0.1"
    allowed: frozenset[str] = frozenset()

    def include(self, given: str) -> bool:
        """Return whether HOST[:PORT] is one of these names."""
        name = _without_port(given).lower()
        if name in {"localhost", self.listen.lower()} or name in self.allowed:
            return True
        try:
            return ip_address(name).is_loopback or ip_address(self.listen).is_unspecified
        except ValueError:
            return False


LOCAL: Final = HostNames()
"""For a server on loopback."""


class HostCheck:
    """Middleware that refuses requests to other host names, and from pages of other sites.

    ``refused`` is called with the status of each refused request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: HostNames,
        refused: Callable[[HTTPStatus], None] = lambda _: None,
    ) -> None:
        self._app, self._names, self._refused = app, names, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._names.include(host):
            message = f"got {host[:80]!r}; expected this machine, or a name given by --allow-host"
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "host", message)
        if origin is not None and not self._names.include(origin.partition("://")[2]):
            message = f"got {origin[:80]!r}; requests from pages of other sites are refused"
            return self._refuse(HTTPStatus.FORBIDDEN, "origin", message)
        return None

    def _refuse(self, status: HTTPStatus, field: str, message: str) -> Response:
        self._refused(status)
        return error_response(status, field, message)


def _without_port(given: str) -> str:
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]
