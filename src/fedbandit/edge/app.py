"""The HTTP endpoints of the sidecar: rank, reward, activate, and its status."""

from asyncio import timeout
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedbandit.client import ConnectedAgent
from fedbandit.edge.metrics import CONTENT_TYPE, metrics_text
from fedbandit.edge.openapi import DESCRIPTION
from fedbandit.edge.ranking import RankRequest, RewardRequest, rank
from fedbandit.errors import (
    Closed,
    DuplicateDecision,
    FedbanditError,
    OutputError,
    SettledDecision,
    UnknownDecision,
)
from fedbandit.web import gate
from fedbandit.web.docs_page import docs_routes
from fedbandit.web.errors import error_response
from fedbandit.web.host_names import LOCAL, HostCheck, HostNames

LARGEST_BODY: Final = 2**20
BODY_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 3.0
_SMALL = 2**13  # bytes of a request that is answered in the event loop; the worst takes 10 ms

T = TypeVar("T")

_STATUS: Final[dict[type[Exception], HTTPStatus]] = {
    UnknownDecision: HTTPStatus.NOT_FOUND,
    SettledDecision: HTTPStatus.CONFLICT,
    DuplicateDecision: HTTPStatus.CONFLICT,
    OutputError: HTTPStatus.SERVICE_UNAVAILABLE,
    Closed: HTTPStatus.SERVICE_UNAVAILABLE,
}


def make_app(agent: ConnectedAgent, names: HostNames = LOCAL, *, shadow: bool = False) -> Starlette:
    """Return the application of one agent. It closes the agent when it stops.

    ``names``: the host names that it answers to. ``shadow``: the first action of each request is
    what the caller's own rule takes, and what it is answered with.
    """
    endpoints = _Endpoints(agent, shadow=shadow)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(agent.close, timeout=CLOSE_SECONDS)

    routes = [
        Route("/rank", endpoints.rank, methods=["POST"]),
        Route("/events/{id}/reward", endpoints.reward, methods=["POST"]),
        Route("/events/{id}/activate", endpoints.activate, methods=["POST"]),
        Route("/healthz", endpoints.health, methods=["GET"]),
        Route("/metrics", endpoints.metrics, methods=["GET"]),
        *docs_routes(DESCRIPTION),
    ]
    handlers = {FedbanditError: _refuse, HTTPException: _refuse_http}
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers=handlers,
        middleware=[Middleware(HostCheck, names=names)],
    )
    app.router.redirect_slashes = False
    return app


class _Endpoints:
    """The endpoints that call the agent.

    What takes long, or may wait for the disk, is called in a thread. Changing threads costs more
    than a choice among a few actions, which waits for nothing.
    """

    def __init__(self, agent: ConnectedAgent, *, shadow: bool) -> None:
        self._agent, self._shadow = agent, shadow

    async def rank(self, request: Request) -> Response:
        """Choose an action."""
        body = await _json_body(request)
        asked = _parsed(body, RankRequest)
        if len(body) <= _SMALL and not asked.explain:
            answer = rank(self._agent, asked, shadow=self._shadow)
        else:
            answer = await run_in_threadpool(rank, self._agent, asked, shadow=self._shadow)
        gate.admit(request.scope)
        return Response(
            msgspec.json.encode(answer), HTTPStatus.CREATED, media_type="application/json"
        )

    async def reward(self, request: Request) -> Response:
        """Record the reward of an action."""
        name = request.path_params["id"]
        value = _parsed(await _json_body(request), RewardRequest).value
        if not self._agent.reward_at_once(name, value):
            await run_in_threadpool(self._agent.reward, name, value)
        gate.admit(request.scope)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def activate(self, request: Request) -> Response:
        """Record that a deferred action was taken."""
        await run_in_threadpool(self._agent.activate, request.path_params["id"])
        gate.admit(request.scope)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def health(self, _: Request) -> Response:
        """Return the status of the agent: 200 also when it has trouble."""
        return JSONResponse(asdict(await run_in_threadpool(self._agent.status)))

    async def metrics(self, _: Request) -> Response:
        """Return the status as metrics."""
        status = await run_in_threadpool(self._agent.status)
        return Response(metrics_text(status), media_type=CONTENT_TYPE)


async def _json_body(request: Request) -> bytes:
    """Return the body. JSON only: a web page can send other types without asking."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json":
        message = f"content-type: got {given[:80]!r}; expected application/json"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    return await _body(request)


def _parsed(body: bytes, form: type[T]) -> T:
    """Return a body as ``form``; raise HTTPException if it is not one."""
    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"body: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"body: {error}") from error


async def _body(request: Request) -> bytes:
    """Return the body; refuse one that is too large or too slow."""
    body = bytearray()
    try:
        async with timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    message = f"body: it is larger than {LARGEST_BODY} bytes"
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    except ClientDisconnect as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "body: it ended early") from error
    except TimeoutError as error:
        raise HTTPException(
            HTTPStatus.REQUEST_TIMEOUT, f"body: it took longer than {BODY_SECONDS:g} seconds"
        ) from error
    return bytes(body)


async def _refuse(_: Request, error: Exception) -> Response:
    """Answer an error of the agent."""
    status = _STATUS.get(type(error), HTTPStatus.UNPROCESSABLE_ENTITY)
    headers = {"Retry-After": "1"} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return _error(status, str(error), headers)


async def _refuse_http(_: Request, error: Exception) -> Response:
    """Answer an error in the request itself."""
    if not isinstance(error, HTTPException):
        raise error
    return _error(error.status_code, str(error.detail), dict(error.headers or {}))


def _error(status: int, message: str, headers: dict[str, str] | None) -> Response:
    field, _, rest = message.partition(": ")
    return error_response(status, field if rest else "path", rest or message, headers)
