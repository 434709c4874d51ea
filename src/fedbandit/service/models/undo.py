"""Taking back: snapshots and parts as uploads come in, rolling back, forgetting an agent or a time.

Whatever is taken out, the result gets a new, higher version: agents take it like any other
download, and keep what they have not delivered. Which uploads were merged stays noted, so that a
copy of one that was taken out is still a copy: nothing comes back by being sent again.

The state without some parts is the merge of the others, from nothing. For Gram matrices that is
their sum. For sketches it is a sketch of what the others sent, with its own bound on what it shed:
X^T X <= S^T S + shed I holds for the X of the others, as if nothing else had ever come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

from msgspec import structs

from fedbandit import wire
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Statistics
from fedbandit.errors import DataError, unknown
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import (
    History,
    Part,
    Snapshot,
    is_due,
    superfluous,
)
from fedbandit.service.bookkeeping.quotas import NOTHING_SPENT, mass_of, share_left
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.membership import (
    check_groups,
    closed_key,
    group_of,
    is_closed,
    key_for,
    key_of,
)
from fedbandit.service.groups.telling import told_moment
from fedbandit.service.groups.weighed import told_of
from fedbandit.service.models.model import recipe_of
from fedbandit.service.models.parts import (
    WHOLE,
    began,
    merged_parts,
    read_part,
    unattributed,
    unattributed_names,
)
from fedbandit.service.models.resorting import closed, summed, sums_of_states
from fedbandit.service.storage.contract import Locked

_FIRST = key_of(1, 0)  # keys of sums begin here; below it are states of groups of before
_ASKED = 64  # parts of whose agents a store is asked together


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many observations of an agent were taken out, and how many, at most, could not be."""

    observations: int
    left: int


def keep_snapshot(locked: Locked, now: float) -> None:
    """Keep what is stored as a snapshot if it is time for one; drop those that are too many."""
    model = locked.model
    if is_due(model.history, taken=model.snapshot, now=now):
        locked.past.take_snapshot(now)
        kept = locked.past.snapshots()
        locked.past.drop_snapshots(superfluous(kept, model.history, now=now))


def set_history(locked: Locked, history: History) -> None:
    """Change how the past is kept. Where parts are kept from now on, what is there is the first."""
    model = locked.model
    if not history.by_agent:
        locked.past.drop_parts(None, after=-1, upto=None)
    elif not model.history.by_agent and model.version:
        stored = locked.past.groups()
        groups = {} if model.weighed else stored
        locked.past.add_parts(unattributed(model.version, locked.state(), groups))
        if model.weighed:
            _replace_sums(locked, closed(stored), model.told)
    locked.set_rules(limits=model.limits, quotas=model.quotas, history=history)


def set_groups(locked: Locked, groups: int, *, watched: bool = False) -> None:
    """Sort agents into other groups from now on; the sums of those of before stay beside them.

    ``watched``: from eight groups on, with larger shares while none stands out.
    """
    if locked.relaying() is not None and groups:
        raise DataError(
            f"Model {locked.model.name} is passed on to a coordinator above: set groups there."
        )
    before, past, recipe = locked.model, locked.past, recipe_of(locked.model)
    check_groups(groups)
    locked.set_rules(
        limits=before.limits,
        quotas=before.quotas,
        history=before.history,
        groups=groups,
        watched=watched,
    )
    whole, stored = server_at(recipe, locked.state()), past.groups()
    sums: Mapping[int, bytes] = {}
    if groups and before.history.by_agent:
        sums = _sums_of_parts(locked, recipe)
    elif groups:
        sums = stored if before.weighed else sums_of_states(recipe, before.groups, stored, whole)
    _replace_sums(locked, sums, told_of(recipe, whole, sums, watched=watched))


def _replace_sums(locked: Locked, sums: Mapping[int, bytes], told: bytes) -> None:
    """Store other sums, under a new version: coordinators that run then read them."""
    model, past = locked.model, locked.past
    stored = past.groups()
    if not (stored or sums):
        return
    past.write_groups({**dict.fromkeys(stored, b""), **sums})
    whole, version = server_at(recipe_of(model), locked.state()), model.version + 1
    whole.adopt(whole.statistics, version=version)
    state = wire.encode(whole.whole())
    locked.write(state=state, version=version, count=model.count, merged={}, told=told)


