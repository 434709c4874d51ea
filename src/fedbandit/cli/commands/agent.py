"""``fedbandit agent``: what the agents of a model have sent, and how to be rid of it."""

from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_store, opened_store
from fedbandit.cli.table import show_table
from fedbandit.cli.values import when
from fedbandit.errors import DataError

EXAMPLE = """\
fedbandit agent list news
fedbandit agent quarantine news phone-7
fedbandit agent release news phone-7
fedbandit agent forget news phone-7 --yes"""


def _model(add: Add) -> None:
    add("model", metavar="MODEL", help="name of the model")
    add_store(add)


def _define(add: Add) -> None:
    _model(add)
    add("agent", metavar="AGENT", help="name of the agent")


def _list(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        model, agents = store.model(arguments.model), store.agents(arguments.model)
    rows = [
        (
            name,
            f"{each.uploads}",
            f"{each.observations}",
            f"{each.mass / model.mass if model.mass else 0.0:.3f}",
            when(each.since) if each.uploads else "",
            when(each.seen) if each.uploads else "",
            "quarantined" if each.quarantined else "",
        )
        for name, each in sorted(agents.items(), key=lambda item: (-item[1].mass, item[0]))
    ]
    header = ("agent", "uploads", "observations", "share", "first seen", "last seen", "")
    show_table("Agents, the heaviest first", header, rows)


def _quarantine(arguments: Namespace) -> None:
    _set_quarantine(arguments, on=True)
    who = f"{arguments.agent} of {arguments.model}"
    print(f"{who}: quarantined; nothing of it is merged until fedbandit agent release")


def _release(arguments: Namespace) -> None:
    _set_quarantine(arguments, on=False)
    print(f"{arguments.agent} of {arguments.model}: released; what it sends is merged again")


def _set_quarantine(arguments: Namespace, *, on: bool) -> None:
    from fedbandit.service.models.undo import quarantine
    from fedbandit.terms import check_name

    check_name("agent", arguments.agent)
    with opened_store(arguments) as store, store.lock(arguments.model) as locked:
        quarantine(locked, arguments.agent, on=on)


def _define_forget(add: Add) -> None:
    _define(add)
    add("--yes", action="store_true", help="confirm: what is taken out cannot be put back")


def _forget(arguments: Namespace) -> None:
    from fedbandit.service.models.undo import forget_agent

    agent, model = arguments.agent, arguments.model
    with opened_store(arguments) as store, store.lock(model) as locked:
        if not arguments.yes:
            raise DataError(
                f"Taking {agent} out of {model} cannot be undone, and drops snapshots that hold "
                "some of what it sent. Add --yes to confirm."
            )
        version = locked.model.version + 1
        gone = forget_agent(locked, agent)
    print(f"{model}: {gone.observations} observations of {agent} taken out, now version {version}")
    if gone.left:
        print(f"{gone.left} more were merged before parts were kept, and stay in the model")


AGENT = Command(
    name="agent",
    summary="List, quarantine, release and forget the agents of a model.",
    example=EXAMPLE,
    extra="service",
    verbs=(
        Command("list", "List the agents of a model, the heaviest first.", _model, _list),
        Command("quarantine", "Merge nothing more of an agent.", _define, _quarantine),
        Command("release", "Merge again what an agent sends.", _define, _release),
        Command("forget", "Take out all that an agent sent.", _define_forget, _forget),
    ),
)
