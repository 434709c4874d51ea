"""``fedbandit model``: the models that a coordinator serves, managed in its store."""

import json
import sys
import time
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandit.cli.command import Command
from fedbandit.cli.options import positive, whole_number
from fedbandit.cli.stores import add_store, opened
from fedbandit.cli.table import show_table
from fedbandit.cli.verbs import Verb, define_verbs, execute_verb
from fedbandit.errors import DataError, InvalidParameter, OutputError, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe
    from fedbandit.service.storage.contract import Model

_OWN_OPTION = {
    "dimension": "--dimension",
    "sketch_size": "--sketch-size",
    "agents": "--agents",
}
EXAMPLE = """\
fedbandit model create news --dimension 100 --sketch-size 40
fedbandit model list
fedbandit model show news
fedbandit model export news --out news.model
fedbandit model import news.model --as news2
fedbandit model delete news --yes"""


def _name(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument("name", metavar="NAME", help="name of the model"),
        add_store(parser),
    ]


def _define_create(parser: ArgumentParser) -> list[Action]:
    add = parser.add_argument
    return [
        *_name(parser),
        add("--recipe", default="FSCLB", metavar="NAME",
            help="FSCLB (default), FSCLB.lean or FedLinUCB"),
        add("--dimension", type=positive, required=True, metavar="N", help="length of an arm"),
        add("--sketch-size", type=_size, metavar="N", help="size of a sketch, or auto (FSCLB)"),
        add("--agents", type=positive, default=100, metavar="N", help="expected (default: 100)"),
        add("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE",
            help="another parameter of the recipe, as in --set alpha=2 --set radius=0.3"),
        add("--max-arm-norm", type=float, metavar="L", help="longest arm (default: 1e6)"),
        add("--max-reward", type=float, metavar="R", help="largest reward in size (default: 1e6)"),
        add("--max-count", type=whole_number, metavar="N",
            help="observations an upload may stand for (default: 1e9)"),
    ]  # fmt: skip


def _size(text: str) -> int | str:
    return text if text == "auto" else positive(text)


def _create(arguments: Namespace) -> None:
    from fedbandit.service.models.model import DEFAULT_LIMITS, new_model, recipe_named
    from fedbandit.wire import Limits

    _check_settings(arguments.set)
    params: dict[str, Any] = {"dimension": arguments.dimension, "agents": arguments.agents}
    if arguments.sketch_size is not None:
        params["sketch_size"] = arguments.sketch_size
    recipe = recipe_named(arguments.recipe, params | dict(arguments.set))
    _check_size(recipe)
    limits = Limits(
        arm_norm=_given(arguments.max_arm_norm, DEFAULT_LIMITS.arm_norm),
        reward=_given(arguments.max_reward, DEFAULT_LIMITS.reward),
        count=int(_given(arguments.max_count, DEFAULT_LIMITS.count)),
    )
    model, state = new_model(arguments.name, recipe, limits=limits)
    with opened(arguments, create=True) as store:
        store.create(model, state)
    print(f"{model.name}: {recipe!r}, fingerprint {model.fingerprint}")


def _check_settings(given: Sequence[tuple[str, Any]]) -> None:
    """Refuse --set for what has an option: given both ways, one would be dropped in silence."""
    for name, value in given:
        if name in _OWN_OPTION:
            fix = f"Write {_OWN_OPTION[name]} {value}."
            got, expected = f"{name}={value}", "a parameter without an option of its own"
            raise InvalidParameter(complaint("--set", got=got, expected=expected, fix=fix))


def _define_list(parser: ArgumentParser) -> list[Action]:
    return [add_store(parser)]


def _list(arguments: Namespace) -> None:
    with opened(arguments) as store:
        models = store.models()
    rows = [
        (each.name, each.recipe, each.fingerprint, f"{each.version}", f"{each.count}")
        for each in models
    ]
    show_table("Models", ("name", "recipe", "fingerprint", "uploads", "observations"), rows)


def _show(arguments: Namespace) -> None:
    from fedbandit.service.models.model import recipe_of

    with opened(arguments) as store:
        archive = store.archive(arguments.name)
    model = archive.model
    print(f"{model.name}: {recipe_of(model)!r}")
    print(f"fingerprint {model.fingerprint}, made {_when(model.created)}")
    limits = model.limits
    print(f"limits: arm norm {limits.arm_norm:g}, reward {limits.reward:g}, count {limits.count}")
    print(
        f"{model.version} uploads of {model.count} observations; state {len(archive.state)} bytes"
    )
    rows = [
        (agent, f"{each.uploads}", f"{each.observations}", f"{each.received}", f"{each.known}",
         _when(each.seen))
        for agent, each in sorted(archive.merged.items())
    ]  # fmt: skip
    show_table("Agents", ("agent", "uploads", "observations", "bytes", "lives", "last"), rows)


