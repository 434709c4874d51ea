"""Protection of a coordinator that asks for no tokens."""

from http import HTTPStatus

from starlette.applications import Starlette

from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.address import Address
from fedbandit.service.http.app import app_of
from fedbandit.web.host_names import HostCheck, HostNames


def guarded(coordinator: Coordinator, address: Address, app: Starlette | None = None) -> Starlette:
    """Return a coordinator's application, which answers to its own names alone if it is open.

    Otherwise any web page could upload through a browser on this machine. With tokens that needs no
    guard, under any name: a page has no token to send. ``app``: another one than with everything.
    """

    def count(status: HTTPStatus) -> None:
        coordinator.metrics.count("fedbandit_refused_total", status=str(int(status)))

    app, settings = app or app_of(coordinator), coordinator.settings
    if settings.open:
        names = HostNames(listen=address.host, allowed=settings.allowed_hosts)
        app.add_middleware(HostCheck, names=names, refused=count)
    return app
