"""The coordinator over HTTP."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from fedbandit import wire
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.board import board_routes
from fedbandit.service.http.openapi import DESCRIPTION
from fedbandit.service.metrics import CONTENT_TYPE
from fedbandit.service.refusal import Refusal, failed, not_now
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.tokens import bearer
from fedbandit.terms import NAME_RULE, is_log_name, is_name
from fedbandit.web import gate
from fedbandit.web.docs_page import docs_routes
from fedbandit.web.gate import connection_of

_AGENT = "/v1/models/{model}/agents/{agent}"
_DRAINED = 2**20  # of a body that is refused, to let its sender read the answer
_DRAIN_SECONDS = 2.0
_DIGEST_DIGITS = 64
_DIGITS = 19  # of the longest number there is any use for
_log = logging.getLogger("fedbandit.service")

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(store: Store, settings: Settings) -> Starlette:
    """Return the application; it closes the store when it is stopped."""
    return app_of(Coordinator(store, settings))


def app_of(coordinator: Coordinator, *, watched: bool = True) -> Starlette:
    """Return the application of a coordinator, which stops with it.

    ``watched``: it has the endpoints for operators too; else they are ``watching_app``'s alone.
    """
    endpoints = _Endpoints(coordinator)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Mapping[str, Coordinator]]:
        noting = asyncio.create_task(coordinator.note_uses())
        yield {"coordinator": coordinator}
        noting.cancel()
        await coordinator.stop()

    routes: list[BaseRoute] = [
        Route(f"{_AGENT}/sync", endpoints.sync, methods=["POST"]),
        Route(f"{_AGENT}/state", endpoints.state, methods=["GET"]),
        Route(f"{_AGENT}/token", endpoints.token, methods=["POST"]),
        Route("/healthz", _alive, methods=["GET"]),
    ]
    if watched:
        routes += _watching_routes(endpoints)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_handlers(endpoints))
    app.router.redirect_slashes = False  # it would send agents to the Host that a request names
    return app


def watching_app(coordinator: Coordinator) -> Starlette:
    """Return an application with the endpoints for operators, for an address of their own."""
    endpoints = _Endpoints(coordinator)
    routes = [Route("/healthz", _alive, methods=["GET"]), *_watching_routes(endpoints)]
    app = Starlette(routes=routes, exception_handlers=_handlers(endpoints))
    app.router.redirect_slashes = False
    return app


def _watching_routes(endpoints: "_Endpoints") -> list[BaseRoute]:
    return [
        *board_routes(endpoints.coordinator),
        Route("/readyz", endpoints.ready, methods=["GET"]),
        Route("/metrics", endpoints.metrics, methods=["GET"]),
        *docs_routes(DESCRIPTION),
    ]


def _handlers(endpoints: "_Endpoints") -> dict[Any, Any]:
    return {
        Refusal: endpoints.refuse,
        HTTPException: endpoints.refuse_http,
        Exception: endpoints.fail,
    }


class _Endpoints:
    """The endpoints that need the coordinator."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    async def sync(self, request: Request) -> Response:
        """Merge an upload and answer with everything merged."""
        started, coordinator = time.perf_counter(), self.coordinator
        if coordinator.stopping:
            raise not_now("coordinator", "it is stopping")
        coordinator.turns.check_queue()
        model, agent, token = await self._admitted(request, asked_again=True)
        try:
            with coordinator.turns.talking(model, agent):
                served = await coordinator.served(model)
                _check_media_type(request)
                body = await self._body(request, served.largest_body)
                with coordinator.turns.waiting(len(body)):
                    answer = await coordinator.sync(served, agent, body, token=token)
        except Refusal as refusal:
            await coordinator.authentication.check(token, model=model, agent=agent)
            coordinator.traffic.refused(model, agent, refusal)
            raise
        gate.admit(request.scope)  # if it had no token to show
        sent = answer.body
        coordinator.metrics.synced(
            model,
            merged=answer.merged,
            cut=answer.cut,
            received=len(body),
            sent=len(sent),
            seconds=time.perf_counter() - started,
        )
        coordinator.traffic.synced(model, merged=answer.merged, received=len(body), sent=len(sent))
        self._note_repeated(request, "sync", token, received=len(body), sent=len(sent))
        return Response(sent, media_type=wire.MEDIA_TYPE)

    async def state(self, request: Request) -> Response:
        """Tell an agent the recipe and everything merged."""
        coordinator = self.coordinator
        model, agent, token = await self._admitted(request, asked_again=False)
        with coordinator.turns.talking(model, agent):
            served = await coordinator.served(model)
            asked = _have(request), _format(request), _since(request)
            told = await coordinator.joined(served, agent, *asked)
        body = told.body
        gate.admit(request.scope)
        coordinator.traffic.joined(model, agent, told)
        coordinator.metrics.count("fedbandit_states_total", model=model)
        coordinator.metrics.count("fedbandit_sent_bytes_total", len(body), model=model)
        self._note_repeated(request, "join", token, received=0, sent=len(body))
        return Response(body, media_type=wire.MEDIA_TYPE, headers={"Cache-Control": "no-store"})

    async def token(self, request: Request) -> Response:
        """Exchange an enrolment code, or a token, for a token whose digest the agent sends."""
        coordinator, connection = self.coordinator, connection_of(request.scope)
        model, agent = request.path_params["model"], request.path_params["agent"]
        if coordinator.settings.open:
            raise Refusal(HTTPStatus.NOT_FOUND, "path", "no tokens are asked for here")
        secret = bearer(_header(request, b"authorization"))
        given = await coordinator.authentication.admit_to_enrol(
            secret, model=model, agent=agent, connection=connection
        )
        with coordinator.turns.talking(model, agent, "token"):
            body = await self._body(request, _DIGEST_DIGITS)
            if not re.fullmatch(b"[0-9a-f]{64}", body):
                expected = "expected the SHA-256 of the new token: 64 of 0-9 a-f"
                raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "digest", expected)
            made = await coordinator.enrol(given, bytes.fromhex(body.decode()))
        self._note(
            request, "enrol" if given.code else "renew", given.digest, status=200, made=made.name
        )
        return JSONResponse(
            {"name": made.name, "expires": made.expires}, headers={"Cache-Control": "no-store"}
        )

    async def ready(self, _: Request) -> Response:
        """Say whether syncs would be answered now."""
        await self.coordinator.ready()
        return JSONResponse({"ready": True})

    async def metrics(self, request: Request) -> Response:
        """Show the metrics, to admins."""
        secret = bearer(_header(request, b"authorization"))
        connection = connection_of(request.scope)
        await self.coordinator.authentication.admit(
            secret, model=None, agent=None, connection=connection
        )
        gate.admit(request.scope)
        return Response(await self.coordinator.metrics_text(), media_type=CONTENT_TYPE)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer a request that was refused, once its body is read or was waited for."""
        if not isinstance(error, Refusal):
            raise error
        status = int(error.status)
        self.coordinator.metrics.count("fedbandit_refused_total", status=str(status))
        if self.coordinator.audit is not None:
            self.coordinator.audit.refused(_address(request), status, error.field)
        if error.status is not HTTPStatus.REQUEST_TIMEOUT:
            await _drain(request)
        return error.response()

    async def refuse_http(self, request: Request, error: Exception) -> Response:
        """Answer a request that has no endpoint."""
        if not isinstance(error, HTTPException):
            raise error
        field = "method" if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else "path"
        refusal = Refusal(HTTPStatus(error.status_code), field, str(error.detail))
        response = await self.refuse(request, refusal)
        response.headers.update(error.headers or {})
        return response

    async def fail(self, request: Request, error: Exception) -> Response:
        """Answer after a defect: the log gets the name of the error, the sender no detail."""
        self.coordinator.metrics.count("fedbandit_refused_total", status="500")
        _log.error("a %s failed: %s", request.method, type(error).__name__)
        return failed().response()

    def _note(self, request: Request, what: str, digest: bytes | None, **more: object) -> None:
        """Tell the audit log, if there is one, what was done."""
        audit = self.coordinator.audit
        if audit is not None:
            who = {"token": self.coordinator.authentication.name_of(digest)} if digest else {}
            named = {name: request.path_params[name] for name in ("model", "agent")}
            audit.note(what, **{"from": _address(request)}, **named, **who, **more)

    def _note_repeated(
        self, request: Request, what: str, digest: bytes | None, *, received: int, sent: int
    ) -> None:
        """Tell the audit log, if there is one, what agents do all the time."""
        audit = self.coordinator.audit
        if audit is not None:
            named = {name: request.path_params[name] for name in ("model", "agent")}
            token = self.coordinator.authentication.name_of(digest)
            audit.repeated(
                what,
                address=_address(request),
                token=token,
                received=received,
                sent=sent,
                **named,
            )

    async def _admitted(
        self, request: Request, *, asked_again: bool
    ) -> tuple[str, str, bytes | None]:
        """Return model, agent and the digest of a token that is good for them."""
        model, agent = request.path_params["model"], request.path_params["agent"]
        secret = bearer(_header(request, b"authorization"))
        token = await self.coordinator.authentication.admit(
            secret,
            model=model,
            agent=agent,
            asked_again=asked_again,
            connection=connection_of(request.scope),
        )
        if token is not None:
            gate.admit(request.scope)
        _check_names(model, agent)
        return model, agent, token

    async def _body(self, request: Request, most: int) -> bytes:
        """Return the body, if it is neither too large nor too slow."""
        told = _header(request, b"content-length") or "0"
        if len(told) > _DIGITS or int(told) > most:
            raise _too_large(most)
        chunks, size = [], 0
        try:
            with self.coordinator.turns.arriving() as note:
                async with asyncio.timeout(self.coordinator.settings.body_seconds):
                    async for chunk in request.stream():
                        size += len(chunk)
                        if size > most:
                            raise _too_large(most)
                        if chunk:  # the last one is empty where the body came in one piece
                            note(len(chunk))
                            chunks.append(chunk)
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError as error:
            message = "the body did not arrive in time"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "body", message) from error
        except ClientDisconnect as error:  # the answer cannot be read any more
            raise Refusal(HTTPStatus.BAD_REQUEST, "body", "it ended early") from error
        finally:
            chunks.clear()  # an error keeps this frame for a while, and would keep the bytes too


async def _alive(_: Request) -> Response:
    return JSONResponse({"alive": True})


async def _drain(request: Request) -> None:
    """Read on a little: closing on unread bytes would cut off the answer."""
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > _DRAINED:
                    return
    except (TimeoutError, ClientDisconnect, RuntimeError):  # or it was read to its end before
        return


def _header(request: Request, name: bytes) -> str:
    """Return a header by its name in lower case; nothing if it is not there.

    Without ``request.headers``, which encodes the name again each time: every sync asks for three.
    """
    for each, value in request.scope["headers"]:
        if each == name:
            return str(value, "latin-1")
    return ""


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _check_names(model: str, agent: str) -> None:
    for field, name in (("model", model), ("agent", agent)):
        if not is_name(name):
            message = f"got {name[:80]!r}; expected {NAME_RULE}"
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, field, message)
    if is_log_name(agent):
        message = f"got {agent!r}; expected a name that no log has"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "agent", message)


def _check_media_type(request: Request) -> None:
    told = _header(request, b"content-type")
    if told == wire.MEDIA_TYPE:
        return
    given = told.partition(";")[0].strip().lower()
    if given != wire.MEDIA_TYPE:
        message = f"got {given[:80]!r}; expected {wire.MEDIA_TYPE}"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-type", message)


def _have(request: Request) -> str | None:
    given = request.query_params.get("have")
    if given is not None and not re.fullmatch("[0-9a-f]{64}", given):
        message = f"got {given[:80]!r}; expected 64 of 0-9 a-f"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "have", message)
    return given


def _since(request: Request) -> int | None:
    given = request.query_params.get("since")
    if given is None:
        return None
    if not re.fullmatch("[0-9]{1,19}", given):
        message = f"got {given[:80]!r}; expected a version, a whole number"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "since", message)
    return int(given)


def _format(request: Request) -> int:
    """Return the format of the wire that an agent asks for; those of version 1 do not ask."""
    given = request.query_params.get("format", "1")
    if given not in map(str, wire.FORMATS):
        message = f"got {given[:80]!r}; formats {' and '.join(map(str, wire.FORMATS))} are spoken"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "format", message)
    return int(given)


def _too_large(most: int) -> Refusal:
    message = f"a sync of this model has at most {most} bytes"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body", message)