def _define_delete(parser: ArgumentParser) -> list[Action]:
    sure = parser.add_argument("--yes", action="store_true", help="do it: nothing brings it back")
    return [*_name(parser), sure]


def _delete(arguments: Namespace) -> None:
    with opened(arguments) as store:
        model = store.model(arguments.name)
        if not arguments.yes:
            got = f"no --yes, for {model.version} uploads of {model.count} observations"
            fix = f"Export it first: fedbandit model export {model.name} --out FILE."
            raise DataError(complaint("delete", got=got, expected="--yes", fix=fix))
        store.delete(arguments.name)
    print(f"{model.name}: deleted, with {model.version} uploads and its tokens")


def _define_export(parser: ArgumentParser) -> list[Action]:
    out = parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file to write; must not exist"
    )
    return [*_name(parser), out]


def _export(arguments: Namespace) -> None:
    from fedbandit.service.models.archive import archive_bytes

    with opened(arguments) as store:
        data = archive_bytes(store.archive(arguments.name))
    try:
        with arguments.out.open("xb") as file:
            file.write(data)
    except OSError as error:
        got, fix = f"{error}", "Choose another file."
        message = complaint("export", got=got, expected="a new file", fix=fix)
        raise OutputError(message) from error
    print(f"{arguments.out}: {len(data):,} bytes, model {arguments.name}")


def _define_import(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument("file", type=Path, metavar="FILE", help="what export wrote"),
        parser.add_argument(
            "--as",
            dest="name",
            metavar="NAME",
            help="another name for it; then the file's tokens, each for the model of its old name, "
            "are left out: make new ones with fedbandit token create",
        ),
        add_store(parser),
    ]


def _import(arguments: Namespace) -> None:
    from fedbandit.service.models.archive import read_archive
    from fedbandit.service.models.model import check_name

    if arguments.name is not None:
        check_name("model", arguments.name)
    try:
        data = arguments.file.read_bytes()
    except OSError as error:
        got, fix = f"{error}", "Look at the path."
        message = complaint("import", got=got, expected="a file to read", fix=fix)
        raise DataError(message) from error
    archive = read_archive(data, name=arguments.name)
    left = 0
    if arguments.name is not None:
        left = len(read_archive(data).tokens) - len(archive.tokens)
    with opened(arguments, create=True) as store:
        store.install(archive)
    _say_imported(archive.model, kept=len(archive.tokens), left=left)


def _say_imported(model: "Model", *, kept: int, left: int) -> None:
    print(f"{model.name}: {model.version} uploads, {_tokens(kept)}", file=sys.stderr)
    if left:
        why = f"{_tokens(left)} of the file left out: a token opens the model of its own name alone"
        print(f"{why}. Make new ones: fedbandit token create {model.name} AGENT", file=sys.stderr)


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; a value that is no JSON is a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ArgumentTypeError(f"got {text!r}; expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _check_size(recipe: "Recipe") -> None:
    """Refuse a model whose state no agent would read to its end."""
    from fedbandit.client.transport import LARGEST_ANSWER
    from fedbandit.core.memory.summary import Sketch
    from fedbandit.wire import WIDTH

    d, held = recipe.dimension, recipe.parts.memory.empty()
    size = WIDTH * d * (held.size if isinstance(held, Sketch) else d + 1)
    if size > LARGEST_ANSWER:
        got, expected = f"a state of {size:,} bytes", f"at most {LARGEST_ANSWER:,}, as agents read"
        fix = "Choose a smaller dimension or sketch size."
        raise InvalidParameter(complaint("model", got=got, expected=expected, fix=fix))


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_VERBS = (
    Verb("create", "Make a model.", _define_create, _create),
    Verb("list", "List the models.", _define_list, _list),
    Verb("show", "Show a model and its agents.", _name, _show),
    Verb("delete", "Delete a model, its merged uploads and its tokens.", _define_delete, _delete),
    Verb("export", "Write a model to a file.", _define_export, _export),
    Verb("import", "Read a model from a file.", _define_import, _import),
)

MODEL = Command(
    name="model",
    summary="Create, list, show, delete, export and import the models of a coordinator.",
    example=EXAMPLE,
    define=define_verbs(_VERBS),
    execute=execute_verb(_VERBS),
    extra="service",
)
