"""What ``fedbandit doctor`` looks at: each function returns what it found and what to do."""

import os
import platform
import re
import ssl
import stat
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from fedbandit.cli.options import store_url
from fedbandit.errors import DataError, FedbanditError, InvalidParameter

EXTRAS = {
    "lab": ("jinja2", "joblib", "matplotlib", "pyarrow", "rich", "scipy", "threadpoolctl"),
    "service": ("starlette", "uvicorn", "psycopg", "threadpoolctl"),
    "fast": ("numba", "scipy"),
}
_SOON = 30  # days before a certificate ends in which that is said
_TIMEOUT = 5.0


@dataclass(frozen=True)
class Check:
    """What was found. ``state``: ok, a note (works, could be better) or a problem; then ``fix``."""

    about: str
    state: Literal["ok", "note", "problem"]
    found: str
    fix: str = ""


def checks(arguments: Namespace) -> Iterator[Check]:
    """Look at everything, one after another."""
    yield from installation()
    yield compiler_check()
    yield blas_check()
    yield store_check(arguments)
    yield coordinator_check(arguments)
    yield certificate_check(arguments)
    yield token_check(arguments)


def installation() -> Iterator[Check]:
    """Look at Python, and at which extras are there."""
    import fedbandit

    numbers = [f"{name} {version(name)}" for name in ("numpy", "msgspec")]
    here = f"fedbandit {fedbandit.__version__} at {Path(fedbandit.__file__).parent}"
    python = f"Python {platform.python_version()}, {', '.join(numbers)}"
    yield Check("installation", "ok", f"{here}; {python}")
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if not find_spec(name)]
        if missing:
            fix = f"pip install 'fedbandit[{extra}]'"
            yield Check(f"extra {extra}", "note", f"without {', '.join(missing)}", fix)
        else:
            yield Check(f"extra {extra}", "ok", "installed")


def compiler_check() -> Check:
    """Look whether functions are compiled, and whether the result can be kept."""
    from fedbandit.core.kernels import compiler

    if os.environ.get("FEDBANDIT_COMPILE") == "0":
        found = "turned off by FEDBANDIT_COMPILE=0: decisions take longer"
        return Check("compiler", "note", found, "unset FEDBANDIT_COMPILE")
    if not compiler.COMPILES:
        fix = "pip install 'fedbandit[fast]'"
        return Check("compiler", "note", "none: decisions take longer", fix)
    beside = Path(compiler.__file__).parent / "__pycache__"
    kept = os.environ.get("NUMBA_CACHE_DIR") or str(beside)
    if os.access(kept if Path(kept).exists() else Path(kept).parent, os.W_OK):
        return Check(
            "compiler", "ok", f"numba {compiler.version()}; compiled code is kept in {kept}"
        )
    home = os.environ.get("HOME", "")
    if home and os.access(home, os.W_OK):
        found = f"numba {compiler.version()}; {kept} cannot be written, the user's cache is used"
        return Check("compiler", "ok", found)
    found = f"numba {compiler.version()}, but {kept} cannot be written: every start compiles anew"
    return Check(
        "compiler", "note", found, "set NUMBA_CACHE_DIR to a directory that can be written"
    )


def blas_check() -> Check:
    """Look how many threads a product of matrices takes."""
    try:
        from threadpoolctl import threadpool_info
    except ModuleNotFoundError:
        fix = "pip install 'fedbandit[service]'"
        return Check("BLAS threads", "note", "not known without threadpoolctl", fix)
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    pools = [each for each in threadpool_info() if each.get("user_api") == "blas"]
    most = max((int(each["num_threads"]) for each in pools), default=1)
    names = ", ".join(sorted({str(each["internal_api"]) for each in pools})) or "none found"
    if most == 1:
        return Check("BLAS threads", "ok", f"1 ({names})")
    fix = "set OPENBLAS_NUM_THREADS=1 (or OMP_NUM_THREADS=1) where agents share a machine; "
    fix += "fedbandit serve and experiments use one thread by themselves"
    return Check("BLAS threads", "note", f"{most} ({names}), for matrices that are small", fix)


def store_check(arguments: Namespace) -> Check:
    """Look whether the store can be opened and read, and what is in it."""
    try:
        from fedbandit.service.storage.opening import open_store
    except ModuleNotFoundError as error:
        fix = "pip install 'fedbandit[service]'"
        return Check("store", "note", f"not looked at, {error.name} is missing", fix)
    url = store_url(arguments)
    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not file.exists():
        asked = arguments.store is not None
        fix = "fedbandit model create NAME --dimension D makes one"
        return Check("store", "problem" if asked else "note", f"none at {url}", fix)
    try:
        with closing(open_store(url)) as store:
            models, tokens = store.models(), store.tokens()
    except FedbanditError as error:
        return _refused("store", error)
    if url.startswith("sqlite:///") and not os.access(file, os.W_OK):
        fix = "run it as the owner of the file"
        return Check("store", "problem", f"{file} can be read, not written", fix)
    shown = url if url.startswith("sqlite:///") else f"{url.partition('://')[0]}://..."
    found = f"{shown}: {len(models)} models, {len(tokens)} tokens"
    if not models:
        return Check("store", "note", found, "fedbandit model create NAME --dimension D")
    return Check("store", "ok", found)


