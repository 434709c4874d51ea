"""``fedbandit evaluate``: what recipes would have earned, by logs of what was done."""

import inspect
import json
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_logs
from fedbandit.cli.reporting import add_json, report, say
from fedbandit.cli.settings import add_set, settings
from fedbandit.cli.table import show_table
from fedbandit.cli.values import directory, number_list, number_or_none, positive, share, words
from fedbandit.errors import InvalidParameter, complaint, unknown

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.logs import read
    from fedbandit.offline import Evaluation, Outcome

EXAMPLE = """\
fedbandit evaluate decisions/ --recipe FSCLB --sketch-size 10 --radius 0.1,0.3,1
fedbandit evaluate decisions/ --choice ucb,thompson --out evaluation
fedbandit evaluate decisions/ --json

replay: the recipe decides and learns by itself, on the decisions where it agrees with the log.
ips, snips, dr: it learns from the first half of the log, and is judged on the second as it is then.
"over now" is the difference to what was logged, with its 95 % interval. Of several candidates the
best is picked on the first half and judged on the second, since the best of many looks too good
where it was picked. See docs/evaluation.md."""


def _define(add: Add) -> None:
    add_logs(add)
    told = "recipes to try, separated by commas (default: the one that wrote the log)"
    add("--recipe", type=words, metavar="NAME,...", help=told)
    add("--sketch-size", type=positive, metavar="L", help="size of a sketch, for recipes with one")
    add(
        "--agents",
        type=positive,
        metavar="N",
        help="agents of the recipe (default: as logged, or 1)",
    )
    add("--radius", type=number_list, default=(), metavar="R,...", help="radii to try")
    told = "choices to try: ucb, thompson"
    add("--choice", type=words, default=(), metavar="NAME,...", help=told)
    add_set(add, of="the recipes", topic="recipes")
    told = "reward of decisions that have none (default: they are left out)"
    add("--default-reward", type=number_or_none, metavar="R", help=told)
    add("--level", type=share, default=0.95, metavar="P", help="of the intervals (default: 0.95)")
    add_json(add)
    add("--out", type=directory, metavar="DIR", help="directory for a figure and the JSON")


def _execute(arguments: Namespace) -> None:
    from threadpoolctl import threadpool_limits

    from fedbandit.logs import read
    from fedbandit.offline import evaluate

    recipes = _recipes(arguments, read(arguments.logs))
    with threadpool_limits(limits=1):  # small matrices: more threads only wait for each other
        found = evaluate(
            arguments.logs,
            recipes,
            radius=arguments.radius,
            choice=arguments.choice,
            default_reward=arguments.default_reward,
            level=arguments.level,
            progress=_progress(),
        )
    files = [] if arguments.out is None else _written(found, arguments)

    def show() -> None:
        _show(found)
        for path in files:
            print(path)

    report(arguments, lambda: {**found.plain(), "files": files}, show)


def _progress() -> Callable[[int, int], None]:
    """Return what tells on stderr how far it is, at every tenth of each reading."""
    told = [0, 0]

    def tell(done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth < told[1]:
            told[0] += 1
        if tenth != told[1]:
            told[1] = tenth
            print(f"reading {1 + told[0]} of 2: {10 * tenth} %", file=sys.stderr)

    return tell


def _recipes(arguments: Namespace, logs: "read") -> "dict[str, Recipe]":
    from fedbandit.core.algorithms.catalogue import RECIPES
    from fedbandit.parameters import build

    head = logs.head
    names = arguments.recipe or ((head.recipe,) if head is not None and head.recipe else ())
    if not names:
        fix = "Name one: --recipe FSCLB --sketch-size 10."
        expected = "a recipe, as this log does not say which one wrote it"
        raise InvalidParameter(complaint("--recipe", got="none", expected=expected, fix=fix))
    dimension = _dimension(logs)
    made = {}
    for name in names:
        if name not in RECIPES:
            raise unknown("recipe", name, RECIPES)
        given: dict[str, Any] = {"dimension": dimension, "agents": arguments.agents or 1}
        if head is not None and head.recipe == name:
            given |= head.params
        if arguments.agents is not None:
            given["agents"] = arguments.agents
        given |= settings(arguments.settings)
        if arguments.sketch_size and "sketch_size" in inspect.signature(RECIPES[name]).parameters:
            given["sketch_size"] = arguments.sketch_size
        made[name] = build(RECIPES[name], given, place=name)
    return made


def _dimension(logs: "read") -> int:
    """Return the length of the arms in the first event."""
    for event in logs:
        if event.arms is not None:
            return int(event.arms.shape[1])
        break
    return int((logs.head.params if logs.head is not None else {}).get("dimension", 0)) or 100


def _show(found: "Evaluation") -> None:
    now, level = found.now, f"{100 * found.level:g} %"
    how = "uniform" if found.uniform else f"least probability {found.least_probability:.3g}"
    title = f"{found.rows:,} decisions ({how}), reward a decision and {level} interval"
    header = ("policy", "by", "reward", "interval", "over now", "interval", "effective", "verdict")
    done = ("now", "log", _number(now.value), _range(now.low, now.high), "", "", f"{now.rows}", "")
    show_table(title, header, [done, *map(_cells, found.outcomes)])
    for reason, count in found.skipped.items():
        print(f"left out: {count:,} x {reason}")
    say(found.sentence)


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    each = outcome.estimate
    return (
        outcome.name,
        outcome.method,
        _number(each.value),
        _range(each.low, each.high),
        f"{each.gain:+.3g}",
        _range(each.gain_low, each.gain_high),
        f"{each.effective:.0f}",
        each.verdict,
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


def _range(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def _written(found: "Evaluation", arguments: Namespace) -> list[Any]:
    from fedbandit.lab.figures.evaluation import draw_evaluation
    from fedbandit.lab.runs.output import writing

    figures = draw_evaluation(found, arguments.out)
    path = arguments.out / "evaluation.json"
    with writing(path):
        path.write_text(json.dumps(found.plain(), indent=2, allow_nan=False) + "\n")
    return [*figures, path]


EVALUATE = Command(
    name="evaluate",
    summary="Estimate from logs what recipes would have earned, with intervals.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
)
