"""Tokens: 256 random bits for one agent of one model, of which only the SHA-256 is stored.

A token is found by its digest, never by the names in a request, so that an answer takes as long
whether or not the model or agent exists. Random tokens need no slow hash: they cannot be guessed.

A client certificate takes the place of a token: what is stored is a digest of it. An enrolment code
is a token that opens nothing but can be exchanged for one, once.
"""

import hmac
import re
import secrets
import time
from hashlib import sha256

from fedbandit.service.bookkeeping.token import Token

_OF_CERTIFICATE = b"fedbandit certificate\n"  # no token has a line end, so none has this digest


def new_token(
    *,
    model: str | None,
    agent: str | None,
    name: str | None = None,
    lifetime: float | None = None,
    code_for: float | None = None,
) -> tuple[str, Token]:
    """Draw a token; return the secret, which is shown once, and what is stored.

    ``lifetime``: seconds until it expires; None: never. ``code_for``: make a code that is good for
    so many seconds, and can be exchanged for a token with that lifetime.
    """
    secret = secrets.token_urlsafe(32)
    token = token_of(digest_of(secret), model=model, agent=agent, name=name, lifetime=lifetime)
    if code_for is None:
        return secret, token
    return secret, Token(
        digest=token.digest,
        name=name or f"code-{token.name}",
        model=model,
        agent=agent,
        created=token.created,
        expires=token.created + code_for,
        lifetime=lifetime,
        code=True,
    )


def token_of(
    digest: bytes,
    *,
    model: str | None,
    agent: str | None,
    name: str | None = None,
    lifetime: float | None = None,
) -> Token:
    """Return what is stored of a secret, or a certificate, with this digest."""
    now = time.time()
    return Token(
        digest=digest,
        name=name or f"{agent or 'admin'}-{digest.hex()[:8]}",
        model=model,
        agent=agent,
        created=now,
        expires=None if lifetime is None else now + lifetime,
        lifetime=lifetime,
    )


def digest_of(secret: str) -> bytes:
    """Return what is stored of a token."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def certificate_digest(der: bytes) -> bytes:
    """Return what is stored of a client certificate."""
    return sha256(_OF_CERTIFICATE + der).digest()


def opens(token: Token | None, digest: bytes, *, model: str | None, agent: str | None) -> bool:
    """Say whether a token opens this agent of this model, or, without them, what admins may see.

    Takes the same time whatever differs.
    """
    found = token or _NO_TOKEN
    same = hmac.compare_digest(found.digest, digest)
    same &= hmac.compare_digest(_joined(found.model, found.agent), _joined(model, agent))
    same &= not found.code and not found.is_over(time.time())
    return same and token is not None


def bearer(header: str) -> str:
    """Return the token in an Authorization header, or nothing."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def bearer_in(head: bytes) -> str | None:
    """Return the token in the bytes of a request's head; None if there is none."""
    found = _BEARER.search(head)
    return None if found is None else str(found[1], "latin-1")


def _joined(model: str | None, agent: str | None) -> bytes:
    """Return model and agent as bytes of one length, None apart from every name."""
    words = "" if model is None or agent is None else f"{model}/{agent}"
    return sha256(words.encode("utf-8", "surrogateescape")).digest()


_BEARER = re.compile(rb"\nauthorization: *bearer +([!-~]+) *\r?\n", re.IGNORECASE)
_NO_TOKEN = Token(digest=bytes(32), name="", model="", agent="", created=0.0)