def coordinator_check(arguments: Namespace) -> Check:
    """Ask the coordinator whether it is ready."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    url, asked = arguments.coordinator or arguments.default, arguments.coordinator is not None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError
    except ValueError:
        fix = "give http://HOST:PORT or https://HOST:PORT"
        return Check("coordinator", "problem", f"{url!r} is no address", fix)
    if parts.scheme == "https":
        secure = _trusting(arguments)
        connection: HTTPConnection = HTTPSConnection(host, port, timeout=_TIMEOUT, context=secure)
    else:
        connection = HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/readyz")
        answer = connection.getresponse()
        answer.read()
    except ssl.SSLCertVerificationError:
        fix = "see the certificate below"
        return Check("coordinator", "problem", f"{url} answers, and is not trusted", fix)
    except (OSError, HTTPException, ValueError) as error:
        fix = "fedbandit serve starts one" if not asked else "check that it runs at this address"
        found = f"no answer at {url}: {error or type(error).__name__}"
        return Check("coordinator", "problem" if asked else "note", found, fix)
    finally:
        connection.close()
    if answer.status == 200:
        return Check("coordinator", "ok", f"{url} is ready")
    if answer.status in (401, 404):
        found = f"{url} answers; whether it is ready is told elsewhere ({answer.status})"
        return Check("coordinator", "ok", found)
    fix = "see its log; a store that is locked, full or away is the usual cause"
    return Check("coordinator", "problem", f"{url} is not ready ({answer.status})", fix)


def _trusting(arguments: Namespace) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=arguments.cafile)
    except (OSError, ValueError) as error:
        message = f"--cafile: got {arguments.cafile!r}, {error}; expected a file of certificates."
        raise InvalidParameter(f"{message} Give its path.") from error


def certificate_check(arguments: Namespace) -> Check:
    """Look at the coordinator's certificate: trusted, and for how long."""
    import socket

    url = arguments.coordinator or arguments.default
    none = Check("certificate", "ok", "none needed: the coordinator is not asked over https")
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError:
        return none
    if parts.scheme != "https" or not parts.hostname:
        return none
    context = _trusting(arguments)
    try:
        with (
            socket.create_connection((parts.hostname, port), _TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            seen = secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        fix = "--cafile with the authority's certificate (or the coordinator's own if it is "
        fix += "self-signed), and an address that the certificate names"
        return Check("certificate", "problem", error.verify_message, fix)
    except OSError as error:
        return Check("certificate", "problem", f"not seen: {error}", "check the address")
    ends = str(seen.get("notAfter", ""))
    days = (ssl.cert_time_to_seconds(ends) - time.time()) / 86_400.0
    if days < _SOON:
        fix = "renew it; fedbandit serve reads it again on SIGHUP"
        return Check("certificate", "note", f"trusted, ends in {days:.0f} days", fix)
    return Check("certificate", "ok", f"trusted, ends in {days:.0f} days")


def token_check(arguments: Namespace) -> Check:
    """Look at the agent's token: readable, for its owner alone, and good for the coordinator."""
    from fedbandit import wire
    from fedbandit.client.enrolment import read_token
    from fedbandit.client.transport import HttpTransport

    file: Path | None = arguments.token_file
    secret = os.environ.get("FEDBANDIT_TOKEN")
    if file is None and not secret:
        fix = "--token-file FILE --model NAME --agent NAME looks at one"
        return Check("token", "ok", "none given", fix)
    try:
        token = read_token(file) if file is not None else str(secret)
    except DataError as error:
        return _refused("token", error)
    if file is not None and sys.platform != "win32":
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            found = f"{file} can be read by other users (mode {mode:o})"
            return Check("token", "problem", found, f"chmod 600 {file}")
    if arguments.model is None or arguments.agent is None:
        fix = "--model NAME --agent NAME tries it"
        return Check("token", "note", "there, not tried", fix)
    try:
        transport = HttpTransport(
            arguments.coordinator or arguments.default,
            model=arguments.model,
            agent=arguments.agent,
            token=token,
            timeout=_TIMEOUT,
            cafile=arguments.cafile,
            insecure=arguments.insecure_coordinator,
        )
        with closing(transport):
            size = len(transport.exchange(wire.state_path()))
    except FedbanditError as error:
        return _refused("token", error)
    opens = f"opens {arguments.model}/{arguments.agent}, whose state takes {size:,} bytes"
    return Check("token", "ok", opens)


def _refused(about: str, error: FedbanditError) -> Check:
    """Return an error as a problem: its first sentence is what is wrong, the rest what to do."""
    found, _, fix = re.sub(r"(?<!\.)\. (?=[A-Z])", "\n", str(error), count=1).partition("\n")
    return Check(about, "problem", found, fix)