def roll_back(locked: Locked, version: int) -> None:
    """Set the model back to a snapshot; later snapshots and parts are dropped."""
    _check_own(locked)
    state, past = locked.past.snapshot_state(version), locked.past
    recipe, groups = recipe_of(locked.model), locked.past.groups(version)
    _drop_later(past.snapshots(), past.drop_snapshots, version + 1)
    late = began(locked) > version
    past.drop_parts(None, after=version, upto=None)
    weighed = locked.model.weighed
    if not weighed:  # the snapshot may be from when they were
        groups = {number: state for number, state in groups.items() if number < _FIRST}
    if late and version:  # parts began after this snapshot
        past.add_parts(unattributed(version, state, {} if weighed else groups))
    statistics = server_at(recipe, state).statistics
    if weighed:
        if not groups or min(groups) < _FIRST:  # from before the groups were weighed
            groups = sums_of_states(recipe, 1, groups, server_at(recipe, state))
        _put(locked, recipe, statistics, sums=closed(groups) if late and version else groups)
    else:
        empty = wire.encode(recipe.server().whole())
        states = {number: groups.get(number, empty) for number in past.groups()}
        opened = {number: server_at(recipe, each) for number, each in states.items()}
        _put(locked, recipe, statistics, groups=opened)
    _scale_mass(locked, recipe, statistics)


def forget_agent(locked: Locked, agent: str) -> Forgotten:
    """Take out everything that an agent sent, and snapshots that hold some of it.

    Raises DataError if the model keeps no parts, UnknownName for an agent that sent nothing. What
    was merged before parts were kept stays, and is counted in the result.
    """
    _check_own(locked)
    _check_parts(locked)
    known = locked.merged_uploads([agent])[agent]
    if not known.uploads:
        names = {each.agent for each in locked.past.all_parts()}
        raise unknown("agent", agent, {name for name in names if name and name[0] != "/"})
    parts, past, recipe = locked.past.parts(agent), locked.past, recipe_of(locked.model)
    gone = sum(read_part(each).count for each in parts)
    if parts:
        _drop_later(past.snapshots(), past.drop_snapshots, parts[0].first)
    past.drop_parts(agent, after=-1, upto=None)
    blank = structs.replace(
        known,
        uploads=0,
        observations=0,
        received=0,
        mass=0.0,
        spent=NOTHING_SPENT,
        loose=0,
        rewards=0,
        reward_total=0.0,
        shadow=None,
    )
    whole, groups, sums = _rebuilt(locked, recipe)
    mass = max(mass_of(whole.summary) if known.mass else 0.0, locked.model.mass - known.mass)
    _put(locked, recipe, whole, groups=groups, sums=sums, merged={agent: blank}, mass=mass)
    return Forgotten(gone, min(known.observations - gone, _unattributed_count(locked)))


def _unattributed_count(locked: Locked) -> int:
    """Return how many observations are there of which it is not known who sent them."""
    parts = (part for name in unattributed_names() for part in locked.past.parts(name))
    return sum(read_part(part).count for part in parts)


def forget_span(locked: Locked, *, after: int, upto: int) -> int:
    """Take out all that was merged after one version and up to another; return its observations.

    Both are as ``check_span`` wants them. Later snapshots are dropped.
    """
    check_span(locked, after=after, upto=upto)
    past, model, recipe = locked.past, locked.model, recipe_of(locked.model)
    _drop_later(past.snapshots(), past.drop_snapshots, after + 1)
    past.drop_parts(None, after=after, upto=upto)
    whole, groups, sums = _rebuilt(locked, recipe)
    _put(locked, recipe, whole, groups=groups, sums=sums)
    _scale_mass(locked, recipe, whole)
    return model.count - whole.count


def check_span(locked: Locked, *, after: int, upto: int) -> None:
    """Raise a LocalError unless what was merged after one version, up to another, can be taken out.

    Both are versions of snapshots, 0, or the present version, and something is there between them.
    """
    _check_own(locked)
    _check_parts(locked)
    past = locked.past
    ends = {0, locked.model.version, *(each.version for each in past.snapshots())}
    for end in (after, upto):
        if end not in ends:
            raise unknown("version", str(end), map(str, sorted(ends)))
    if began(locked) > after:
        raise DataError(
            f"forget: what was merged up to version {began(locked)} is kept as one part. Choose "
            "a later version to begin with."
        )
    if not any(after < each.last <= upto for each in past.all_parts()):
        raise DataError(
            f"forget: nothing is there that was merged after version {after} and up to version "
            f"{upto}. Choose two versions that fedbandit model history {locked.model.name} shows, "
            "the earlier one first."
        )


def quarantine(locked: Locked, agent: str, *, on: bool = True) -> None:
    """Let nothing more of an agent be merged, or let it be merged again."""
    model, known = locked.model, locked.merged_uploads([agent])[agent]
    merged = {agent: structs.replace(known, quarantined=on)}
    locked.write(state=locked.state(), version=model.version, count=model.count, merged=merged)


