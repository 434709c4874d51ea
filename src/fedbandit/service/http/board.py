"""The board over HTTP: its pages, sign-in, and what they show, as JSON and as it changes."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from html import escape
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from fedbandit.errors import UnknownName
from fedbandit.service.access.sessions import SESSION_SECONDS
from fedbandit.service.board.views import RANGES
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.refusal import Refusal, not_now
from fedbandit.service.tokens import bearer, digest_of
from fedbandit.web import gate
from fedbandit.web.gate import connection_of

PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, the form's Origin would be null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer of the board: it loads nothing from elsewhere, and is shown in no frame."""
_COOKIE = "fedbandit_board"
_SECRET = re.compile(rf"(?:^|; ?){_COOKIE}=([\w-]{{1,100}})(?:;|$)", re.ASCII)
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES: Final = ("board.css", "board.js", "charts.js", "words.js", "icon.svg")
_FORM_BYTES, _FORM_FIELDS, _FORM_SECONDS = 8192, 10, 10.0
WATCHERS: Final = 100
"""Browsers that are told of changes at a time."""
_LOOK_SECONDS, _STILL_HERE_SECONDS, _STOP_SECONDS = 1.0, 10.0, 0.2
_WRONG = "That is not an admin token of this coordinator. Make one with the command below."
_TOO_MANY = "Too many wrong tokens came from this address. Wait a minute, then try again."
_AWAY = "The coordinator cannot read its store for now. Try again in a moment; its log says why."


def board_routes(coordinator: Coordinator) -> list[BaseRoute]:
    """Return the routes of the board."""
    pages = _Pages(coordinator)
    return [
        Route("/", pages.home, methods=["GET"]),
        Route("/board/sign-in", pages.sign_in, methods=["POST"]),
        Route("/board/sign-out", pages.sign_out, methods=["POST"]),
        Route("/board/models", pages.models, methods=["GET"]),
        Route("/board/models/{model}", pages.model, methods=["GET"]),
        Route("/board/events", pages.events, methods=["GET"]),
        Route("/board/{file}", _file, methods=["GET"]),
    ]


class _Pages:
    """The endpoints that need the coordinator."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._watchers = coordinator, 0

    async def home(self, request: Request) -> Response:
        """Show the board, or the form to sign in with."""
        try:
            await self._admit(request)
        except Refusal as refusal:
            if _cookie(request):
                self._note_refused(request, refusal)
            told = {HTTPStatus.UNAUTHORIZED: "", HTTPStatus.TOO_MANY_REQUESTS: _TOO_MANY}
            return _sign_in_page(told.get(refusal.status, _AWAY), HTTPStatus.OK)
        name = "open" if self._coordinator.settings.open else "signed-in"
        return _html(_text("index.html").replace("{{session}}", name))

    async def sign_in(self, request: Request) -> Response:
        """Begin a session, if the form has an admin's token."""
        _check_origin(request)
        secret = (await _form(request)).get("token", [""])[0].strip()
        try:
            cookie = await self._coordinator.authentication.start_session(
                secret, connection_of(request.scope)
            )
        except Refusal as refusal:
            self._note_refused(request, refusal)
            told = {HTTPStatus.UNAUTHORIZED: _WRONG, HTTPStatus.TOO_MANY_REQUESTS: _TOO_MANY}
            return _sign_in_page(told.get(refusal.status, _AWAY), refusal.status)
        if self._coordinator.audit is not None:
            name = self._coordinator.authentication.name_of(digest_of(secret))
            self._coordinator.audit.note("signed in", **{"from": _address(request)}, token=name)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=PAGE_HEADERS)
        _set_cookie(response, request, cookie, SESSION_SECONDS)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        _check_origin(request)
        await self._coordinator.authentication.end_session(_cookie(request))
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=PAGE_HEADERS)
        _set_cookie(response, request, "", 0)
        return response

    async def models(self, request: Request) -> Response:
        """Return all models as JSON."""
        await self._admit(request)
        return _json(await self._coordinator.board.models())

    async def model(self, request: Request) -> Response:
        """Return one model as JSON."""
        await self._admit(request)
        read = self._reading(request.path_params["model"], request)
        return _json(await read())

    async def events(self, request: Request) -> Response:
        """Send a view, and again whenever it has changed, until the browser leaves."""
        await self._admit(request)
        if self._watchers >= WATCHERS:
            raise not_now("board", f"{WATCHERS} browsers watch it already")
        name = request.query_params.get("model")
        read = self._reading(name, request) if name else self._coordinator.board.models
        first = await read()
        headers = {**PAGE_HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._changes(request, read, first), media_type="text/event-stream", headers=headers
        )

    async def _changes(
        self, request: Request, read: Callable[[], Any], first: bytes
    ) -> AsyncIterator[bytes]:
        if self._watchers >= WATCHERS:  # many may have asked at the same moment
            yield _trouble(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        self._watchers += 1
        try:
            yield b"retry: 1000\n\n" + _event(first)
            last, told = first, time.monotonic()
            while await self._pause():
                try:
                    await self._admit(request)
                    view = await read()
                except Refusal as refusal:
                    yield _trouble(refusal.status)
                    return
                if view != last:
                    last, told = view, time.monotonic()
                    yield _event(view)
                elif time.monotonic() - told > _STILL_HERE_SECONDS:
                    told = time.monotonic()
                    yield b"event: same\ndata: {}\n\n"
        finally:
            self._watchers -= 1

    async def _pause(self) -> bool:
        """Wait a moment; return False as soon as the coordinator is about to stop."""
        ends = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < ends and not self._coordinator.stopping:
            await asyncio.sleep(_STOP_SECONDS)
        return not self._coordinator.stopping

    def _reading(self, name: str, request: Request) -> Callable[[], Any]:
        shown: Any = request.query_params.get("range", "day")
        if shown not in RANGES:
            message = f"got {shown[:80]!r}; expected one of {', '.join(RANGES)}"
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "range", message)

        async def read() -> bytes:
            try:
                return await self._coordinator.board.model(name, shown)
            except UnknownName as error:
                raise Refusal(HTTPStatus.NOT_FOUND, "model", str(error)) from error

        return read

    def _note_refused(self, request: Request, refusal: Refusal) -> None:
        """Count a wrong token or cookie that is answered with a page, as others are counted."""
        status = int(refusal.status)
        self._coordinator.metrics.count("fedbandit_refused_total", status=str(status))
        if self._coordinator.audit is not None:
            self._coordinator.audit.refused(_address(request), status, refusal.field)

    async def _admit(self, request: Request) -> None:
        """Raise Refusal unless a request has a session, or an admin's token as programs send it."""
        known = self._coordinator.authentication
        secret, connection = (
            bearer(request.headers.get("authorization", "")),
            connection_of(request.scope),
        )
        if secret:
            await known.admit(secret, model=None, agent=None, connection=connection)
        else:
            await known.admit_session(_cookie(request), connection)
        gate.admit(request.scope)


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise Refusal(HTTPStatus.NOT_FOUND, "path", "Not Found")
    return Response(_text(name), media_type=_TYPES[name.rpartition(".")[2]], headers=PAGE_HEADERS)


