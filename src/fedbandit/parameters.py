"""Build a recipe or a world from the parameters of a spec file or of ``--set``.

Names and types are checked against the signature first, so that an error names the parameter at
fault and its place in the file.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from fedbandit.errors import InvalidParameter, LocalError, complaint, unknown

T = TypeVar("T")

TYPES_IN_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    bool: "true or false",
    NoneType: '"none"',
}


def names(factory: Callable[..., object]) -> list[str]:
    """Return the names of the parameters that a recipe or world takes."""
    return list(inspect.signature(factory).parameters)


def build(
    factory: Callable[..., T],
    given: Mapping[str, Any],
    *,
    place: str,
    extra: tuple[str, ...] = (),
) -> T:
    """Call ``factory`` with parameters that were given at ``place``, such as recipes.fsclb.

    Raises UnknownName, with the nearest valid name, for a parameter that ``factory`` does not have,
    and InvalidParameter for one that is missing or of the wrong type. ``extra``: further names that
    an error lists as valid at this place.
    """
    parameters = inspect.signature(factory).parameters
    for name in given:
        if name not in parameters:
            raise unknown(f"parameter in {place}", name, [*parameters, *extra])
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise _left_out(place, name)
    hints = hints_of(factory)
    values = {
        name: _fitting(value, hints.get(name, Any), place=f"{place}.{name}")
        for name, value in given.items()
    }
    try:
        return factory(**values)
    except LocalError as error:
        starts = tuple(f"{name}{after}" for name in parameters for after in (":", " must"))
        joint = "." if str(error).startswith(starts) else ": "
        raise type(error)(f"{place}{joint}{error}") from error


def _fitting(value: object, hint: Any, *, place: str) -> object:
    """Return the value as the type in the signature; a table becomes a dataclass."""
    choices = (
        get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)
    )
    if is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, Mapping):
            return build(hint, value, place=place)
        if isinstance(value, hint):
            return value
    if value == "none" and NoneType in choices and str not in choices:
        return None
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        words = [word for each in choices if get_origin(each) is Literal for word in get_args(each)]
        if words and isinstance(value, str):
            raise unknown(place, value, words) from error
        raise _misfit(place, value, choices) from error
    except TypeError:  # msgspec does not know this type: the factory checks the value itself
        return value


def hints_of(factory: Callable[..., object]) -> dict[str, Any]:
    """Return the types of the parameters by name, for a function, a dataclass or a callable."""
    if is_dataclass(factory):
        known = get_type_hints(factory)
        return {field.name: known[field.name] for field in fields(factory)}
    if isinstance(factory, type):
        return get_type_hints(vars(factory).get("__init__", factory))
    return get_type_hints(factory if inspect.isroutine(factory) else type(factory).__call__)


def _left_out(place: str, name: str) -> InvalidParameter:
    return InvalidParameter(
        f"{place}: {name} is missing, and it has no default. Add {place}.{name}."
    )


def _misfit(place: str, value: object, choices: Iterable[Any]) -> InvalidParameter:
    expected = " or ".join(dict.fromkeys(map(_in_words, choices)))
    fix = "See `fedbandit list` for every parameter and its default."
    return InvalidParameter(complaint(place, got=repr(value), expected=expected, fix=fix))


def _in_words(hint: Any) -> str:
    """Return the words for a type, as the author of a spec file would say it."""
    if get_origin(hint) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(hint))
    if is_dataclass(hint):
        return "a table"
    return TYPES_IN_WORDS.get(hint, str(hint))
