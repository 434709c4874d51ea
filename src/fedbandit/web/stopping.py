"""An answer for those whose request takes longer than a stop may."""

import asyncio
from http import HTTPStatus

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class NotNowIfCutOff:
    """Answers 503 to a request that is cut off because the server ends.

    uvicorn gives requests some seconds when it is told to stop, and cancels those that are left. It
    cancels none before.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; if it is cut off before its answer has begun, answer it."""
        answered = False

        async def noting(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if scope["type"] != "http" or answered:
                raise
            await _not_now()(scope, receive, send)


def _not_now() -> JSONResponse:
    error = {"field": "server", "message": "it is stopping, and this took too long to be finished"}
    headers = {"Retry-After": "1", "Connection": "close", "Cache-Control": "no-store"}
    return JSONResponse({"error": error}, HTTPStatus.SERVICE_UNAVAILABLE, headers)
