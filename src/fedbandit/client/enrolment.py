"""A device gets its token by a code, once, and another one before it expires, by the token itself.

The token is drawn on the device and kept in a file before its digest is sent: it never travels but
to open something, and an answer that is lost costs nothing, since the next attempt goes on with the
same token.
"""

import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fedbandit import wire
from fedbandit.client.transport import HttpTransport
from fedbandit.core.checks import real
from fedbandit.errors import DataError, OutputError, Refused, complaint
from fedbandit.terms import check_agent_name, check_name

_PATH = "token"


def enrol(
    url: str,
    *,
    model: str,
    agent: str,
    code: str,
    token_file: str | os.PathLike[str],
    timeout: float = 10.0,
    cafile: str | None = None,
    insecure: bool = False,
) -> None:
    """Exchange an enrolment code for a token, which is then in ``token_file``.

    Give that file to ``connect`` as its token. Calling it again after any failure is safe: the same
    token is registered. Raises Refused if the code is wrong, over or used up, Unreachable if the
    coordinator is away. The other parameters are those of ``connect``.
    """
    device = _Device(url, model, agent, real("timeout", timeout), cafile, insecure)
    _exchange(device, Path(token_file), Path(token_file), code)


def renew(
    url: str,
    *,
    model: str,
    agent: str,
    token_file: str | os.PathLike[str],
    timeout: float = 10.0,
    cafile: str | None = None,
    insecure: bool = False,
) -> None:
    """Have another token in place of the one in ``token_file``, which stays good for a day.

    Agents that were given the file go over to it with their next request.
    """
    device = _Device(url, model, agent, real("timeout", timeout), cafile, insecure)
    path = Path(token_file)
    old = read_token(path)
    _exchange(device, path.with_name(f"{path.name}.new"), path, old)


class _Device:
    """Sends requests of one agent, with one token or another."""

    def __init__(
        self,
        url: str,
        model: str,
        agent: str,
        timeout: float,
        cafile: str | None,
        insecure: bool,
    ) -> None:
        self._url, self._model, self._agent = (
            url,
            check_name("model", model),
            check_agent_name(agent),
        )
        self._timeout, self._cafile, self._insecure = timeout, cafile, insecure

    def ask(self, token: str, path: str, body: bytes | None = None) -> None:
        transport = HttpTransport(
            self._url,
            model=self._model,
            agent=self._agent,
            token=token,
            timeout=self._timeout,
            cafile=self._cafile,
            insecure=self._insecure,
        )
        try:
            transport.exchange(path, body)
        finally:
            transport.close()


def _exchange(device: _Device, draft: Path, path: Path, given: str) -> None:
    """Register the token in ``draft``, drawn if the file is not there; then move it to ``path``."""
    new = _drawn(draft)
    try:
        device.ask(given, _PATH, sha256(new.encode()).hexdigest().encode())
    except Refused as error:
        try:
            device.ask(new, wire.state_path())  # an earlier attempt may have registered it
        except Refused:
            raise error from None
    if draft != path:
        os.replace(draft, path)


def _drawn(path: Path) -> str:
    """Return the token in a file, which is made, its owner's alone, if it is not there."""
    with suppress(FileNotFoundError):
        return _read(path)
    secret = secrets.token_urlsafe(32)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600)
        with open(handle, "w", encoding="ascii") as file:
            file.write(secret)
            file.flush()
            os.fsync(handle)
    except OSError as error:
        fix = "Choose another file, or repair the disk."
        raise OutputError(f"Cannot write {path}: {error.strerror or error}. {fix}") from error
    return secret


def read_token(path: Path) -> str:
    """Return the token in a file; raise DataError if there is none."""
    try:
        return _read(path)
    except OSError as error:
        raise _no_token(path, str(error.strerror or error)) from error


def _read(path: Path) -> str:
    try:
        found = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise _no_token(path, "other characters than a token has") from error
    if not found:
        raise _no_token(path, "an empty file")
    return found


def _no_token(path: Path, got: str) -> DataError:
    expected, fix = "a file with a token in it", f"Look at {path}."
    return DataError(complaint("token file", got=got, expected=expected, fix=fix))
