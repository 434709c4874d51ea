"""Sessions of a browser at the board: a cookie that says whose token was shown, and until when.

A cookie is NAME.UNTIL.MAC: the name of an admin's token, seconds since 1970, and an HMAC of both
under the digest of that token, which the store keeps. So there is no table of sessions: they
outlive a restart, every coordinator of a store takes them, and they end with their token. The
cookie opens the board alone, which changes nothing, and shows nothing that is not in the store.
"""

import base64
import binascii
import hmac
import re
from typing import Final

from fedbandit.service.storage.contract import Token

SESSION_SECONDS: Final = 12 * 3600
_FORM = re.compile(r"([A-Za-z0-9_-]{1,400})\.([0-9]{1,12})\.([0-9a-f]{64})")
_WHAT = b"fedbandit board session\n"


def session_cookie(token: Token, *, now: float) -> str:
    """Return the cookie of a session that begins now."""
    until = int(now) + SESSION_SECONDS
    return f"{_packed(token.name)}.{until}.{_mac(token, until)}"


def name_in(cookie: str) -> str:
    """Return the name of the token that a cookie is of; nothing if it is no cookie of ours."""
    found = _FORM.fullmatch(cookie)
    if found is None:
        return ""
    try:
        return base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def is_session(cookie: str, token: Token, *, now: float) -> bool:
    """Say whether a cookie is of a session of this token that is not over."""
    found = _FORM.fullmatch(cookie)
    if found is None:
        return False
    until = int(found[2])
    same = hmac.compare_digest(found[3], _mac(token, until))
    return same and found[1] == _packed(token.name) and now < until <= now + SESSION_SECONDS + 60


def _packed(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _mac(token: Token, until: int) -> str:
    message = _WHAT + token.name.encode() + b"\n%d" % until
    return hmac.new(token.digest, message, "sha256").hexdigest()
