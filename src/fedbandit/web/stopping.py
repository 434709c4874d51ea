"""An answer for those whose request takes longer than a stop may."""

import asyncio
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedbandit.web.errors import error_response


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
            message = "it is stopping, and this request was not finished in time"
            headers = {"Retry-After": "1", "Connection": "close", "Cache-Control": "no-store"}
            not_now = HTTPStatus.SERVICE_UNAVAILABLE
            await error_response(not_now, "server", message, headers)(scope, receive, send)
