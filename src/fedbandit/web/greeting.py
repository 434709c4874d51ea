"""What a client says first under TLS, looked at before TLS is.

A client chooses what keys are exchanged by. On elliptic curves that costs us a millisecond; in the
finite fields that OpenSSL offers too, up to 133 ms, for a greeting that a client need not compute.
Python cannot take them off OpenSSL's list, so greetings that insist on them are refused. Every
client that speaks TLS 1.3 knows a curve: one of them is mandatory.
"""

from collections.abc import Iterator
from typing import Final

REFUSAL: Final = bytes.fromhex("15030300020228")
"""An alert of TLS: there is nothing that both sides would agree on."""
_CURVES: Final = frozenset({0x0017, 0x0018, 0x0019, 0x001D, 0x001E})
_FIELDS: Final = range(0x0100, 0x0200)
_GREETING, _HELLO = 0x16, 0x01
_MOST_LISTED = 256  # bytes; OpenSSL looks through them again for each key that is offered
_FIXED = 34  # bytes of a version and of random numbers
_GROUPS, _SHARES = (
    10,
    51,
)  # extensions: what can be used for keys, and what is offered to begin with


def is_cheap(record: bytes) -> bool:
    """Return whether a whole record is a greeting that asks for no keys in finite fields.

    A greeting in several records is not one: nothing says early what it asks for.
    """
    try:
        asked = dict(_extensions(record))
        listed = _inside(asked.get(_GROUPS, b"\0\0"), 2)
        offered = set(_shares(_inside(asked.get(_SHARES, b"\0\0"), 2)))
    except (ValueError, IndexError):
        return False
    groups = set(_numbers(listed))
    if len(listed) > _MOST_LISTED:
        return False
    insists = not groups.isdisjoint(_FIELDS) and groups.isdisjoint(_CURVES)
    return not insists and offered.isdisjoint(_FIELDS)


def _extensions(record: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each extension."""
    if record[0] != _GREETING or record[5] != _HELLO:
        raise ValueError
    hello = _taken(_taken(record, 3, 2)[0], 1, 3)[0]
    at = _FIXED
    for width in (1, 2, 1):  # an earlier session, ciphers, ways to compress
        _, at = _taken(hello, at, width)
    given = _taken(hello, at, 2)[0] if at < len(hello) else b""
    at = 0
    while at < len(given):
        kind = int.from_bytes(given[at : at + 2])
        content, at = _taken(given, at + 2, 2)
        yield kind, content


def _shares(given: bytes) -> Iterator[int]:
    at = 0
    while at < len(given):
        yield int.from_bytes(given[at : at + 2])
        _, at = _taken(given, at + 2, 2)


def _numbers(given: bytes) -> Iterator[int]:
    return (int.from_bytes(given[at : at + 2]) for at in range(0, len(given), 2))


def _inside(data: bytes, width: int) -> bytes:
    return _taken(data, 0, width)[0]


def _taken(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """Return what follows its length, of so many bytes, and where that ends."""
    begins = at + width
    ends = begins + int.from_bytes(data[at:begins])
    if begins > len(data) or ends > len(data):
        raise ValueError
    return data[begins:ends], ends
