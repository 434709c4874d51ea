"""``fedbandit model``: the models that a coordinator serves, managed in its store."""

import inspect
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Add, Command
from fedbandit.cli.models.past import PAST_VERBS
from fedbandit.cli.models.rules import (
    add_rules,
    advice,
    groups_from,
    history_from,
    limits_from,
    quotas_from,
)
from fedbandit.cli.models.show import identity, show
from fedbandit.cli.models.warm import WARM
from fedbandit.cli.models.weights import WEIGHTS
from fedbandit.cli.options import (
    add_audit,
    add_changed_model,
    add_model,
    add_store,
    audited,
    opened_store,
)
from fedbandit.cli.reporting import add_json, report, say
from fedbandit.cli.settings import add_set, settings
from fedbandit.cli.table import show_table
from fedbandit.cli.values import positive, positive_or_auto
from fedbandit.errors import (
    DataError,
    InvalidParameter,
    InvalidState,
    OutputError,
    complaint,
    unknown,
)

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.service.storage.contract import Model

RECIPES = ("FSCLB.lean", "FSCLB", "FedLinUCB")
_OWN_OPTION = {
    "dimension": "--dimension",
    "sketch_size": "--sketch-size",
    "agents": "--agents",
}
EXAMPLE = """\
fedbandit model create news --dimension 100
fedbandit model create shop --dimension 100 --set alpha=2 --set radius=0.3
fedbandit model create paper --dimension 100 --recipe FSCLB --sketch-size 40
fedbandit model list
fedbandit model show news
fedbandit model weights news --names names.json --top 10
fedbandit model export news --out news.model
fedbandit model import news.model --as news2
fedbandit model warm news decisions/
fedbandit model set news --hourly-uploads 60 --max-share 0.05
fedbandit model history news
fedbandit model rollback news 1200 --yes
fedbandit model delete news --yes"""


def _define_list(add: Add) -> None:
    add_store(add)
    add_json(add)


def _define_create(add: Add) -> None:
    add_changed_model(add)
    told = "FSCLB.lean (default: few bytes), FSCLB (the paper's) or FedLinUCB (whole matrices)"
    add("--recipe", metavar="NAME", help=told)
    add("--dimension", type=positive, required=True, metavar="D", help="features of an arm")
    told = "size of a sketch, from 2 to D + 1, or auto (default; FSCLB needs one)"
    add("--sketch-size", type=positive_or_auto, metavar="L", help=told)
    told = "agents expected; the papers' radii depend on it (default: 100)"
    add("--agents", type=positive, default=100, metavar="N", help=told)
    add_set(add, of="the recipe", topic="recipes")
    add_rules(add, new=True)


def _create(arguments: Namespace) -> None:
    from fedbandit.service.bookkeeping.history import HOURLY
    from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, USUAL_QUOTAS, check_quotas
    from fedbandit.service.models.model import DEFAULT_LIMITS, new_model

    recipe = _recipe(arguments)
    _check_size(recipe)
    usual = NO_QUOTAS if arguments.relays else USUAL_QUOTAS  # a relay sends for many
    quotas = check_quotas(quotas_from(arguments, usual))
    limits = limits_from(arguments, DEFAULT_LIMITS, quotas, dimension=recipe.dimension)
    history = history_from(arguments, HOURLY)
    groups, watched = groups_from(arguments.groups, dimension=recipe.dimension)
    model, state = new_model(
        arguments.name,
        recipe,
        limits=limits,
        quotas=quotas,
        history=history,
        groups=groups,
        relays=arguments.relays or 0,
        watched=watched,
    )
    with opened_store(arguments, create=True) as store:
        store.create(model, state)
    audited(arguments, "model created", model=model.name)
    report(
        arguments,
        lambda: identity(model, recipe),
        lambda: say(f"{model.name}: {recipe!r}, fingerprint {model.fingerprint}", indent="  "),
    )
    for line in advice(
        limits,
        quotas,
        agents=recipe.agents,
        groups=groups,
        watched=watched,
        relays=model.relays,
    ):
        print(line, file=sys.stderr)


def _recipe(arguments: Namespace) -> "Recipe":
    from fedbandit.core.algorithms.catalogue import RECIPES as ALL
    from fedbandit.parameters import build

    given = settings(arguments.settings)
    _check_settings(given)
    name = arguments.recipe or _suited(given)
    if name not in ALL:
        raise unknown("recipe", name, RECIPES)
    params = {"dimension": arguments.dimension, "agents": arguments.agents}
    if arguments.sketch_size is not None:
        params["sketch_size"] = arguments.sketch_size
    elif _requires(ALL[name], "sketch_size"):
        paper = max(2, round(0.4 * arguments.dimension))
        advice = f"--sketch-size {paper} (0.4 D, the paper's choice) or --sketch-size auto"
        raise InvalidParameter(f"{name} needs a sketch size. Add {advice}.")
    return build(ALL[name], {**params, **given}, place=name)


def _suited(given: Mapping[str, Any]) -> str:
    """Return FSCLB.lean, or FSCLB if something is set that only it has."""
    from fedbandit.core.algorithms.fsclb import FSCLB

    whole, lean = (inspect.signature(build).parameters.keys() for build in (FSCLB, FSCLB.lean))
    papers = given.keys() & (whole - lean) or given.get("radius") == "paper"
    return "FSCLB" if papers else "FSCLB.lean"


def _requires(factory: Callable[..., object], name: str) -> bool:
    parameter = inspect.signature(factory).parameters.get(name)
    return parameter is not None and parameter.default is parameter.empty


