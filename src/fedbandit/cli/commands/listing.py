"""``fedbandit list``: list recipes, worlds and data sets."""

import inspect
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass

from fedbandit.cli.command import Add, Command
from fedbandit.cli.reporting import add_json, print_json, say
from fedbandit.cli.table import show_table
from fedbandit.errors import unknown

TOPICS = ("recipes", "worlds", "datasets")


def _define(add: Add) -> None:
    told = f"only {', '.join(TOPICS[:-1])} or {TOPICS[-1]} (default: all)"
    add("topic", nargs="?", metavar="TOPIC", help=told)
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.core.algorithms.catalogue import RECIPES
    from fedbandit.worlds import WORLDS

    show = {
        "recipes": lambda: _show_factories("Recipes", RECIPES),
        "worlds": lambda: _show_factories("Worlds", WORLDS, hidden="seed"),
        "datasets": _show_datasets,
    }
    if arguments.topic is not None and arguments.topic not in show:
        raise unknown("topic", arguments.topic, show)
    asked = [arguments.topic] if arguments.topic else TOPICS
    if arguments.json:
        found = {
            "recipes": lambda: _described(RECIPES),
            "worlds": lambda: _described(WORLDS, hidden="seed"),
            "datasets": _datasets,
        }
        print_json({topic: found[topic]() for topic in asked})
        return
    for position, topic in enumerate(asked):
        if position:
            print()
        show[topic]()


def _show_factories(
    title: str, catalogue: Mapping[str, Callable[..., object]], *, hidden: str = ""
) -> None:
    """Show the parameters that a spec can set; a world's seed is ``hidden``: each trial sets it."""
    rows = [
        (name, _parameters(factory, hidden=hidden), _first_line(factory))
        for name, factory in catalogue.items()
    ]
    header = ("kind", "parameters", "what it is")
    show_table(title, header, rows, wraps=header[1:])
    for name, default in _nested(catalogue.values()).items():
        say(f"{name} is a table: {_parameters(type(default))}")


def _described(
    catalogue: Mapping[str, Callable[..., object]], *, hidden: str = ""
) -> list[dict[str, object]]:
    """Return what a table of the catalogue shows; a parameter without a default has none."""
    return [
        {
            "kind": name,
            "what": _first_line(factory),
            "parameters": [
                {"name": each.name}
                if each.default is each.empty
                else {"name": each.name, "default": each.default}
                for each in inspect.signature(factory).parameters.values()
                if each.name != hidden
            ],
        }
        for name, factory in catalogue.items()
    ]


def _datasets() -> list[dict[str, object]]:
    from fedbandit.worlds import BUNDLED, Classification

    found: list[dict[str, object]] = []
    for name in BUNDLED:
        world = Classification(data=name)
        rows, features = world.dataset.features.shape
        found.append(
            {
                "data": name,
                "rows": rows,
                "features": features,
                "dimension": world.dimension,
                "classes": len(world.dataset.classes),
            }
        )
    return found


def _show_datasets() -> None:
    rows = [tuple(map(str, each.values())) for each in _datasets()]
    header = ("data", "rows", "features", "dimension", "classes (arms)")
    show_table("Data sets inside the package", header, rows)
    say('A spec can also say data = "openml:ID", or the path of a CSV, NPZ or Parquet file.')


def _parameters(factory: Callable[..., object], *, hidden: str = "") -> str:
    return ", ".join(
        name if each.default is each.empty else f"{name}={_written(each.default)}"
        for name, each in inspect.signature(factory).parameters.items()
        if name != hidden
    )


def _written(default: object) -> str:
    return "{...}" if is_dataclass(default) else repr(default)


def _nested(factories: Iterable[Callable[..., object]]) -> dict[str, object]:
    """Return the defaults that are tables, by name."""
    return {
        name: each.default
        for factory in factories
        for name, each in inspect.signature(factory).parameters.items()
        if is_dataclass(each.default)
    }


def _first_line(factory: Callable[..., object]) -> str:
    return (inspect.getdoc(factory) or "").partition("\n")[0]


LIST = Command(
    name="list",
    summary="List recipes, worlds and data sets with their parameters and defaults.",
    example="fedbandit list recipes",
    define=_define,
    execute=_execute,
)