@cache
def _text(name: str) -> str:
    return files("fedbandit.service.board").joinpath("static", name).read_text(encoding="utf-8")


def _cookie(request: Request) -> str:
    """Return the secret of a session; nothing if the request has none that could be one.

    Without Python's own reader of cookies: for one of 15 kB in quotes that took a second.
    """
    found = _SECRET.search(request.headers.get("cookie", ""))
    return found[1] if found else ""


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _html(text: str, status: int = HTTPStatus.OK) -> Response:
    return Response(text, status, media_type="text/html", headers=PAGE_HEADERS)


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json", headers=PAGE_HEADERS)


def _event(view: bytes) -> bytes:
    return b'event: view\ndata: {"now":%d,"view":%s}\n\n' % (time.time(), view)


def _trouble(status: HTTPStatus) -> bytes:
    return b"event: trouble\ndata: %d\n\n" % int(status)


def _sign_in_page(message: str, status: int) -> Response:
    told = f'<p class="wrong" id="wrong" role="alert">{escape(message)}</p>' if message else ""
    return _html(_text("sign-in.html").replace("{{message}}", told), status)


def _set_cookie(response: Response, request: Request, value: str, seconds: int) -> None:
    response.set_cookie(
        _COOKIE,
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _check_origin(request: Request) -> None:
    """Raise Refusal (403) if a page of another site sends the form."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is not None and origin.partition("://")[2] != host:
        message = f"got {origin[:80]!r}; forms of other sites are refused"
        raise Refusal(HTTPStatus.FORBIDDEN, "origin", message)


async def _form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form that was posted."""
    body = b""
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _FORM_BYTES:
                    message = f"a form has at most {_FORM_BYTES} bytes"
                    raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body", message)
    except TimeoutError as error:
        message = "the body did not arrive in time"
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "body", message) from error
    except ClientDisconnect as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, "body", "it ended early") from error
    try:
        return parse_qs(body.decode("latin-1"), max_num_fields=_FORM_FIELDS)
    except ValueError as error:
        message = f"a form has at most {_FORM_FIELDS} fields"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "body", message) from error
