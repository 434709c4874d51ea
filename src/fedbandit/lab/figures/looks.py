"""Names, colours and dashes of lines: an algorithm looks alike in every figure."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from fedbandit.lab.analysis.curves import Curves

LineStyle = Literal["-"] | tuple[float, Sequence[float]]


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn in every figure; dashes tell it apart without colour."""

    colour: str
    dashes: LineStyle = "-"
    width: float = 1.8
    layer: int = 2


# The Okabe-Ito palette, its yellow left out (too faint on white), and two of Tol's.
LOOKS: Mapping[str, Look] = {
    "FSCLB": Look("#D55E00", "-", 2.2, 3),
    "FSCLB.lean": Look("#332288", (0, (9.0, 1.5)), 2.4, 4),
    "FedLinUCB": Look("#0072B2", "-", 3.0),
    "FedLinUCB (published)": Look("#56B4E9", (0, (4.0, 2.0)), 1.6),
    "FSCLB (buffered)": Look("#117733", (0, (4.0, 1.0, 1.0, 1.0)), 1.6),
    "Random": Look("#7A7A7A", (0, (1.0, 1.5))),
    "AsyncLinUCB": Look("#009E73", (0, (6.0, 1.5))),
    "DisLinUCB": Look("#CC79A7", (0, (6.0, 1.5, 1.0, 1.5))),
    "LinUCB": Look("#E69F00", (0, (3.0, 1.0, 1.0, 1.0, 1.0, 1.0))),
    "Centralised": Look("#000000", (0, (2.0, 1.0))),
    "SOFUL": Look("#882255", (0, (8.0, 2.0, 2.0, 2.0))),
    "CBSCFD": Look("#44AA99", (0, (5.0, 1.0, 1.0, 1.0))),
}
OTHER_DASHES: tuple[LineStyle, ...] = (
    (0, (1.0, 1.2)),
    (0, (5.0, 1.5)),
    (0, (5.0, 1.5, 1.0, 1.5)),
    (0, (10.0, 2.0)),
    "-",
)
SPARE_COLOURS = ("#DDCC77", "#AA4499", "#999933", "#661100", "#6699CC")


def namer(panels: Sequence[Sequence[Curves]]) -> Callable[[Curves], str]:
    """Return the shortest names that tell a panel's lines apart.

    That is the algorithm; if need be with its kind of radius ("tuned"), or else all of its radius.
    """
    several = {
        algorithm
        for panel in panels
        for algorithm, lines in Counter(each.algorithm for each in panel).items()
        if lines > 1
    }

    def by_kind(each: Curves) -> str:
        kind = each.radius.partition(" (")[0]
        return f"{each.algorithm}, {kind}" if each.algorithm in several else each.algorithm

    def in_full(each: Curves) -> str:
        return f"{each.algorithm}, {each.radius}" if each.algorithm in several else each.algorithm

    kinds_suffice = all(len({by_kind(each) for each in lines}) == len(lines) for lines in panels)
    return by_kind if kinds_suffice else in_full


def looks_of(panels: Sequence[Sequence[Curves]], name: Callable[[Curves], str]) -> dict[str, Look]:
    """Return the look of every name, in legend order: a colour per algorithm, dashes by radius."""
    lines = sorted((each for panel in panels for each in panel), key=rank)
    spare = cycle(SPARE_COLOURS)
    first: dict[str, Look] = {}
    dashes: dict[str, Iterator[LineStyle]] = {}
    looks: dict[str, Look] = {}
    for each in lines:
        if name(each) in looks:
            continue
        if each.algorithm not in first:
            first[each.algorithm] = LOOKS.get(each.algorithm) or Look(next(spare))
            dashes[each.algorithm] = cycle(OTHER_DASHES)
            looks[name(each)] = first[each.algorithm]
        else:
            other = next(dashes[each.algorithm])
            looks[name(each)] = Look(first[each.algorithm].colour, other, 1.4)
    return looks


def rank(each: Curves) -> tuple[bool, int, list[tuple[int, int | str]], bool, str]:
    """Sort key: the paper's algorithms first, tuned before the rest, then by name."""
    known = list(LOOKS)
    place = known.index(each.algorithm) if each.algorithm in known else len(known)
    return (
        place == len(known),
        place,
        natural(each.algorithm),
        not each.radius.startswith("tuned"),
        each.radius,
    )


def natural(text: str) -> list[tuple[int, int | str]]:
    """Return a sort key that puts d=50 before d=100."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts if part]
