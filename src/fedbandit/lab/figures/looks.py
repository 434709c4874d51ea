"""Names, colours and dashes of lines: an algorithm looks alike in every figure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Literal

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.text import natural

LineStyle = Literal["-"] | tuple[float, Sequence[float]]


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn in every figure; dashes and marker tell it apart without colour."""

    colour: str
    dashes: LineStyle = "-"
    width: float = 1.3
    layer: int = 2
    marker: str = "o"
    filled: bool = False


# The Okabe-Ito palette, its yellow left out (too faint on white), and some of Tol's.
LOOKS: Mapping[str, Look] = {
    "FSCLB": Look("#D55E00", "-", 1.5, 3, "o"),
    "FSCLB.lean": Look("#332288", (0, (9.0, 1.5)), 1.7, 4, "*"),
    "FedLinUCB": Look("#0072B2", "-", 2.2, 2, "D"),
    "FedLinUCB (published)": Look("#56B4E9", (0, (4.0, 2.0)), 1.2, 2, "d"),
    "FSCLB (buffered)": Look("#94346E", (0, (4.0, 1.0, 1.0, 1.0)), 1.2, 2, "+"),
    "Random": Look("#7A7A7A", (0, (1.0, 1.5)), marker="x"),
    "AsyncLinUCB": Look("#009E73", (0, (6.0, 1.5)), marker="^"),
    "DisLinUCB": Look("#CC79A7", (0, (6.0, 1.5, 1.0, 1.5)), marker="v"),
    "LinUCB": Look("#E69F00", (0, (3.0, 1.0, 1.0, 1.0, 1.0, 1.0)), marker="s"),
    "Centralised": Look("#000000", (0, (2.0, 1.0)), marker="P"),
    "SOFUL": Look("#882255", (0, (8.0, 2.0, 2.0, 2.0)), marker="<"),
    "CBSCFD": Look("#44AA99", (0, (5.0, 1.0, 1.0, 1.0)), marker=">"),
    "buffered": Look("#A6761D", (0, (7.0, 2.0)), marker="s"),
    "averaged": Look("#AA4499", (0, (2.0, 2.0)), marker="v"),
    "corrected": Look("#117733", (0, (4.0, 1.0, 2.0, 1.0)), marker="X"),
    "VowpalWabbit": Look("#1B4965", (0, (1.0, 1.0, 4.0, 1.0)), marker="1"),
    "MABWiser": Look("#B5179E", (0, (3.0, 3.0)), marker="2"),
    "ContextualBandits": Look("#7F5539", (0, (10.0, 3.0)), marker="3"),
}
"""Every algorithm of the package; the same in curves, sweeps, frontier and advice.

Markers differ among what is drawn together; "buffered" to "corrected" are in the frontier alone.
"""

OTHER_DASHES: tuple[LineStyle, ...] = (
    (0, (1.0, 1.2)),
    (0, (5.0, 1.5)),
    (0, (5.0, 1.5, 1.0, 1.5)),
    (0, (10.0, 2.0)),
    "-",
)
SPARE_COLOURS = (
    "#999933", "#661100", "#6699CC", "#DDAA33", "#BB5566", "#004488", "#55A868", "#8C564B",
)  # fmt: skip
SPARE_DASHES: tuple[LineStyle, ...] = ("-", (0, (5.0, 1.5)), (0, (1.5, 1.2)))
SPARE_MARKERS = "os^Dv"


def spare(place: int) -> Look:
    """Return the look of the n-th algorithm that has none: 120 of them all differ.

    Their markers are filled, those of the package's algorithms are open.
    """
    return Look(
        SPARE_COLOURS[place % len(SPARE_COLOURS)],
        SPARE_DASHES[place % len(SPARE_DASHES)],
        marker=SPARE_MARKERS[place % len(SPARE_MARKERS)],
        filled=True,
    )


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
    """Return the look of every name, in legend order.

    A colour and a marker per algorithm; the points of a sweep and other radii differ in dashes.
    """
    lines = sorted((each for panel in panels for each in panel), key=rank)
    kin = kinship(lines)
    first: dict[str, Look] = {}
    dashes: dict[str, Iterator[LineStyle]] = {}
    looks: dict[str, Look] = {}
    unknown = 0
    for each in lines:
        mine = kin(each)
        if name(each) in looks:
            continue
        if mine not in first:
            unknown += mine not in LOOKS
            first[mine] = LOOKS.get(mine) or spare(unknown - 1)
            dashes[mine] = cycle(OTHER_DASHES)
            looks[name(each)] = first[mine]
        else:
            looks[name(each)] = replace(first[mine], dashes=next(dashes[mine]), width=1.2)
    return looks


def kinship(lines: Sequence[Curves]) -> Callable[[Curves], str]:
    """Return what lines have in common that look alike: the name of their recipe in the spec.

    If it is none of ``LOOKS``, the part before a comma, or its kind if no other has that kind.
    """
    labels = {each.family: str(each.params.get("recipe_kind", "")) for each in lines}
    kinds = Counter(labels.values())

    def kin(each: Curves) -> str:
        begun, kind = each.family.partition(",")[0], labels[each.family]
        if each.family in LOOKS or begun in LOOKS:
            return each.family if each.family in LOOKS else begun
        return kind if kind in LOOKS and kinds[kind] == 1 and kind not in labels else each.family

    return kin


def rank(each: Curves) -> tuple[bool, int, list[tuple[int, int | str]], bool, str]:
    """Sort key: the paper's algorithms first, tuned before the rest, then by name."""
    known = list(LOOKS)
    place = known.index(each.family) if each.family in known else len(known)
    return (
        place == len(known),
        place,
        natural(each.algorithm),
        not each.radius.startswith("tuned"),
        each.radius,
    )
