"""``fedbandit model weights``: what a model has learned, feature by feature."""

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_store, opened_store
from fedbandit.cli.reporting import add_json, print_json, say
from fedbandit.cli.table import show_table
from fedbandit.cli.values import positive, version
from fedbandit.errors import DataError

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.core.statistics import Base
    from fedbandit.core.weights import Weight

Terms = Mapping[str, tuple[int, float]]


def _define(add: Add) -> None:
    add("name", metavar="NAME", help="name of the model")
    add_store(add)
    told = "names of features, as JSON that a device wrote of agent.encoder.terms(); without it "
    told += "features are numbered"
    add("--names", type=Path, metavar="FILE", help=told)
    add("--top", type=positive, default=20, metavar="N", help="how many to show (default: 20)")
    told = (
        "show what has moved since this snapshot (see fedbandit model history; default: the last)"
    )
    add("--since", type=version, metavar="VERSION", help=told)
    add_json(add)


def _weights(arguments: Namespace) -> None:
    from fedbandit.service.models.model import recipe_of

    with opened_store(arguments) as store, store.lock(arguments.name) as locked:
        model, state = locked.model, locked.state()
        versions = [each.version for each in locked.past.snapshots()]
        since = arguments.since
        if since is None and versions:
            since = versions[-1]
        before = None if since is None else locked.past.snapshot_state(since)
    recipe = recipe_of(model)
    terms = None if arguments.names is None else _terms(arguments.names, recipe.dimension)
    base = _base(recipe, state)
    found = _found(recipe, base, terms)
    then = {}
    if before is not None:
        then = {each.name: each for each in _found(recipe, _base(recipe, before), terms)}
    if arguments.json:
        moved = {name: each.weight for name, each in then.items()}
        shown = found[: arguments.top]
        print_json(
            {
                "model": model.name,
                "version": model.version,
                "weights": [{**asdict(each), "before": moved.get(each.name)} for each in shown],
                "since": since,
            }
        )
        return
    show_table(
        f"Weights of {model.name}, version {model.version}",
        ("feature", "weight", "95 % interval", "unknown", "moved"),
        [_row(each, then.get(each.name)) for each in found[: arguments.top]],
    )
    hardly = sum(each.unknown > 0.5 for each in found)
    say(f"{len(found)} in all; hardly anything is known of {hardly} (over 50 % unknown)")
    shared = sum(each.shared for each in found)
    if shared:
        say(f"{shared} share a place with another (*): their weights cannot be told apart")
    if base.reading.shed > 0.0:
        say("its sketch has lost part of what was seen; the intervals leave that out")
    if since is not None:
        say(f"moved: since version {since}; ! where that is beyond the interval")


def _row(each: "Weight", then: "Weight | None") -> tuple[str, ...]:
    moved = "" if then is None else f"{each.weight - then.weight:+.3g}"
    if then is not None and abs(each.weight - then.weight) > each.high - each.weight:
        moved += " !"
    return (
        each.name + (" *" if each.shared else ""),
        f"{each.weight:+.4g}",
        f"{each.low:+.4g} to {each.high:+.4g}",
        f"{100 * each.unknown:.0f} %",
        moved,
    )


def _base(recipe: "Recipe", state: bytes) -> "Base":
    from fedbandit.core.statistics import Base
    from fedbandit.service.bookkeeping.recipes import server_at

    return Base(server_at(recipe, state).statistics, recipe.parts.memory)


def _found(recipe: "Recipe", base: "Base", terms: Terms | None) -> "list[Weight]":
    from fedbandit.core.parts.radius import Evidence
    from fedbandit.core.weights import noise_of, weights_of

    known = base.statistics
    evidence = Evidence(base.theta, known.moment, known.count, known.rewards)
    return weights_of(
        base.reading,
        base.theta,
        ridge=recipe.parts.memory.ridge,
        noise=noise_of(base),
        radius=recipe.parts.radius(base.reading, evidence),
        terms=terms,
    )


def _terms(path: Path, dimension: int) -> Terms:
    """Read place and sign of every term, by name; raise DataError for anything else."""
    try:
        given = json.loads(path.read_bytes())
        terms = {str(name): (int(place), float(sign)) for name, (place, sign) in given.items()}
        fits = all(0 <= place < dimension and sign in (-1.0, 1.0) for place, sign in terms.values())
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _unreadable(path, str(error)) from error
    if not terms or not fits:
        raise _unreadable(path, f"places of a model of {dimension} dimensions were expected")
    return terms


def _unreadable(path: Path, why: str) -> DataError:
    fix = "Write it on a device: json.dump(agent.encoder.terms(), file)."
    return DataError(f"--names: {path} cannot be used: {why}. {fix}")


WEIGHTS = Command("weights", "Show what a model has learned, with intervals.", _define, _weights)
