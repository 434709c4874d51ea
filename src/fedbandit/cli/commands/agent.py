"""``fedbandit agent``: what the agents of a model have sent, and how to be rid of it."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_audit, add_store, audited, opened_store
from fedbandit.cli.reporting import add_json, report, say
from fedbandit.cli.table import show_table
from fedbandit.cli.values import when
from fedbandit.errors import DataError, nearest, unknown

if TYPE_CHECKING:
    from fedbandit.service.bookkeeping.deduplication import MergedUploads

EXAMPLE = """\
fedbandit agent list news
fedbandit agent quarantine news phone-7
fedbandit agent release news phone-7
fedbandit agent forget news phone-7 --yes"""


def _model(add: Add) -> None:
    add("model", metavar="MODEL", help="name of the model")
    add_store(add)
    add_json(add)


def _define(add: Add) -> None:
    _model(add)
    add("agent", metavar="AGENT", help="name of the agent")
    add_audit(add)


def _list(arguments: Namespace) -> None:
    with opened_store(arguments) as store:
        model, agents = store.model(arguments.model), store.agents(arguments.model)
    heaviest = sorted(agents.items(), key=lambda item: (-item[1].mass, item[0]))
    report(
        arguments,
        lambda: {"agents": [_counted(name, each, model.mass) for name, each in heaviest]},
        lambda: _show_agents(heaviest, model.mass),
    )


def _counted(name: str, agent: "MergedUploads", mass: float) -> dict[str, object]:
    return {
        "agent": name,
        "uploads": agent.uploads,
        "observations": agent.observations,
        "share": agent.mass / mass if mass else 0.0,
        "first_seen": agent.since if agent.uploads else None,
        "last_seen": agent.seen if agent.uploads else None,
        "quarantined": agent.quarantined,
    }


def _show_agents(heaviest: "Sequence[tuple[str, MergedUploads]]", mass: float) -> None:
    rows = [
        (
            name,
            f"{each.uploads}",
            f"{each.observations}",
            f"{each.mass / mass if mass else 0.0:.3f}",
            when(each.since) if each.uploads else "",
            when(each.seen) if each.uploads else "",
            "quarantined" if each.quarantined else "",
        )
        for name, each in heaviest
    ]
    header = ("agent", "uploads", "observations", "share", "first seen", "last seen", "")
    show_table("Agents, the heaviest first", header, rows)


def _quarantine(arguments: Namespace) -> None:
    _set_quarantine(arguments, on=True)


def _release(arguments: Namespace) -> None:
    _set_quarantine(arguments, on=False)


def _set_quarantine(arguments: Namespace, *, on: bool) -> None:
    from fedbandit.service.models.undo import quarantine
    from fedbandit.terms import check_name

    model, agent = arguments.model, check_name("agent", arguments.agent)
    with opened_store(arguments) as store:
        agents = store.agents(model)
        if not on and agent not in agents:
            raise unknown("agent", agent, agents)
        with store.lock(model) as locked:
            quarantine(locked, agent, on=on)
    what = "agent quarantined" if on else "agent released"
    audited(arguments, what, model=model, agent=agent)
    done = "released; what it sends is merged again"
    if on:
        done = "quarantined; nothing of it is merged until fedbandit agent release"
        done += _unheard(model, agent, agents)
    report(
        arguments,
        lambda: {"model": model, "agent": agent, "quarantined": on},
        lambda: say(f"{agent} of {model}: {done}"),
    )


def _unheard(model: str, agent: str, agents: "Mapping[str, MergedUploads]") -> str:
    """Return what to say of an agent that never sent anything: its name may be misspelt."""
    if agent in agents and agents[agent].lives:
        return ""
    meant = nearest(agent, [each for each in agents if agents[each].lives])
    fix = f"Did you mean {meant!r}?" if meant else f"See fedbandit agent list {model}."
    return f". It has sent nothing yet. {fix}"


def _define_forget(add: Add) -> None:
    _define(add)
    add("--yes", action="store_true", help="confirm: what is taken out cannot be put back")


def _forget(arguments: Namespace) -> None:
    from fedbandit.service.models.undo import forget_agent

    agent, model = arguments.agent, arguments.model
    with opened_store(arguments) as store:
        _check_sent(model, agent, store.agents(model))
        with store.lock(model) as locked:
            if not arguments.yes:
                raise DataError(
                    f"Taking {agent} out of {model} cannot be undone, and drops snapshots that "
                    "hold some of what it sent. Add --yes to confirm."
                )
            version, undone = locked.model.version + 1, locked.model.set_back
            gone = forget_agent(locked, agent)
    count = gone.observations
    audited(arguments, "agent forgotten", model=model, agent=agent, observations=count)

    def show() -> None:
        say(f"{model}: {count} observations of {agent} taken out, now version {version}")
        if gone.left:
            most = "up to " if undone else ""  # some may have been taken out with others'
            left = f"{most}{gone.left} more were merged before parts were kept"
            say(f"{left}, and stay in the model")

    found = {"model": model, "agent": agent, "version": version}
    found |= {"observations_taken_out": count, "observations_left": gone.left}
    report(arguments, lambda: found, show)


def _check_sent(model: str, agent: str, agents: "Mapping[str, MergedUploads]") -> None:
    """Raise a LocalError for an agent of which there is nothing to take out."""
    if agent not in agents:
        raise unknown("agent", agent, agents)
    if not agents[agent].uploads:
        raise DataError(
            f"Nothing that {agent} sent can be taken out of {model}: it sent nothing since it was "
            f"forgotten, or ever. See fedbandit agent list {model}."
        )


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
