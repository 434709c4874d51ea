"""Bytes into structs, and errors that name the place where that failed."""

import re
from typing import Any, Final, NoReturn, get_args

import msgspec

from fedbandit.errors import InvalidMessage, complaint

FORMAT: Final = 1
WIDTH: Final = 8


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """How every message begins, whatever the format."""

    tag: str
    format: int


def check_head(place: str, form: int, width: int = WIDTH) -> None:
    """Raise InvalidMessage unless format and width are the ones written here."""
    if form != FORMAT:
        refuse(f"{place}format", f"format {form}")
    if width != WIDTH:
        refuse(f"{place}width", f"numbers of {width} bytes", expected=f"numbers of {WIDTH} bytes")


def read(data: bytes, kind: str, form: Any) -> Any:
    """Return the bytes as wire structs. Another format is told before what follows from it."""
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.DecodeError as error:
        check_head("", _format(data))
        said, _, path = str(error).partition(" - at `$")
        refuse(_field(kind, form, path), said[:1].lower() + said[1:])
    except (UnicodeDecodeError, RecursionError) as error:
        refuse(kind, str(error))


def _format(data: bytes) -> int:
    try:
        return msgspec.msgpack.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FORMAT


def _field(kind: str, form: Any, path: str) -> str:
    """Return the dotted name of the place that msgspec writes as $[6][4][0]."""
    names: list[str] = []
    struct = _struct(form)
    for index in map(int, re.findall(r"\[(\d+)\]", path)):
        if struct is None:
            break
        place = index - (struct.__struct_config__.tag is not None)
        fields = msgspec.structs.fields(struct)
        if not 0 <= place < len(fields):
            break
        names.append(fields[place].name)
        struct = _struct(fields[place].type)
    return ".".join(names) or kind


def _struct(form: Any) -> type[msgspec.Struct] | None:
    """Return the struct that a type is, or that it is besides None."""
    kinds = [kind for kind in get_args(form) or (form,) if kind is not type(None)]
    only = kinds[0] if len(kinds) == 1 else None
    return only if isinstance(only, type) and issubclass(only, msgspec.Struct) else None


def refuse(field: str, got: str, *, expected: str = f"a message in format {FORMAT}") -> NoReturn:
    """Raise InvalidMessage for a field."""
    fix = "Send what fedbandit.wire encodes, with the same version of fedbandit."
    raise InvalidMessage(complaint(field, got=got, expected=expected, fix=fix), field=field)
