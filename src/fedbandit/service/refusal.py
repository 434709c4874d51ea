"""Refusals: a status, and a body that names the field at fault."""

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.deduplication import ForgottenLife
from fedbandit.service.bookkeeping.quotas import Exceeded
from fedbandit.service.settings import RETRY_AFTER
from fedbandit.web.errors import error_response
from fedbandit.wire import FORMAT

QUOTA: Final = "quota"
"""The field of a refusal because of a quota."""
_CLOSING = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)


class Refusal(Exception):
    """A request that is answered with a 4xx, or with 429 or 503 and when to try again."""

    def __init__(
        self,
        status: HTTPStatus,
        field: str,
        message: str,
        *,
        closes: bool = False,
        retry_after: int = RETRY_AFTER,
    ) -> None:
        super().__init__(message)
        self.status, self.field, self._closes = status, field, closes
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it, for the merge worker: an exception's own way drops status and field."""
        return Refusal, (self.status, self.field, str(self)), self.__dict__

    def again(self) -> "Refusal":
        """Return the same refusal, to be raised another time."""
        return Refusal(
            self.status,
            self.field,
            str(self),
            closes=self._closes,
            retry_after=self.retry_after,
        )

    def response(self) -> Response:
        """Return the answer. It closes a connection that has no token, or may not be read on."""
        headers = {"Cache-Control": "no-store"}
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            headers["Retry-After"] = str(self.retry_after)
        if self._closes or self.status in _CLOSING:
            headers["Connection"] = "close"
        return error_response(self.status, self.field, str(self), headers)


def unauthorised(*, admin: bool = False) -> Refusal:
    """Return the one answer to every token that is not good for this request."""
    which = "of an admin" if admin else "that opens this agent of this model"
    message = f"a token {which} is needed"
    return Refusal(HTTPStatus.UNAUTHORIZED, "authorization", message)


def not_now(field: str, message: str) -> Refusal:
    """Return the answer that asks to come back later."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, field, message)


def too_many(field: str, message: str, *, closes: bool = False) -> Refusal:
    """Return the answer to an agent with too many requests, or an address with wrong tokens."""
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, field, message, closes=closes)


def too_often() -> Refusal:
    """Return the answer to an agent that keeps asking for what changes nothing."""
    message = "this agent asks too often for what changes nothing: uploads that are refused, "
    return too_many("agent", f"{message}copies, states")


def over_quota(exceeded: Exceeded) -> Refusal:
    """Return the answer to an upload that has to wait: nothing is wrong with it."""
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS, QUOTA, exceeded.reason, retry_after=exceeded.seconds
    )


def quarantined() -> Refusal:
    """Return the answer to an agent of which nothing is merged until an operator releases it."""
    message = "this agent is quarantined; its operator can release it"
    return Refusal(HTTPStatus.FORBIDDEN, "agent", message)


def other_format(form: int) -> Refusal:
    """Return the answer to an agent whose format of the wire cannot say the model's recipe."""
    message = f"this model cannot be told in format {form}: upgrade fedbandit on the device"
    message += f", or speak format {FORMAT}"
    return Refusal(HTTPStatus.CONFLICT, "format", message)


def failed() -> Refusal:
    """Return the answer to a defect in this program; only the log says what happened."""
    message = "it failed, and its log says how"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "coordinator", message)


def refused(error: InvalidMessage) -> Refusal:
    """Return the answer to an invalid message, or to one of a life that was forgotten."""
    gone = isinstance(error, ForgottenLife)
    status = HTTPStatus.GONE if gone else HTTPStatus.UNPROCESSABLE_ENTITY
    return Refusal(status, error.field or "body", str(error))
