"""What was found in the hard worlds, as tables; every verdict is computed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import estimate, gap_loss, ratio
from fedbandit.lab.analysis.table import Table
from fedbandit.lab.analysis.text import plus_minus
from fedbandit.lab.analysis.verdicts import at_most
from fedbandit.lab.beyond.hard import CONSTANT, HARD, LINES, ROWS, HardWorld
from fedbandit.lab.beyond.tables import (
    in_percent,
    line_of,
    megabytes,
    regret_at,
    with_spread,
)
from fedbandit.lab.beyond.variants import FED, LEAN, LITERAL, RANDOM
from fedbandit.lab.study.study import Size

LINE = 1.1
"""The aim: lean's regret over the larger of the literal's and FedLinUCB's."""

Regrets = dict[str, NDArray[np.float64]]


def hard_words(size: Size) -> str:
    """Return how the numbers were made."""
    return (
        f"{size.trials} trials of {size.rounds:,} rounds in each world, "
        f"{int(1.25 * size.rounds):,} where something new appears; all lines of a trial on the "
        "same tape. d = 50 (128 hashed), K = 10, M = 10. Default parameters: radius 0.5, and for "
        f"lean 'auto'; literal is FSCLB with l = {ROWS} d. Means with 95 % intervals, of "
        "differences and ratios paired within trials. *lost* is lean's regret beyond "
        "FedLinUCB's as a share of FedLinUCB's lead over Random. *larger* is the larger of the "
        "literal's and FedLinUCB's "
        "mean regret."
    )


def hard_text(found: Sequence[Curves], size: Size) -> str:
    """Return how the numbers were made, a table of all worlds, and one of those that change."""
    tables = (all_worlds(found), changing_worlds(found, size))
    return "\n\n".join((hard_words(size), *(table.markdown for table in tables))) + "\n"


def all_worlds(found: Sequence[Curves]) -> Table:
    """Return every hard world with regret, differences, ratios and bytes."""
    head = [
        "regret over all rounds",
        *_short(LINES),
        "lean - FedLinUCB",
        "lean - literal",
        f"lean / larger (aim: {LINE})",
        "lost",
        "bytes: FedLinUCB",
        "literal",
        "lean",
    ]
    return Table(head, [_world_row(found, hard) for hard in HARD])


def _world_row(found: Sequence[Curves], hard: HardWorld) -> list[str]:
    lines = {name: line_of(found, hard.name, name) for name in LINES}
    regrets = {name: line.final("regret") for name, line in lines.items()}
    return [
        hard.name,
        *(plus_minus(estimate(regret)) for regret in regrets.values()),
        *(plus_minus(estimate(regrets[LEAN] - regrets[name])) for name in (FED, LITERAL)),
        _to_larger(regrets),
        _lost(regrets),
        *(megabytes(lines[name]) for name in (FED, LITERAL, LEAN)),
    ]


def changing_worlds(found: Sequence[Curves], size: Size) -> Table:
    """Return the worlds in which something changes: regret before it and after it."""
    names = _short(LINES)
    head = [
        "before the change",
        *names,
        "after it: " + names[0],
        *names[1:],
        "lean - FedLinUCB",
        "lean / FedLinUCB",
        f"lean / larger (aim: {LINE})",
        "lost",
    ]
    rows = [
        _change_row(found, hard, change)
        for hard in HARD
        if (change := hard.change(size.rounds)) is not None
    ]
    return Table(head, rows)


def _change_row(found: Sequence[Curves], hard: HardWorld, change: int) -> list[str]:
    lines = {name: line_of(found, hard.name, name) for name in LINES}
    before = {name: regret_at(line, change) for name, line in lines.items()}
    after = {name: line.final("regret") - before[name] for name, line in lines.items()}
    return [
        hard.name,
        *(f"{regret.mean():,.1f}" for regret in before.values()),
        *(plus_minus(estimate(regret)) for regret in after.values()),
        plus_minus(estimate(after[LEAN] - after[FED])),
        with_spread(ratio(after[LEAN], after[FED])),
        _to_larger(after),
        _lost(after),
    ]


def _to_larger(regrets: Regrets) -> str:
    larger = max((FED, LITERAL), key=lambda name: float(regrets[name].mean()))
    measured = ratio(regrets[LEAN], regrets[larger])
    return f"{with_spread(measured)}: {at_most(measured, LINE)}"


def _lost(regrets: Regrets) -> str:
    return in_percent(gap_loss(-regrets[LEAN], -regrets[FED], -regrets[RANDOM]))


def _short(names: Sequence[str]) -> list[str]:
    short = {LITERAL: "literal", LEAN: "lean", CONSTANT: "lean, 0.5"}
    return [short.get(name, name) for name in names]
