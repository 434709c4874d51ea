"""Bytes into structs, and errors that name the place where that failed."""

from typing import Any, Final, NoReturn

import msgspec

from fedbandit.errors import InvalidMessage, complaint
from fedbandit.wire.misfit import misfit

FORMAT: Final = 1
WIDTH: Final = 8

_WHOLE = f"one whole message in format {FORMAT} and nothing after it"


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """How every message begins, whatever the format."""

    tag: str
    format: int


def check_head(place: str, form: int, width: int = WIDTH) -> None:
    """Raise InvalidMessage unless format and width are the ones written here."""
    if form != FORMAT:
        refuse(f"{place}format", f"format {form}", expected=f"format {FORMAT}")
    if width != WIDTH:
        refuse(f"{place}width", f"numbers of {width} bytes", expected=f"numbers of {WIDTH} bytes")


def read(data: bytes, kind: str, form: Any) -> Any:
    """Return the bytes as wire structs. Another format is told before what follows from it."""
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.ValidationError as error:
        check_head("", _format(data))
        found = misfit(data, form, str(error).partition(" - at `$")[2])
        refuse(found.field or kind, found.got, expected=found.expected)
    except msgspec.DecodeError as error:
        check_head("", _format(data))
        refuse(kind, f"{len(data)} bytes that are not one ({error})", expected=_WHOLE)
    except UnicodeDecodeError:
        refuse(kind, "a text that is not UTF-8", expected=_WHOLE)
    except RecursionError:
        refuse(kind, "arrays or maps nested too deep", expected=_WHOLE)


def _format(data: bytes) -> int:
    try:
        return msgspec.msgpack.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FORMAT


def refuse(field: str, got: str, *, expected: str) -> NoReturn:
    """Raise InvalidMessage for a field."""
    fix = "Send what fedbandit.wire encodes, with the same version of fedbandit."
    raise InvalidMessage(complaint(field, got=got, expected=expected, fix=fix), field=field)
