"""What was found beyond the paper, as tables; every verdict is computed."""

from collections.abc import Iterable, Sequence

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import gap_loss, ratio
from fedbandit.lab.analysis.table import Table
from fedbandit.lab.analysis.verdicts import at_least, at_most
from fedbandit.lab.beyond.tables import (
    in_percent,
    line_of,
    mean_regret,
    megabytes,
    regret_at,
    with_spread,
)
from fedbandit.lab.beyond.variants import FED, LEAN, LITERAL, RANDOM
from fedbandit.lab.study.settings import Setting

BYTES_LINE, REGRET_LINE, LOSS_LINE, TIME_LINE = 0.92, 1.0, 0.015, 1.0
ISOTROPIC, ISOTROPIC_LINE = "synthetic d=50", 0.75
AIMS = (
    "bytes saved (aim: 92 %)",
    "regret, lean / literal (aim: 1; 0.75 at d=50)",
    "reward lost to FedLinUCB (aim: 1.5 %)",
    "time, lean / literal (aim: 1)",
)


def words(trials: int, rounds: int) -> str:
    """Return how the numbers were made."""
    return (
        f"{trials} trials x {rounds:,} rounds at each setting, all lines of a trial on the same "
        "tape. A constant radius for each line and setting, picked on other seeds; lines that "
        "differ in width or budget alone share one. Intervals: 95 %, paired within trials."
    )


def targets_table(found: Sequence[Curves], settings: Sequence[Setting]) -> Table:
    """Return FSCLB.lean beside the literal FSCLB and FedLinUCB, and whether the aims are met."""
    lines = ("bytes: FedLinUCB", "lean", "regret: FedLinUCB", "literal", "lean")
    return Table(["setting", *lines, *AIMS], [_targets(found, setting) for setting in settings])


def _targets(found: Sequence[Curves], setting: Setting) -> list[str]:
    lean, literal, fed = (line_of(found, setting.name, name) for name in (LEAN, LITERAL, FED))
    sizes, regrets = map(megabytes, (fed, lean)), map(mean_regret, (fed, literal, lean))
    return [setting.name, *sizes, *regrets, *aims(found, setting)]


def aims(found: Sequence[Curves], setting: Setting) -> list[str]:
    """Return what was measured of each of ``AIMS`` at a setting, and the verdict."""
    lean, literal, fed, floor = (
        line_of(found, setting.name, name) for name in (LEAN, LITERAL, FED, RANDOM)
    )
    saved = ratio(lean.final("bytes"), fed.final("bytes")).complement()
    change = ratio(lean.final("regret"), literal.final("regret"))
    loss = gap_loss(*(each.final("reward") for each in (lean, fed, floor)))
    time = ratio(lean.final("seconds"), literal.final("seconds"))
    line = ISOTROPIC_LINE if setting.name == ISOTROPIC else REGRET_LINE
    return [
        f"{in_percent(saved)}: {at_least(saved, BYTES_LINE)}",
        f"{with_spread(change)}: {at_most(change, line)}",
        f"{in_percent(loss)}: {at_most(loss, LOSS_LINE)}",
        f"{with_spread(time)}: {at_most(time, TIME_LINE)}",
    ]


def steps_table(
    found: Sequence[Curves], settings: Sequence[Setting], names: Iterable[str]
) -> Table:
    """Return every line at every setting: bytes as a share of FedLinUCB's, regret, and time.

    Time is a ratio to the literal FSCLB's.
    """
    rows = []
    for name in names:
        cells = [name]
        for setting in settings:
            line, fed, literal = (
                line_of(found, setting.name, each) for each in (name, FED, LITERAL)
            )
            share = ratio(line.final("bytes"), fed.final("bytes")).mean
            time = ratio(line.final("seconds"), literal.final("seconds")).mean
            cells += [f"{100 * share:.1f} %, {mean_regret(line)}, {time:.2f}"]
        rows.append(cells)
    return Table(["bytes, regret, time", *(setting.name for setting in settings)], rows)


def heavy_tail_table(found: Sequence[Curves]) -> Table:
    """Return regret as it grows, and its growth in the last quarter beside that in the second.

    Linear growth makes that ratio 1, growth by the root of the rounds 0.65, a logarithm 0.42.
    """
    rounds = found[0].rounds
    quarters = [rounds * part // 4 for part in (1, 2, 3, 4)]
    head = ["heavy tail", *(f"regret at {t:,}" for t in quarters), "4th / 2nd quarter", "bytes"]
    rows = []
    for line in found:
        at = [regret_at(line, t) for t in quarters]
        growth = ratio(at[3] - at[2], at[1] - at[0])
        values = [f"{each.mean():,.0f}" for each in at]
        rows.append([line.algorithm, *values, with_spread(growth), megabytes(line)])
    return Table(head, rows)
