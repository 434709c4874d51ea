"""``fedbandit model set``, ``history``, ``rollback`` and ``forget``."""

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.models.rules import (
    add_rules,
    groups_from,
    history_from,
    limits_from,
    quotas_from,
    rules_text,
)
from fedbandit.cli.options import (
    add_changed_model,
    add_model,
    audited,
    opened_store,
)
from fedbandit.cli.reporting import report, say
from fedbandit.cli.table import show_table
from fedbandit.cli.values import version
from fedbandit.errors import DataError

if TYPE_CHECKING:
    from fedbandit.service.storage.contract import Locked


def _define_set(add: Add) -> None:
    add_changed_model(add)
    add_rules(add, new=False)


def _set(arguments: Namespace) -> None:
    from fedbandit.service.bookkeeping.history import check_history
    from fedbandit.service.bookkeeping.quotas import USUAL_QUOTAS, check_quotas
    from fedbandit.service.models.undo import set_history
    from fedbandit.terms import check_limits

    with opened_store(arguments) as store, store.lock(arguments.name) as locked:
        model = locked.model
        quotas = check_quotas(quotas_from(arguments, model.quotas))
        limits = check_limits(limits_from(arguments, model.limits, quotas))
        history = check_history(history_from(arguments, model.history))
        set_history(locked, history)
        locked.set_rules(limits=limits, quotas=quotas, history=history, relays=arguments.relays)
        if arguments.groups is not None:
            _set_groups(locked, arguments.groups)
        model = locked.model
    audited(arguments, "model set", model=arguments.name)

    def show() -> None:
        for line in rules_text(model):
            say(line, indent="  ")

    found = {"model": arguments.name, "limits": limits, "quotas": quotas, "history": history}
    report(arguments, lambda: {**found, "groups": model.groups, "watched": model.watched}, show)
    if arguments.relays and model.quotas.uploads == USUAL_QUOTAS.uploads:
        print("a relay sends for many agents; set --hourly-uploads none", file=sys.stderr)


def _set_groups(locked: "Locked", given: int | str) -> None:
    """Sort agents anew, unless they are sorted so; groups of before are weighed once set."""
    from fedbandit.service.models.model import recipe_of
    from fedbandit.service.models.undo import set_groups

    model = locked.model
    groups, watched = groups_from(given, dimension=recipe_of(model).dimension)
    if (groups, groups > 0, watched) != (model.groups, model.weighed, model.watched):
        set_groups(locked, groups, watched=watched)


def _history(arguments: Namespace) -> None:
    from fedbandit.cli.values import when

    with opened_store(arguments) as store, store.lock(arguments.name) as locked:
        model, snapshots = locked.model, locked.past.snapshots()

    def show() -> None:
        rows = [
            (f"{each.version}", when(each.at), f"{each.count}", f"{each.size}")
            for each in snapshots
        ]
        show_table("Snapshots", ("version", "taken", "observations", "bytes"), rows)
        undone = f", something was last taken out at {model.set_back}" if model.set_back else ""
        say(f"now: version {model.version}, {model.count} observations{undone}")

    def found() -> dict[str, object]:
        kept = [
            {"version": each.version, "taken": each.at, "observations": each.count}
            | {"bytes": each.size}
            for each in snapshots
        ]
        now = {"version": model.version, "observations": model.count, "set_back": model.set_back}
        return {"model": arguments.name, "snapshots": kept, "now": now}

    report(arguments, found, show)


def _define_rollback(add: Add) -> None:
    add_changed_model(add)
    told = "version of a snapshot, as fedbandit model history shows it"
    add("version", type=version, metavar="VERSION", help=told)
    _confirm(add)


def _rollback(arguments: Namespace) -> None:
    from fedbandit.service.models.undo import roll_back

    name, to = arguments.name, arguments.version
    with opened_store(arguments) as store, store.lock(name) as locked:
        locked.past.snapshot_state(to)  # it is there
        _check_confirmed(arguments, f"Rolling {name} back to version {to}")
        (kept,) = (each for each in locked.past.snapshots() if each.version == to)
        roll_back(locked, to)
        gone, made = locked.model.count - kept.count, locked.model.version + 1
    audited(arguments, "model rolled back", model=name, version=made, to=to)
    said = f"{name}: as it was at version {to}, now version {made}"
    report(
        arguments,
        lambda: {"model": name, "as_at": to, "version": made, "observations_taken_out": gone},
        lambda: say(f"{said}; {gone} observations taken out"),
    )


def _define_forget(add: Add) -> None:
    add_changed_model(add)
    told = "take out what was merged after this version: that of a snapshot, or 0"
    add("--after", type=version, required=True, metavar="VERSION", help=told)
    told = "and up to this one: that of a later snapshot (default: the present one)"
    add("--upto", type=version, metavar="VERSION", help=told)
    _confirm(add)


def _forget(arguments: Namespace) -> None:
    from fedbandit.service.models.undo import check_span, forget_span

    name, after = arguments.name, arguments.after
    with opened_store(arguments) as store, store.lock(name) as locked:
        before = locked.model.version
        upto = before if arguments.upto is None else arguments.upto
        check_span(locked, after=after, upto=upto)
        _check_confirmed(arguments, f"Taking versions {after + 1} to {upto} out of {name}")
        gone = forget_span(locked, after=after, upto=upto)
    audited(arguments, "model forgot", model=name, after=after, upto=upto, observations=gone)
    report(
        arguments,
        lambda: {"model": name, "observations_taken_out": gone, "version": before + 1},
        lambda: say(f"{name}: {gone} observations taken out, now version {before + 1}"),
    )


def _confirm(add: Add) -> None:
    add("--yes", action="store_true", help="confirm: what is taken out cannot be put back")


def _check_confirmed(arguments: Namespace, what: str) -> None:
    if not arguments.yes:
        raise DataError(
            f"{what} cannot be undone. Add --yes to confirm; to keep a copy, first: "
            f"fedbandit model export {arguments.name} --out FILE."
        )


PAST_VERBS = (
    Command("set", "Change limits, quotas and history of a model.", _define_set, _set),
    Command("history", "List the snapshots of a model.", add_model, _history),
    Command("rollback", "Set a model back to a snapshot.", _define_rollback, _rollback),
    Command("forget", "Take out all that was merged in some time.", _define_forget, _forget),
)
