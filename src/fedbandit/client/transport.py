"""How an agent reaches its coordinator: a protocol of two methods, and HTTP."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from fedbandit.errors import InvalidParameter, Refused, RemoteError, Unreachable, complaint
from fedbandit.wire import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.client import HTTPConnection, HTTPResponse
    from ssl import SSLContext

LARGEST_ANSWER = 2**28
"""How many bytes of an answer are read at most; a download of d = 5,000 takes 200 MB."""

_LATER = {408, 425, 429}
_AGAIN = "A running agent tries again by itself."
_TRUST = (
    "Give as cafile the certificate (PEM) of the authority that signed the coordinator's, or the"
    " coordinator's own if it is self-signed, and an address that the certificate names."
)


class Transport(Protocol):
    """Sends requests to the coordinator on behalf of one agent, one at a time."""

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        """Return the body of the answer to a POST of ``body``, or to a GET if that is None.

        ``path`` is ``sync``, or what ``wire.state_path`` returns. Raises Unreachable if the same
        request may succeed later, Refused if it will not.
        """
        ...

    def close(self) -> None:
        """Close the connection. The next exchange opens another."""
        ...


class HttpTransport:
    """HTTP/1.1 over one connection that is kept open. Used by one thread at a time."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        agent: str,
        token: str | Callable[[], str] | None,
        timeout: float,
        cafile: str | None = None,
        certificate: str | None = None,
        insecure: bool = False,
    ) -> None:
        self._secure, self._host, self._port, prefix = _address(url)
        self._prefix = f"{prefix}/v1/models/{model}/agents/{agent}/"
        self._make = f"fedbandit token create {model} {agent}"
        self._headers = {"Accept": MEDIA_TYPE}
        self._token: Callable[[], str] | None = None
        if callable(token):
            self._token = token
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {_token(token)}"
        if token is not None and not (self._secure or insecure or _is_loopback(self._host)):
            raise _readable_token(url)
        self._timeout, self._cafile, self._certificate = timeout, cafile, certificate
        if certificate is not None and not self._secure:
            raise _no_tls(url)
        if self._secure and (cafile is not None or certificate is not None):
            _check_certificates(cafile, certificate)
        self._connection: HTTPConnection | None = None

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        """Send a request and return the answer's body."""
        reused = self._connection is not None
        try:
            return self._exchange(path, body)
        except Unreachable as error:
            slow = isinstance(error.__cause__, TimeoutError)
            if not reused or slow or self._connection is not None:
                raise
        return self._exchange(path, body)  # the server had closed the connection meanwhile

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, path: str, body: bytes | None) -> bytes:
        from http.client import HTTPException

        headers = self._headers if body is None else self._headers | {"Content-Type": MEDIA_TYPE}
        if self._token is not None:
            headers = headers | {"Authorization": f"Bearer {_token(self._token())}"}
        method = "GET" if body is None else "POST"
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request(method, self._prefix + path, body, headers)
            with self._connection.getresponse() as response:
                answer = response.read(LARGEST_ANSWER + 1)
        except (OSError, HTTPException, ValueError) as error:  # TLS and host names among them
            self.close()
            raise self._no_answer(error) from error
        whole = response.chunked or response.getheader("Content-Length") is not None
        if len(answer) > LARGEST_ANSWER or response.length or not whole:
            self.close()
            raise self._no_answer(f"an answer cut off after {len(answer)} bytes")
        if response.status != 200:
            raise self._trouble(response, answer)
        return answer

    def _connect(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=self._timeout)
        context = _context(self._cafile, self._certificate)
        return HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)

    def _no_answer(self, said: object) -> Unreachable:
        why = str(said) or type(said).__name__
        fix = "Check that it runs at this address."
        if self._secure and _is_distrust(said):
            fix = _TRUST
        where = f"{self._host}:{self._port}"
        return Unreachable(f"No answer from the coordinator at {where}: {why}. {fix} {_AGAIN}")

    def _trouble(self, response: HTTPResponse, answer: bytes) -> RemoteError:
        status, (field, message) = response.status, _error_in(answer)
        said = " ".join(word for word in (str(status), field, message or response.reason) if word)
        said = said.removesuffix(".")
        answered = f"The coordinator at {self._host}:{self._port} answered {said}."
        if status >= 500 or status in _LATER:
            after = _seconds(response.getheader("Retry-After"))
            return Unreachable(f"{answered} {_AGAIN}", retry_after=after)
        fix = "Correct what it names, such as the token or the name of the model."
        if status == 401:
            fix = f"Give the token of this very agent, as made by: {self._make}."
        return Refused(f"{answered} {fix} {_AGAIN}", status=status, field=field)


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its very name or number."""
    from ipaddress import ip_address

    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _readable_token(url: str) -> InvalidParameter:
    got = f"{url!r}, over which anybody on the way can read the token"
    fix = "Give an https address; or, if only a private network lies between, insecure=True "
    fix += "(a command's --insecure-coordinator)."
    expected = "https, or this machine"
    return InvalidParameter(complaint("url", got=got, expected=expected, fix=fix))


def _is_distrust(said: object) -> bool:
    """Return whether the coordinator's certificate was not accepted."""
    from ssl import SSLCertVerificationError

    return isinstance(said, SSLCertVerificationError)


def _address(url: str) -> tuple[bool, str, int, str]:
    from urllib.parse import urlsplit

    expected, fix = "http://HOST[:PORT][/PREFIX] or https://...", "Give the coordinator's address."
    problem = InvalidParameter(complaint("url", got=repr(url), expected=expected, fix=fix))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise problem from error
    wrong = parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in ("http", "https") or not parts.hostname or wrong:
        raise problem
    if not _can_be_sent(parts.hostname, parts.path):
        raise problem
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/")


def _can_be_sent(host: str, path: str) -> bool:
    """Return whether the host can be looked up and the path written into a request."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return path.isascii() and (host + path).isprintable() and " " not in host + path


def _check_certificates(cafile: str | None, certificate: str | None) -> None:
    for name, path, ours, shown in (
        ("cafile", cafile, cafile, None),
        ("certificate", certificate, None, certificate),
    ):
        try:
            _context(ours, shown)
        except (OSError, ValueError) as error:
            expected, fix = "a file of certificates (PEM)", f"Give its path, or leave {name} out."
            got = f"{path!r}, {error}"
            message = complaint(name, got=got, expected=expected, fix=fix)
            raise InvalidParameter(message) from error


def _context(cafile: str | None, certificate: str | None) -> SSLContext:
    """Return how to trust a coordinator, and what to show to it."""
    from ssl import create_default_context

    made = create_default_context(cafile=cafile)
    if certificate is not None:
        made.load_cert_chain(certificate, password="")  # or it asks at the terminal
    return made


def _no_tls(url: str) -> InvalidParameter:
    expected, fix = "https, by which it can be shown", "Give an https address, or leave it out."
    got = f"one for {url!r}"
    return InvalidParameter(complaint("certificate", got=got, expected=expected, fix=fix))


def _token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        expected, fix = "printable ASCII without spaces", "Copy what `token create` printed."
        got = "another text" if token else "nothing"
        raise InvalidParameter(complaint("token", got=got, expected=expected, fix=fix))
    return token


def _error_in(answer: bytes) -> tuple[str, str]:
    """Return the field and the message of an error in JSON, or empty strings."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        error = json.loads(answer)["error"]
        return str(error["field"]), str(error["message"])
    return "", ""


def _seconds(text: str | None) -> float:
    with suppress(ValueError, OverflowError):
        return min(max(float(int(text or "")), 0.0), 3600.0)
    return 0.0
