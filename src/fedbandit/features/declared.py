"""What is declared of a feature: a number with its range, or centre and scale; or a category."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real

from fedbandit.errors import InvalidParameter, complaint

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*")
_CENTRED = re.compile(rf"\s*cent(?:re|er)\s+({_NUMBER})\s*,?\s+scale\s+({_NUMBER})\s*")


@dataclass(frozen=True, slots=True)
class Number:
    """A number x that becomes (x - centre) / scale.

    One with a range becomes -1 at its low end and 1 at its high end; numbers beyond are counted,
    and taken as the end that they are beyond.
    """

    centre: float = 0.0
    scale: float = 1.0
    range: tuple[float, float] | None = None

    @property
    def text(self) -> str:
        """The declaration as it is written, and as JSON has it."""
        if self.range is not None:
            return f"{_short(self.range[0])}..{_short(self.range[1])}"
        if (self.centre, self.scale) == (0.0, 1.0):
            return "number"
        return f"centre {_short(self.centre)} scale {_short(self.scale)}"

    def scaled(self, value: float) -> tuple[float, bool]:
        """Return the number as it is used, and whether it was beyond the range."""
        within = value if self.range is None else min(max(value, self.range[0]), self.range[1])
        return (within - self.centre) / self.scale, within != value


@dataclass(frozen=True, slots=True)
class Category:
    """A word, or a number that stands for one; ``among``: the only ones that are used, if given."""

    among: tuple[str, ...] | None = None

    @property
    def text(self) -> str | list[str]:
        """The declaration as it is written, and as JSON has it."""
        return "category" if self.among is None else list(self.among)


Declaration = Number | Category


def declaration(name: str, given: object) -> Declaration:
    """Return what was declared of a feature; raise InvalidParameter if it cannot be read.

    ``"0..2000"`` or ``(0, 2000)``, ``"centre 40 scale 15"``, ``"number"``, ``"category"``, or a
    list of words.
    """
    match given:
        case Number() | Category():
            return given
        case "number":
            return Number()
        case "category":
            return Category()
        case str() if found := _RANGE.fullmatch(given):
            return _ranged(name, float(found[1]), float(found[2]))
        case str() if found := _CENTRED.fullmatch(given):
            return _centred(name, float(found[1]), float(found[2]))
        case [Real() as low, Real() as high]:
            return _ranged(name, float(low), float(high))
        case [str(), *_] if _all_words(given):
            return Category(tuple(dict.fromkeys(map(str, given))))
    raise _misread(name, repr(given))


def _all_words(given: object) -> bool:
    return isinstance(given, Sequence) and all(isinstance(each, str) for each in given)


def _ranged(name: str, low: float, high: float) -> Number:
    if not (isfinite(low) and isfinite(high) and low < high):
        raise _misread(name, f"the range {low:g}..{high:g}")
    return Number((low + high) / 2.0, (high - low) / 2.0, (low, high))


def _centred(name: str, centre: float, scale: float) -> Number:
    if not (isfinite(centre) and isfinite(scale) and scale > 0.0):
        raise _misread(name, f"centre {centre:g}, scale {scale:g}")
    return Number(centre, scale)


def _misread(name: str, got: str) -> InvalidParameter:
    expected = "'LOW..HIGH', 'centre C scale S', 'number', 'category' or a list of words"
    fix = f"Write, for example, {{{name!r}: '0..100'}}."
    return InvalidParameter(complaint(f"features, {name!r}", got=got, expected=expected, fix=fix))


def _short(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
