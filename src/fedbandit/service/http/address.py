"""Where a coordinator listens, and what it insists on before it does."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedbandit.errors import InvalidParameter, complaint

OTHERWISE: Final = (
    "listen on 127.0.0.1, or, if a proxy or a private network protects it, say --insecure."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen. Port 0 is any that is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_address(text: str) -> Address:
    """Read HOST:PORT; an IPv6 host stands in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        expected, fix = "HOST:PORT, with a port from 0 to 65535", "Write --listen 127.0.0.1:PORT."
        raise InvalidParameter(complaint("listen", got=repr(text), expected=expected, fix=fix))
    return Address(host=host, port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of a certificate (chain) and its key, in PEM.

    ``clients``: authorities whose certificates clients may show in place of a token.
    """

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context to serve with."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.options |= ssl.OP_NO_RENEGOTIATION  # a handshake costs us more than a client
        try:
            made.load_cert_chain(self.certificate, self.key, password=_no_password)
            if self.clients is not None:
                made.load_verify_locations(self.clients)
                made.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            got, expected = f"{error}", "the PEM files of a certificate and its key"
            fix = "Look at --tls-cert, --tls-key and --tls-client-ca."
            raise InvalidParameter(complaint("TLS", got=got, expected=expected, fix=fix)) from error
        return made


def _no_password() -> str:
    """Refuse a key that is encrypted, which OpenSSL would otherwise ask about at the terminal."""
    fix = "Decrypt it into a file that only this user can read: openssl pkey -in KEY -out PLAIN."
    expected = "one that is not encrypted: a coordinator cannot ask for a password"
    raise InvalidParameter(
        complaint("--tls-key", got="an encrypted key", expected=expected, fix=fix)
    )


def check_exposure(address: Address, *, tls: bool, tokens: bool, insecure: bool) -> None:
    """Raise InvalidParameter if the network could read or join in, unless ``insecure``."""
    if address.is_loopback or insecure or (tls and tokens):
        return
    lack = " and ".join(["TLS"] * (not tls) + ["tokens"] * (not tokens))
    give = ["give --tls-cert and --tls-key"] * (not tls) + ["leave out --open"] * (not tokens)
    fix = f"{' and '.join(give).capitalize()}, {OTHERWISE}"
    got = f"{address.host} without {lack}"
    expected = "TLS and tokens outside loopback"
    raise InvalidParameter(complaint("listen", got=got, expected=expected, fix=fix))
