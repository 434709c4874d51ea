"""A 503 for requests that are still running when a server has to stop."""

import asyncio
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedbandit.web.errors import error_response


class AnswerCutOff:
    """Middleware that answers 503 to a request which uvicorn cancels.

    uvicorn cancels requests for one reason: it was told to stop, and the time for that is over.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; if it is cancelled before its answer has begun, answer 503."""
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