def _check_settings(given: Mapping[str, Any]) -> None:
    """Refuse --set for a parameter that has an option of its own: it could contradict that."""
    for name in given.keys() & _OWN_OPTION.keys():
        fix = f"Write {_OWN_OPTION[name]} {given[name]}."
        got, expected = f"{name}={given[name]}", "a parameter without an option of its own"
        raise InvalidParameter(complaint("--set", got=got, expected=expected, fix=fix))


def _list(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        models = store.models()
    header = ("name", "recipe", "fingerprint", "uploads", "observations")
    rows = [
        (each.name, _label(each), each.fingerprint, each.version, each.count) for each in models
    ]
    report(
        arguments,
        lambda: {"models": [dict(zip(header, row, strict=True)) for row in rows]},
        lambda: show_table("Models", header, [tuple(map(str, row)) for row in rows]),
    )


def _label(model: "Model") -> str:
    """Return what a model's recipe is called; its name alone if this version cannot build it."""
    from fedbandit.service.models.model import recipe_of

    try:
        return recipe_of(model).label
    except InvalidState:
        return model.recipe


def _define_delete(add: Add) -> None:
    add_changed_model(add)
    add("--yes", action="store_true", help="confirm: a deleted model cannot be restored")


def _delete(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        model = store.model(arguments.name)
        if not arguments.yes:
            lost = f"{model.version} uploads of {model.count} observations"
            raise DataError(
                f"Deleting {model.name} loses {lost} for good. Add --yes to confirm; to keep a "
                f"copy, first: fedbandit model export {model.name} --out FILE."
            )
        store.delete(arguments.name)
    audited(arguments, "model deleted", model=model.name)
    report(
        arguments,
        lambda: {"model": model.name, "deleted_uploads": model.version},
        lambda: print(f"{model.name}: deleted, with {model.version} uploads and its tokens"),
    )


def _define_export(add: Add) -> None:
    add_changed_model(add)
    add("--out", type=Path, required=True, metavar="FILE", help="new file to write")


def _export(arguments: Namespace) -> None:
    from fedbandit.service.models.archive import archive_bytes

    with opened_store(arguments) as store:
        data = archive_bytes(store.archive(arguments.name))
    try:
        # of its owner alone: hashes of tokens are in it
        with open(arguments.out, "xb", opener=lambda path, how: os.open(path, how, 0o600)) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"export: cannot write: {error}. Choose another file.") from error
    audited(arguments, "model exported", model=arguments.name, bytes=len(data))
    report(
        arguments,
        lambda: {"model": arguments.name, "file": arguments.out, "bytes": len(data)},
        lambda: print(f"{arguments.out}: {len(data):,} bytes, model {arguments.name}"),
    )


def _define_import(add: Add) -> None:
    add("file", type=Path, metavar="FILE", help="file that fedbandit model export wrote")
    add(
        "--as",
        dest="name",
        metavar="NAME",
        help="name to import it under (default: the name it had); under another name it comes "
        "without its tokens: make new ones with fedbandit token create",
    )
    _define_list(add)
    add_audit(add)


def _import(arguments: Namespace) -> None:
    from fedbandit.service.models.archive import read_archive
    from fedbandit.terms import check_name

    if arguments.name is not None:
        check_name("model", arguments.name)
    try:
        data = arguments.file.read_bytes()
    except OSError as error:
        raise DataError(f"import: cannot read: {error}. Check the path.") from error
    archive = read_archive(data, name=arguments.name)
    left = 0
    if arguments.name is not None:
        left = len(read_archive(data).tokens) - len(archive.tokens)
    with opened_store(arguments, create=True) as store:
        store.install(archive)
    audited(arguments, "model imported", model=archive.model.name, tokens=len(archive.tokens))
    model, kept = archive.model, len(archive.tokens)
    report(
        arguments,
        lambda: {
            "model": model.name,
            "uploads": model.version,
            "tokens": kept,
            "tokens_left_out": left,
        },
        lambda: _say_imported(model, kept=kept, left=left),
    )


def _say_imported(model: "Model", *, kept: int, left: int) -> None:
    print(f"{model.name}: {model.version} uploads, {_tokens(kept)}", file=sys.stderr)
    if left:
        why = f"{_tokens(left)} of the file left out: a token is valid for one model name only"
        print(f"{why}. Make new ones: fedbandit token create {model.name} AGENT", file=sys.stderr)


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _check_size(recipe: "Recipe") -> None:
    """Refuse a model whose state is larger than the largest answer that an agent reads."""
    from fedbandit.client.transport import LARGEST_ANSWER
    from fedbandit.core.memory.lossy.memory import LossyMemory
    from fedbandit.core.memory.summary import Sketch
    from fedbandit.wire import WIDTH

    d, memory = recipe.dimension, recipe.parts.memory
    if isinstance(memory, LossyMemory):
        rows = memory.server_size
    else:
        held = memory.empty().summary
        rows = held.size if isinstance(held, Sketch) else d + 1
    size = WIDTH * d * rows
    if size > LARGEST_ANSWER:
        got, expected = f"a state of {size:,} bytes", f"at most {LARGEST_ANSWER:,}"
        fix = "Choose a smaller dimension or sketch size."
        raise InvalidParameter(complaint("model", got=got, expected=expected, fix=fix))


MODEL = Command(
    name="model",
    summary="Create, change, list, show, set back and move the models of a coordinator.",
    example=EXAMPLE,
    extra="service",
    verbs=(
        Command("create", "Create a model.", _define_create, _create),
        Command("list", "List the models of a store.", _define_list, _list),
        Command("show", "Show a model and its agents.", add_model, show),
        Command("delete", "Delete a model and its tokens.", _define_delete, _delete),
        Command("export", "Write a model and its tokens to a file.", _define_export, _export),
        Command("import", "Add a model from a file.", _define_import, _import),
        WARM,
        WEIGHTS,
        *PAST_VERBS,
    ),
)