def _put(
    locked: Locked,
    recipe: Recipe,
    statistics: Statistics,
    *,
    groups: Mapping[int, Server] | None = None,
    sums: Mapping[int, bytes] | None = None,
    merged: Mapping[str, MergedUploads] | None = None,
    mass: float | None = None,
) -> None:
    """Replace the state and those of the groups, or their sums, under the next version."""
    recipe.parts.memory.check(statistics, strict=True)
    version, whole, past = locked.model.version + 1, recipe.server(), locked.past
    whole.adopt(statistics, version=version)
    told = None
    if locked.model.weighed:
        told = told_of(recipe, whole, sums or {}, watched=locked.model.watched)
        past.write_groups({**dict.fromkeys(past.groups(), b""), **(sums or {})})
    elif groups:
        told = told_moment(recipe, whole, groups).astype("<f8").tobytes()
        past.write_groups({each: wire.encode(groups[each].whole()) for each in groups})
    locked.write(
        state=wire.encode(whole.whole()),
        version=version,
        count=statistics.count,
        merged=merged or {},
        mass=mass,
        set_back=version,
        told=told,
    )


def _scale_mass(locked: Locked, recipe: Recipe, left: Statistics) -> None:
    """Let what was taken out weigh no more in the shares of agents."""
    model = locked.model
    share = share_left(
        model.quotas,
        dimension=recipe.dimension,
        agents=recipe.agents,
        left=mass_of(left.summary),
        count=left.count,
        total=model.mass,
    )
    if share < 1.0:
        locked.past.scale_mass(share)


def opened_groups(recipe: Recipe, locked: Locked) -> dict[int, Server]:
    """Return the groups of a model, by number: those that something was merged into."""
    if not locked.model.groups or locked.model.weighed:
        return {}
    return {number: server_at(recipe, each) for number, each in locked.past.groups().items()}


def _rebuilt(
    locked: Locked, recipe: Recipe
) -> tuple[Statistics, dict[int, Server], dict[int, bytes]]:
    """Return the whole, and its groups or their sums, merged from the parts that are left."""
    model, past, groups = locked.model, locked.past, dict[int, Server]()

    def places(part: Part) -> tuple[int, ...]:
        if not model.groups or model.weighed:
            return (WHOLE,)
        return WHOLE, group_of(model.created, model.groups, part.agent)

    merged = merged_parts(recipe, past.all_parts, places)
    whole = merged.get(WHOLE, recipe.parts.memory.empty_server())
    if model.weighed:
        return whole, {}, _sums_of_parts(locked, recipe)
    empty = recipe.parts.memory.empty_server()
    for number in past.groups() if model.groups else ():
        groups[number] = recipe.server()
        groups[number].adopt(merged.get(number, empty), version=1)
    return whole, groups, {}


def _sums_of_parts(locked: Locked, recipe: Recipe) -> dict[int, bytes]:
    """Return the sums of groups, from parts; and those of before parts were kept, as they are."""
    past = locked.past
    sums = {key: data for key, data in past.groups().items() if key >= _FIRST and is_closed(key)}
    before = (
        [part for name in unattributed_names() for part in past.parts(name)] if not sums else []
    )
    old = ((closed_key(key_of(1, int(part.agent[1:] or 0))), read_part(part)) for part in before)
    return {**sums, **summed(recipe, chain(old, _by_group(locked)))}


def _by_group(locked: Locked) -> Iterator[tuple[int, Statistics]]:
    """Return what is in the parts of agents, each with the key of its group's sum."""
    known, model = dict[str, MergedUploads](), locked.model
    parts = (part for part in locked.past.all_parts() if part.agent and part.agent[0] != "/")
    while page := list(islice(parts, _ASKED)):
        known |= locked.merged_uploads({part.agent for part in page} - known.keys())
        for part in page:
            place = known[part.agent].place
            yield key_for(model.created, model.groups, part.agent, place), read_part(part)


def _check_own(locked: Locked) -> None:
    """Raise DataError for a relay's model: what was passed on would come back from above."""
    if locked.relaying() is not None:
        name = locked.model.name
        raise DataError(
            f"Model {name} is passed on to a coordinator above, and what has been passed on would "
            "come back from there. Take it out there: this relay is one agent of it, and goes or "
            "stays as a whole. Here an agent can be kept out from now on: fedbandit agent "
            f"quarantine {name} AGENT."
        )


def _check_parts(locked: Locked) -> None:
    name = locked.model.name
    if not locked.model.history.by_agent:
        raise DataError(
            f"Model {name} does not keep what each agent sent, so that neither an agent nor a time "
            f"can be taken out. Roll back to before (fedbandit model history {name}), or keep "
            f"parts from now on: fedbandit model set {name} --keep-parts."
        )


def _drop_later(
    snapshots: Iterable[Snapshot], drop: Callable[[list[int]], None], first: int
) -> None:
    """Drop the snapshots from a version on."""
    drop([each.version for each in snapshots if each.version >= first])
