"""What a value in MessagePack is, in a few words, read off its first bytes: nothing is built."""

import msgspec

_LONGEST = 40  # letters of a text that are shown
_BIN, _STR = 0xC4, 0xD9  # the first of three: lengths of 1, 2 and 4 bytes
_ARRAY = 0xDC  # the first of two: lengths of 2 and 4 bytes


def came(value: bytes) -> str:
    """Return words for one value, whatever its bytes; what is broken is a value all the same."""
    head = value[0] if value else 0xC1
    match head:
        case _ if 0x90 <= head <= 0x9F or head in (_ARRAY, _ARRAY + 1):
            return f"an array of {count(value)}"
        case _ if 0x80 <= head <= 0x8F or head in (0xDE, 0xDF):
            return "a map"
        case _ if _BIN <= head < _BIN + 3:
            return f"{_length(value, 1 << (head - _BIN))} bytes"
        case _ if 0xA0 <= head <= 0xBF or _STR <= head < _STR + 3:
            return _text(value)
        case _ if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8 or head == 0xC1:
            return "a value of another kind"
        case _:
            return _scalar(value)


def count(value: bytes) -> int | None:
    """Return how many elements an array has, or None if the value is no array."""
    head = value[0] if value else 0xC1
    if 0x90 <= head <= 0x9F:
        return head & 0x0F
    if head in (_ARRAY, _ARRAY + 1):
        return _length(value, 2 << (head - _ARRAY))
    return None


def text_of(value: bytes) -> str | None:
    """Return the text that a value is, or None."""
    try:
        return msgspec.msgpack.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _length(value: bytes, width: int) -> int:
    return int.from_bytes(value[1 : 1 + width], "big")


def _text(value: bytes) -> str:
    text = text_of(value)
    if text is None:
        return "a text that is not UTF-8"
    return repr(text) if len(text) <= _LONGEST else f"a text of {len(text)} letters"


def _scalar(value: bytes) -> str:
    try:
        found = msgspec.msgpack.decode(value, type=int | float | bool | None)
    except msgspec.DecodeError:
        return "a value that is cut short"
    match found:
        case None:
            return "nil"
        case bool():
            return "true" if found else "false"
        case _:
            return repr(found)
