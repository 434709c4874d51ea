"""``/docs``: a description in OpenAPI as a page to read and to try.

The page is Swagger UI, of which the static files come from the package swagger-ui-py; nothing is
fetched from another host. Where that package is not installed, a page without scripts takes its
place.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from fedbandit.web.openapi import PAGE_HEADERS, Described, page

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Of the page with scripts, which are all from here; Swagger UI writes styles into its elements."""
_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
_THEIRS: Final = ("swagger-ui.css", "swagger-ui-bundle.js")
_OURS: Final = ("docs.css", "docs.js")
_PIECE = 2**15  # bytes


def docs_routes(described: Described) -> list[BaseRoute]:
    """Return the routes of a description in JSON, and of the page that shows it."""
    text = json.dumps(described)
    shown, headers = (_page(described), HEADERS) if _assets() else (page(described), PAGE_HEADERS)

    async def openapi(_: Request) -> Response:
        return Response(text, media_type="application/json")

    async def docs(_: Request) -> Response:
        return HTMLResponse(shown, headers=headers)

    return [
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/docs", docs, methods=["GET"]),
        Route("/docs/{file}", _file, methods=["GET"]),
    ]


async def _file(request: Request) -> Response:
    name, assets = request.path_params["file"], _assets()
    if name not in _OURS and (assets is None or name not in _THEIRS):
        raise HTTPException(404)
    data = file_bytes(name)
    headers = {**HEADERS, "Content-Length": str(len(data))}
    kind = _TYPES[name.rpartition(".")[2]]
    return StreamingResponse(_pieces(data), media_type=kind, headers=headers)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """Give out a large file as fast as it is read: what is not read is not kept for its reader."""
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
        await asyncio.sleep(0)  # between the pieces others are served


@cache
def file_bytes(name: str) -> bytes:
    """Return a file of the page. To be called with names of files alone: it remembers each."""
    assets = _assets()
    if name in _OURS or assets is None:
        return files("fedbandit.web").joinpath("static", name).read_bytes()
    return (assets / name).read_bytes()


@cache
def _assets() -> Path | None:
    """Return where Swagger UI's files are, without importing the package; None if not installed."""
    found = find_spec("swagger_ui")
    for place in (found.submodule_search_locations or ()) if found else ():
        static = Path(place) / "static"
        if all((static / name).is_file() for name in _THEIRS):
            return static
    return None


def _page(described: Described) -> str:
    title = escape(described["info"]["title"])
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><link rel='icon' href='data:,'>"
        "<link rel='stylesheet' href='docs/swagger-ui.css'>"
        "<link rel='stylesheet' href='docs/docs.css'>"
        "<script src='docs/swagger-ui-bundle.js' defer></script>"
        "<script src='docs/docs.js' defer></script></head>"
        f"<body><main id='docs'><h1>{title}</h1><p>Reading the description…</p></main>"
        "<noscript><p>This page needs JavaScript; "
        "<a href='openapi.json'>openapi.json</a> is the same for programs.</p></noscript>"
        "</body></html>"
    )
