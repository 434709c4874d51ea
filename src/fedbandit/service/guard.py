"""What stands in for tokens where a coordinator asks for none."""

from starlette.applications import Starlette

from fedbandit.service.listen import Address
from fedbandit.service.settings import Settings
from fedbandit.web.names import Names, OwnNamesOnly


def guarded(app: Starlette, address: Address, settings: Settings) -> Starlette:
    """Let an open coordinator's application answer to its own names alone; return it.

    Otherwise any web page could upload through a browser on this machine. With tokens, whoever says
    one is let in, whatever name it knows the coordinator by: a page has none to say.
    """
    if settings.open:
        names = Names(listen=address.host, allowed=settings.allowed_hosts)
        app.add_middleware(OwnNamesOnly, names=names)
    return app
