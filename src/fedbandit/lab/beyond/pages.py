"""What was found beyond the paper, as pages with charts."""

from collections.abc import Sequence
from pathlib import Path

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.beyond.hard import HARD
from fedbandit.lab.beyond.hard_report import all_worlds, changing_worlds, hard_words
from fedbandit.lab.beyond.report import heavy_tail_table, steps_table, targets_table, words
from fedbandit.lab.beyond.variants import FED, LEAN, LITERAL, RANDOM
from fedbandit.lab.figures.charts import curve_charts, difference_charts, trade_charts
from fedbandit.lab.figures.panels import QUANTITIES, Panel
from fedbandit.lab.page import Section, write_page
from fedbandit.lab.runs.machine import environment
from fedbandit.lab.study.study import Size, Study

REGRET = QUANTITIES[0]
SHOWN = (LEAN, LITERAL, FED, RANDOM)


def write_beyond(study: Study, found: Sequence[Curves], tail: Sequence[Curves], path: Path) -> Path:
    """Write the comparison at the paper's settings and in the heavy-tailed world."""
    names = [setting.name for setting in study.settings]
    whole = [Panel(name, tuple(each for each in found if each.setting == name)) for name in names]
    few = [_only(panel, SHOWN) for panel in whole]
    sections = (
        Section(
            "Regret against bytes",
            "After the last round, with the 95 % interval of regret: further left and lower is "
            "better. Every line of the tables below is a point.",
            trade_charts(whole),
        ),
        Section("Aims", "", tables=[targets_table(found, study.settings)]),
        Section("Regret", "Mean and 95 % band over trials.", curve_charts(few, REGRET)),
        Section(
            "Paired differences",
            "Regret less FedLinUCB's, trial by trial on the same tapes; below 0 is better.",
            difference_charts(few, reference=FED, without=(RANDOM,)),
        ),
        Section(
            "Every line",
            "Bytes as a share of FedLinUCB's, regret, and time as a ratio to the literal FSCLB's.",
            tables=[steps_table(found, study.settings, [each.name for each in study.algorithms])],
        ),
        Section(
            "A heavy tail",
            "Linear growth makes the ratio of the quarters 1, growth by the root of the rounds "
            "0.65, a logarithm 0.42.",
            curve_charts([Panel("heavy tail", tuple(tail))], REGRET),
            [heavy_tail_table(tail)],
        ),
    )
    return _write(
        "FSCLB.lean beyond the paper", words(study.size.trials, study.size.rounds), sections, path
    )


def write_hard(found: Sequence[Curves], size: Size, path: Path) -> Path:
    """Write the comparison in the hard worlds."""
    panels = [
        Panel(hard.name, tuple(each for each in found if each.setting == hard.name))
        for hard in HARD
    ]
    sections = (
        Section("All worlds", "", tables=[all_worlds(found)]),
        Section("Worlds that change", "", tables=[changing_worlds(found, size)]),
        Section("Regret", "Mean and 95 % band over trials.", curve_charts(panels, REGRET)),
        Section(
            "Paired differences",
            "Regret less FedLinUCB's, trial by trial on the same tapes; below 0 is better.",
            difference_charts(panels, reference=FED, without=(RANDOM,)),
        ),
    )
    return _write("FSCLB.lean in harder worlds", hard_words(size), sections, path)


def _only(panel: Panel, names: Sequence[str]) -> Panel:
    return Panel(panel.title, tuple(each for each in panel.lines if each.algorithm in names))


def _write(title: str, made: str, sections: Sequence[Section], path: Path) -> Path:
    values = {
        "title": title,
        "made": made.replace("*", ""),
        "sections": sections,
        "environment": environment(),
    }
    return write_page("sections.html", path, values)
