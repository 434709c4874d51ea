"""``fedbandit advise``: recommend a sketch size for some data."""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_jobs
from fedbandit.cli.reporting import add_json, print_json, say
from fedbandit.cli.settings import add_set, settings
from fedbandit.cli.table import show_table
from fedbandit.cli.values import directory, not_negative, numbers, positive, share
from fedbandit.errors import InvalidParameter, complaint, unknown

if TYPE_CHECKING:
    from fedbandit.lab.advice.advice import SeededWorld
    from fedbandit.lab.analysis.advice import Advice
    from fedbandit.lab.analysis.recommendation import Measured

SIMULATED: Mapping[str, Any] = {"dimension": 50, "arms": 10, "agents": 10}
"""Parameters of a simulated world unless set otherwise."""

OPTIONS = ("sizes", "trials", "rounds", "radius", "tolerance")
"""Options that are arguments of ``lab.advise``, which has their defaults."""

EXAMPLE = """\
fedbandit advise satimage
fedbandit advise visits.csv --set target_column=bought --set target=yes --out advice
fedbandit advise synthetic --set dimension=50 --set spectrum=power-law --set decay=1.0

prints, for a few sketch sizes: the share of the arms' spectrum that a sketch drops, the bytes of a
message, and the measured regret. It recommends the smallest size whose loss, at the upper end of
its 95 % interval, is at most --tolerance of FedLinUCB's lead over Random."""


def _define(add: Add) -> None:
    told = "a CSV, NPZ or Parquet file, satimage, mfeat-zernike, openml:ID, or a world"
    add("data", metavar="DATA", help=told)
    add_set(add, of="the world, or seed (of the first trial)", topic="worlds")
    add(
        "--sizes",
        type=numbers,
        metavar="L,L,...",
        help="sketch sizes to try (default: 0.1 d, 0.2 d, 0.4 d, 0.6 d and d + 1)",
    )
    add("--trials", type=positive, metavar="N", help="trials of each size (default: 5)")
    add("--rounds", type=positive, metavar="N", help="rounds per trial (default: 3000)")
    add(
        "--radius",
        type=not_negative,
        metavar="R",
        help="constant radius of every algorithm (default: of 0.01, 0.03, 0.1, 0.3 and 1 the "
        "best for FedLinUCB in two trials with other seeds)",
    )
    add(
        "--tolerance",
        type=share,
        metavar="SHARE",
        help="share of FedLinUCB's lead over Random that a size may lose (default: 0.02)",
    )
    add_jobs(add)
    add(
        "--out",
        type=directory,
        metavar="DIR",
        help="directory for figure, CSV, JSON and runs (default: nothing is written)",
    )
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab import advise, progress_on
    from fedbandit.lab.advice.files import write_advice

    name, world = _world(arguments.data, settings(arguments.settings))
    stated = {option: value for option in OPTIONS if (value := vars(arguments)[option]) is not None}
    advice = advise(
        world,
        **stated,
        setting=name,
        out=arguments.out,
        jobs=arguments.jobs,
        progress=progress_on(sys.stderr),
    )
    files = [] if arguments.out is None else write_advice(advice, arguments.out)
    if arguments.json:
        print_json({"advice": advice, "files": files})
        return
    _show(advice)
    for path in files:
        print(path)


def _world(data: str, given: Mapping[str, Any]) -> "tuple[str, SeededWorld]":
    """Return a name for the world and the world; a data set is read once for all trials."""
    from dataclasses import replace

    from fedbandit.parameters import build
    from fedbandit.worlds import BUNDLED, WORLDS, Classification
    from fedbandit.worlds.recorded.loading import OPENML, is_path

    if data != "classification" and data in WORLDS:
        catalogue: Mapping[str, Callable[..., SeededWorld]] = WORLDS
        return data, build(catalogue[data], {**SIMULATED, **given}, place="world")
    if data != "classification":
        if not (data in BUNDLED or is_path(data) or data.lower().startswith(OPENML)):
            files = "a path ending in .csv, .parquet or .npz"
            raise unknown("advise", data, (*WORLDS, *BUNDLED, f"{OPENML}ID", files))
        if "data" in given:
            got, expected = f"{given['data']!r} beside {data!r}", "one of the two"
            fix = "Leave --set data=... out."
            raise InvalidParameter(complaint("data", got=got, expected=expected, fix=fix))
        given = {**given, "data": data}
    world = build(Classification, given, place="world")
    return world.dataset.name, replace(world, data=world.dataset, target_column=None)


def _show(advice: "Advice") -> None:
    _show_prospects(advice)
    print()
    _show_measured(advice)
    print()
    say(advice.recommendation.sentence)


def _show_prospects(advice: "Advice") -> None:
    from fedbandit.lab.analysis.text import number, percent

    whole = advice.whole_bytes
    title = f"{advice.setting}, d = {advice.dimension}: arms that FedLinUCB played, and messages"
    header = ("l", "tail", "epsilon_l", "float64 bytes", "of d x d", "lean bytes", "of d x d")
    rows = [
        (
            f"{each.sketch_size}",
            percent(each.tail),
            number(each.epsilon),
            f"{each.bytes_float64:,}",
            percent(each.bytes_float64 / whole),
            f"{each.bytes_lean:,}",
            percent(each.bytes_lean / whole),
        )
        for each in advice.prospects
    ]
    show_table(title, header, rows)
    say("tail: share of the trace outside the l - 1 directions that a sketch of size l keeps")


def _show_measured(advice: "Advice") -> None:
    picked = ", FedLinUCB's best" if advice.tuned else ""
    title = (
        f"{advice.rounds:,} rounds, {advice.trials} trials, radius {advice.radius:g}{picked}: "
        "mean ± 95 % interval"
    )
    header = ("algorithm", "l", "regret", "lost, %", "bytes", "of FedLinUCB's")
    show_table(title, header, [_cells(each, advice) for each in advice.measured])
    say("lost: regret beyond FedLinUCB's, as a share of FedLinUCB's lead over Random")


def _cells(each: "Measured", advice: "Advice") -> list[str]:
    from fedbandit.lab.analysis.text import compact, percent, plus_minus

    whole = advice.of("FedLinUCB").bytes.mean
    return [
        each.recipe,
        "" if each.sketch_size is None else f"{each.sketch_size}",
        plus_minus(each.regret),
        plus_minus(each.loss.scaled(100.0)),
        compact(each.bytes.mean),
        percent(each.bytes.mean / whole if whole else float("nan")),
    ]


ADVISE = Command(
    name="advise",
    summary="Recommend a sketch size for some data, from spectrum, bytes and measured regret.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    resumes=lambda arguments: arguments.out is not None,
)
