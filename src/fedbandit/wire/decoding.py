"""Decode bytes into structs; errors name the field at fault."""

import re
from collections.abc import Iterable
from types import NoneType
from typing import Any, Final, NoReturn, get_args, get_type_hints

import msgspec

from fedbandit.errors import InvalidMessage

FORMAT: Final = 2
"""The version of the format that is written; 1 is still read, and written for agents of 1."""

FORMATS: Final = (1, 2)
"""The versions that are read."""

WIDTH: Final = 8
"""Bytes of a number in float64, as envelopes state it."""

_LONGEST = 200  # characters of msgspec's message that an error repeats


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """How every message begins, in every format."""

    tag: str
    format: int


def check_head(place: str, form: int, more: object, width: int = WIDTH) -> None:
    """Raise InvalidMessage unless format, map at the end (``more``) and width fit together."""
    if form not in FORMATS:
        refuse(f"{place}format", f"this is format {form}; formats {_LISTED} can be read")
    if (more is None) != (form == 1):
        rule = "format 1 has no map at its end" if form == 1 else f"format {form} ends in a map"
        refuse(f"{place}more", rule)
    if width != WIDTH:
        refuse(f"{place}width", f"numbers must have {WIDTH} bytes; got {width}")


_LISTED = " and ".join(map(str, FORMATS))


def read(data: bytes, kind: str, form: Any) -> Any:
    """Return the bytes as structs of type ``form``; raise InvalidMessage if they are not.

    If the format is unknown the error says that, rather than what does not fit because of it.
    """
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.ValidationError as error:
        _check_format(data)
        words, place = _parted(str(error))
        field, counts_tag = _field(form, place)
        refuse(field or kind, _plain(_counted(words) if counts_tag else words))
    except msgspec.DecodeError as error:
        _check_format(data)
        refuse(kind, f"these {len(data)} bytes are not one whole message: {_plain(str(error))}")
    except UnicodeDecodeError:
        refuse(kind, "a text in it is not UTF-8")
    except RecursionError:
        refuse(kind, "its arrays or maps are nested too deeply")


def _check_format(data: bytes) -> None:
    try:
        form = msgspec.msgpack.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if form not in FORMATS:
        check_head("", form, None)


def _parted(said: str) -> tuple[str, list[str]]:
    """Return msgspec's sentence and the steps of the path at its end, if there is one.

    The sentence may quote the sender, at any length: only its end can be a path.
    """
    end = re.search(r" - at `(?:key` in `)?\$([^`]*)`$", said[-_LONGEST:])
    if end is None:
        return said, []
    return said[: len(said) - len(end[0])], re.findall(r"\w+", end[1])


def _plain(words: str) -> str:
    """Return msgspec's message in one line, cut if it is long."""
    line = " ".join(words[: 2 * _LONGEST].replace("`", "").split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _counted(words: str) -> str:
    """Return a sentence about an array that is too long with its tag counted, as docs/wire.md does.

    msgspec counts the tag in "at least", and leaves it out in "at most".
    """
    told = re.fullmatch(r"Expected `array` of at most length (\d+), got (\d+)", words)
    if told is None:
        return words
    return f"Expected `array` of at most length {int(told[1]) + 1}, got {int(told[2]) + 1}"


def _field(form: Any, path: Iterable[str]) -> tuple[str, bool]:
    """Return the dotted name of the field at a path of msgspec, and whether its array has a tag.

    The name is "" for the whole message. The path has positions for fields of arrays (a tag is
    position 0) and names for fields of maps. The name ends where the type of a field is one of
    several; what is inside of these has no tag.
    """
    names: list[str] = []
    for step in path:
        among = _among(form)
        if len(among) != 1 or not isinstance(struct := among[0], type(msgspec.Struct)):
            return ".".join(names), False
        tagged, fields = _is_tagged(struct), struct.__struct_fields__
        if step.isdecimal():
            place = int(step) - tagged
        else:
            place = fields.index(step) if step in fields else -1
        if not 0 <= place < len(fields):
            return ".".join(names), False
        names.append(fields[place])
        form = get_type_hints(struct)[names[-1]]
    return ".".join(names), all(map(_is_tagged, _among(form)))


def _among(form: Any) -> list[Any]:
    """Return the types that a type stands for, None left out."""
    return [each for each in get_args(form) or (form,) if each is not NoneType]


def _is_tagged(form: Any) -> bool:
    return isinstance(form, type(msgspec.Struct)) and form.__struct_config__.tag is not None


def refuse(field: str, message: str) -> NoReturn:
    """Raise InvalidMessage about a field."""
    fix = "See docs/wire.md, or send what fedbandit.wire encodes."
    raise InvalidMessage(f"{field}: {message}. {fix}", field=field)
