"""Bytes into structs, and errors that name the place where that failed."""

import re
from collections.abc import Iterable
from types import NoneType
from typing import Any, Final, NoReturn, get_args, get_type_hints

import msgspec

from fedbandit.errors import InvalidMessage

FORMAT: Final = 2
"""The version of the format that is written; 1 is still read, and written to agents that ask."""

FORMATS: Final = (1, 2)
WIDTH: Final = 8

_LONGEST = 200  # letters of msgspec's words that are told


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """How every message begins, whatever the format."""

    tag: str
    format: int


def check_head(place: str, form: int, more: object, width: int = WIDTH) -> None:
    """Raise InvalidMessage unless the format is known and the message has what belongs to it."""
    if form not in FORMATS:
        refuse(f"{place}format", f"this is format {form}; formats {_LISTED} can be read")
    if (more is None) != (form == 1):
        told = "format 1 has no map at its end" if form == 1 else f"format {form} ends in a map"
        refuse(f"{place}more", told)
    if width != WIDTH:
        refuse(f"{place}width", f"numbers of {width} bytes; they must have {WIDTH}")


_LISTED = " and ".join(map(str, FORMATS))


def read(data: bytes, kind: str, form: Any) -> Any:
    """Return the bytes as wire structs. Another format is told before what follows from it."""
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.ValidationError as error:
        _check_format(data)
        words, _, path = str(error).partition(" - at `$")
        refuse(_field(form, re.findall(r"\w+", path)) or kind, _plain(words))
    except msgspec.DecodeError as error:
        _check_format(data)
        refuse(kind, f"these {len(data)} bytes are not one whole message: {_plain(str(error))}")
    except UnicodeDecodeError:
        refuse(kind, "a text in it is not UTF-8")
    except RecursionError:
        refuse(kind, "its arrays or maps are nested too deep")


def _check_format(data: bytes) -> None:
    try:
        form = msgspec.msgpack.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if form not in FORMATS:
        check_head("", form, None)


def _plain(words: str) -> str:
    """Return what msgspec says, in one line that is not too long."""
    line = " ".join(words.replace("`", "").split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _field(form: Any, path: Iterable[str]) -> str:
    """Return the dotted name of a place, as far as every message has it; "" is the top.

    A path of msgspec's has numbers for the fields of arrays, where a tag counts, and names for
    those of maps.
    """
    names: list[str] = []
    for step in path:
        among = [each for each in get_args(form) or (form,) if each is not NoneType]
        if len(among) != 1 or not isinstance(struct := among[0], type(msgspec.Struct)):
            break
        tagged, fields = struct.__struct_config__.tag is not None, struct.__struct_fields__
        place = int(step) - tagged if step.isdecimal() else fields.index(step)
        if not 0 <= place < len(fields):
            break
        names.append(fields[place])
        form = get_type_hints(struct)[names[-1]]
    return ".".join(names)


def refuse(field: str, message: str) -> NoReturn:
    """Raise InvalidMessage for a field."""
    fix = "See docs/wire.md, or send what fedbandit.wire encodes."
    raise InvalidMessage(f"{field}: {message}. {fix}", field=field)
