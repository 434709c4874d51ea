"""Where a message does not fit its form: the place by name, what came there, what belongs there.

msgspec says where it stopped, as in ``$[7][3][4]``. The rest is read off the form and the bytes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, inspect

from fedbandit.wire.came import came, count, text_of

_Elements = Annotated[list[msgspec.Raw], Meta(max_length=64)]  # longer than any form, yet short
_TAG = "its first element"


@dataclass(frozen=True, slots=True)
class Misfit:
    """``field`` is the dotted name of the place, as far as every message has it; "" is the top."""

    field: str
    got: str
    expected: str


@dataclass(frozen=True, slots=True)
class _Step:
    """A place on the way down: its form, its bytes where they can be told, and its name.

    ``fixed`` says that every message has a field of that name there, whatever its tags.
    """

    name: str
    form: inspect.Type
    value: bytes | None
    fixed: bool


def misfit(data: bytes, form: Any, path: str) -> Misfit:
    """Say what is wrong at a path of msgspec's. The cost is that of skipping over the bytes."""
    top = _Step("", _form(form), data, fixed=True)
    steps = list(_down(top, map(int, re.findall(r"\[(\d+)\]", path))))
    last = steps[-1]
    below = ".".join(step.name for step in steps if not step.fixed)
    came_there = "another value" if last.value is None else came(last.value)
    return Misfit(
        field=".".join(step.name for step in steps[1:] if step.fixed),
        got=f"{came_there} as {below}" if below else came_there,
        expected=_wanted(last),
    )


@cache
def _form(form: Any) -> inspect.Type:
    return inspect.type_info(form)


def _down(step: _Step, path: Iterable[int]) -> Iterator[_Step]:
    yield step
    for index in path:
        below = _below(step, index)
        if below is None:
            return
        step = below
        yield step


def _below(step: _Step, index: int) -> _Step | None:
    """Return the place of an element, or None where the form has none."""
    elements = _elements(step.value)
    value = bytes(elements[index]) if index < len(elements) else None
    if isinstance(step.form, inspect.TupleType):
        return _Step(f"element {index}", step.form.item_types[index], value, fixed=False)
    tags = tuple(each.tag for each in _structs(step.form) if each.tag is not None)
    if tags and index == 0:
        return _Step(_TAG, inspect.LiteralType(tags), value, fixed=False)
    struct, place = _chosen(step.form, elements), index - bool(tags)
    if struct is None or place >= len(struct.fields):
        return None
    field = struct.fields[place]
    return _Step(field.name, field.type, value, fixed=step.fixed and len(_structs(step.form)) == 1)


def _elements(value: bytes | None) -> Sequence[msgspec.Raw]:
    try:
        return [] if value is None else msgspec.msgpack.decode(value, type=_Elements)
    except (msgspec.DecodeError, RecursionError):
        return []


def _structs(form: inspect.Type) -> list[inspect.StructType]:
    """Return the structs that a form can be."""
    among = form.types if isinstance(form, inspect.UnionType) else (form,)
    return [each for each in among if isinstance(each, inspect.StructType)]


def _chosen(form: inspect.Type, elements: Sequence[msgspec.Raw]) -> inspect.StructType | None:
    """Return the struct that a form is here: of several, the one whose tag comes first."""
    structs = _structs(form)
    if len(structs) > 1:
        tag = text_of(bytes(elements[0])) if elements else None
        structs = [each for each in structs if each.tag == tag]
    return structs[0] if structs else None


def _wanted(step: _Step) -> str:
    """Return words for what belongs at a place: of several structs the one that was begun."""
    if step.value is not None and count(step.value):
        begun = _chosen(step.form, _elements(step.value))
        return words(begun or step.form)
    return words(step.form)


def words(form: inspect.Type) -> str:
    """Return words for a form."""
    match form:
        case inspect.UnionType(types):
            tags = [repr(each.tag) for each in _structs(form)]
            if len(tags) > 1:
                return f"an array that begins with {' or '.join(tags)}"
            return " or ".join(map(words, types))
        case inspect.LiteralType(tags):
            return " or ".join(map(repr, tags))
        case inspect.StructType(fields=fields, tag=tag):
            first = [] if tag is None else [repr(tag)]
            return _array([*first, *(each.name for each in fields)])
        case inspect.TupleType(items):
            return _array([words(each) for each in items])
        case _:
            return _scalar_words(form)


def _array(parts: Sequence[str]) -> str:
    return f"an array of {len(parts)}: {', '.join(parts)}"


def _scalar_words(form: inspect.Type) -> str:
    match form:
        case inspect.IntType(ge=int(least), le=int(most)):
            return f"an integer from {least} to {most}"
        case inspect.IntType():
            return "an integer"
        case inspect.FloatType(gt=above):
            return "a number" if above is None else f"a number above {above:g}"
        case inspect.StrType(pattern=str(pattern)):
            return f"a text that matches {pattern}"
        case inspect.StrType(max_length=most):
            return "a text" if most is None else f"a text of at most {most} letters"
        case inspect.BytesType(max_length=most):
            return "bytes" if most is None else f"{most} bytes"
        case inspect.BoolType():
            return "true or false"
        case _:
            return "nil"
