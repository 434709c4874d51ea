"""Taking back: snapshots and parts as uploads come in, rolling back, forgetting an agent or a time.

Whatever is taken out, the result gets a new, higher version: agents take it like any other
download, and keep what they have not delivered. Which uploads were merged stays noted, so that a
copy of one that was taken out is still a copy: nothing comes back by being sent again.

The state without some parts is the merge of the others, from nothing. For Gram matrices that is
their sum. For sketches it is a sketch of what the others sent, with its own bound on what it shed:
X^T X <= S^T S + shed I holds for the X of the others, as if nothing else had ever come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

import numpy as np
from msgspec import structs

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Base, Statistics
from fedbandit.errors import DataError, InvalidMessage, InvalidState, unknown
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import (
    LOOSE,
    History,
    Part,
    Snapshot,
    groups,
    is_due,
    superfluous,
)
from fedbandit.service.bookkeeping.quotas import NOTHING_SPENT, mass_of, share_left
from fedbandit.service.models.groups import (
    MOST_GROUPS,
    check_groups,
    closed_key,
    group_of,
    is_closed,
    key_of,
    told_moment,
)
from fedbandit.service.models.model import recipe_of, server_at
from fedbandit.service.models.weighed import closed, summed, sums_of_states, told_of
from fedbandit.service.storage.contract import Locked

_TOGETHER = 64  # parts that are merged by one shrink
_WHOLE = -1  # in place of the number of a group
_FIRST = key_of(1, 0)  # keys of sums begin here; below it are states of groups of before


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many observations of an agent were taken out, and how many could not be."""

    observations: int
    left: int


def keep_snapshot(locked: Locked, now: float) -> None:
    """Keep what is stored as a snapshot if it is time for one; drop those that are too many."""
    model = locked.model
    if is_due(model.history, taken=model.snapshot, now=now):
        locked.past.take_snapshot(now)
        kept = locked.past.snapshots()
        locked.past.drop_snapshots(superfluous(kept, model.history, now=now))


def keep_parts(
    recipe: Recipe,
    locked: Locked,
    new: Sequence[tuple[str, int, Upload]],
    merged: Mapping[str, MergedUploads],
) -> dict[str, MergedUploads]:
    """Keep uploads (sender, version, upload) as parts; return what is to be noted of the senders.

    Costs a row for each upload, and a merge of ``LOOSE`` parts for every ``LOOSE`` of an agent.
    """
    locked.past.add_parts([_part(agent, version, each.statistics) for agent, version, each in new])
    noted = dict(merged)
    for agent in merged:
        loose = merged[agent].loose + sum(sender == agent for sender, _, _ in new)
        if loose >= LOOSE:
            loose = 0
            _compact(recipe, locked, agent)
        noted[agent] = structs.replace(merged[agent], loose=loose)
    return noted


def set_history(locked: Locked, history: History) -> None:
    """Change how the past is kept. Where parts are kept from now on, what is there is the first."""
    model = locked.model
    if not history.by_agent:
        locked.past.drop_parts(None, after=-1, upto=None)
    elif not model.history.by_agent and model.version:
        stored = locked.past.groups()
        if model.weighed:
            _replace_sums(locked, closed(stored))
        groups = {} if model.weighed else stored
        locked.past.add_parts(_unattributed(model.version, locked.state(), groups))
    locked.set_rules(limits=model.limits, quotas=model.quotas, history=history)


def set_groups(locked: Locked, groups: int) -> None:
    """Sort agents into other groups from now on; the sums of those of before stay beside them."""
    if locked.relaying() is not None and groups:
        raise DataError(
            f"Model {locked.model.name} is passed on to a coordinator above: set groups there."
        )
    before, past, recipe = locked.model, locked.past, recipe_of(locked.model)
    check_groups(groups)
    locked.set_rules(
        limits=before.limits, quotas=before.quotas, history=before.history, groups=groups
    )
    whole, stored = server_at(recipe, locked.state()), past.groups()
    sums: Mapping[int, bytes] = {}
    if groups and before.history.by_agent:
        sums = _sums_of_parts(locked, recipe)
    elif groups:
        sums = stored if before.weighed else sums_of_states(recipe, before.groups, stored, whole)
    _replace_sums(locked, sums)
    told, version, count = told_of(recipe, whole, sums), before.version, before.count
    locked.write(state=locked.state(), version=version, count=count, merged={}, told=told)


def _replace_sums(locked: Locked, sums: Mapping[int, bytes]) -> None:
    locked.past.write_groups({**dict.fromkeys(locked.past.groups(), b""), **sums})


def roll_back(locked: Locked, version: int) -> None:
    """Set the model back to a snapshot; later snapshots and parts are dropped."""
    _check_own(locked)
    state, past = locked.past.snapshot_state(version), locked.past
    recipe, groups = recipe_of(locked.model), locked.past.groups(version)
    _drop_later(past.snapshots(), past.drop_snapshots, version + 1)
    late = _began(locked) > version
    past.drop_parts(None, after=version, upto=None)
    weighed = locked.model.weighed
    if late and version:  # parts began after this snapshot
        past.add_parts(_unattributed(version, state, {} if weighed else groups))
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
    gone = sum(_read(each).count for each in parts)
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
    return Forgotten(gone, known.observations - gone)


def forget_span(locked: Locked, *, after: int, upto: int) -> int:
    """Take out all that was merged after one version and up to another; return its observations.

    Both are versions of snapshots, 0, or the present version. Later snapshots are dropped.
    """
    _check_own(locked)
    _check_parts(locked)
    past, model, recipe = locked.past, locked.model, recipe_of(locked.model)
    ends = {0, model.version, *(each.version for each in past.snapshots())}
    for end in (after, upto):
        if end not in ends:
            raise unknown("version", str(end), map(str, sorted(ends)))
    if _began(locked) > after:
        raise DataError(
            f"forget: what was merged up to version {_began(locked)} is kept as one part. Choose "
            "a later version to begin with."
        )
    _drop_later(past.snapshots(), past.drop_snapshots, after + 1)
    past.drop_parts(None, after=after, upto=upto)
    whole, groups, sums = _rebuilt(locked, recipe)
    _put(locked, recipe, whole, groups=groups, sums=sums)
    _scale_mass(locked, recipe, whole)
    return model.count - whole.count


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
        told = told_of(recipe, whole, sums or {})
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
            return (_WHOLE,)
        return _WHOLE, group_of(model.created, model.groups, part.agent)

    merged = _merged(recipe, past.all_parts, places)
    whole = merged.get(_WHOLE, recipe.parts.memory.empty_server())
    if model.weighed:
        return whole, {}, _sums_of_parts(locked, recipe)
    empty = recipe.parts.memory.empty_server()
    for number in past.groups() if model.groups else ():
        groups[number] = recipe.server()
        groups[number].adopt(merged.get(number, empty), version=1)
    return whole, groups, {}


def _sums_of_parts(locked: Locked, recipe: Recipe) -> dict[int, bytes]:
    """Return the sums of groups, from parts; and those of before parts were kept, as they are."""
    model, past = locked.model, locked.past
    sums = {key: data for key, data in past.groups().items() if key >= _FIRST and is_closed(key)}
    before = (
        [part for name in _unattributed_names() for part in past.parts(name)] if not sums else []
    )
    old = ((closed_key(key_of(1, 0)), _read(part)) for part in before)
    sent = (
        (key_of(model.groups, group_of(model.created, model.groups, part.agent)), _read(part))
        for part in past.all_parts()
        if part.agent and part.agent[0] != "/"
    )
    return {**sums, **summed(recipe, chain(old, sent))}


def _unattributed(version: int, state: bytes, groups: Mapping[int, bytes]) -> list[Part]:
    """Return what was merged up to a version as parts that belong to no agent.

    One for each group if there are any: "/0", "/1", ... are the names of none.
    """
    if not groups:
        return [Part("", 1, version, state)]
    return [Part(f"/{number}", 1, version, each) for number, each in groups.items()]


def _began(locked: Locked) -> int:
    """Return the version up to which it is not known which agent sent what; 0 if it always is."""
    parts = (part for name in _unattributed_names() for part in locked.past.parts(name))
    return max((part.last for part in parts), default=0)


def _unattributed_names() -> list[str]:
    return ["", *(f"/{number}" for number in range(MOST_GROUPS))]


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
            f"Model {name} does not keep what each agent sent, so one agent cannot be taken out. "
            f"Roll back to before it came (fedbandit model history {name}), or keep parts from now "
            f"on: fedbandit model set {name} --keep-parts."
        )


def _drop_later(
    snapshots: Iterable[Snapshot], drop: Callable[[list[int]], None], first: int
) -> None:
    """Drop the snapshots from a version on."""
    drop([each.version for each in snapshots if each.version >= first])


def _compact(recipe: Recipe, locked: Locked, agent: str) -> None:
    """Merge the parts of an agent that no snapshot lies between, where that saves room.

    A server that keeps everything has a matrix for a few short rows. Merged into one of those,
    small uploads would take many times what was sent.
    """
    past, least = locked.past, len(wire.encode(recipe.server().whole()))
    bounds = [each.version for each in past.snapshots()]
    for group in groups(past.parts(agent), bounds):
        if len(group) > 1 and sum(len(each.data) for each in group) > least:
            merged = _merged(recipe, partial(iter, group), lambda _: (_WHOLE,))[_WHOLE]
            first, last = group[0].first, group[-1].last
            past.drop_parts(agent, after=first - 1, upto=last)
            past.add_parts([replace(_part(agent, last, merged), first=first)])


def _part(agent: str, version: int, statistics: Statistics) -> Part:
    return Part(agent, version, version, wire.encode(Download(statistics, version)))


def _read(part: Part) -> Statistics:
    try:
        message = wire.decode_download(part.data)
    except InvalidMessage as error:
        fix = "Restore a backup."
        raise InvalidState(f"A part of {part.agent!r} cannot be read ({error}). {fix}") from error
    summary = message.statistics.summary
    if not isinstance(summary, LossyGram):
        return message.statistics
    return replace(message.statistics, summary=_as_rows(summary))


def _as_rows(whole: LossyGram) -> LossyRows:
    """Return the matrix of a server that keeps everything as rows, which can be merged. O(d^3)."""
    squares, directions = np.linalg.eigh(whole.matrix)
    kept = squares > 0.0
    rows = np.sqrt(squares[kept])[:, None] * directions.T[kept]
    return LossyRows(rows, whole.bound, whole.lost, whole.weight)


def _merged(
    recipe: Recipe, parts: Callable[[], Iterator[Part]], places: Callable[[Part], tuple[int, ...]]
) -> dict[int, Statistics]:
    """Merge parts from nothing, each into every one of its ``places``; return what is in each.

    A corrected estimate needs an estimate to correct with: that of the same parts, merged before.
    """
    memory = recipe.parts.memory
    first = _merged_with(recipe, parts(), places, {})
    references = {place: memory.reference(Base(first[place], memory)) for place in first}
    if all(each is None for each in references.values()):
        return first
    return _merged_with(recipe, parts(), places, references)


def _merged_with(
    recipe: Recipe,
    parts: Iterator[Part],
    places: Callable[[Part], tuple[int, ...]],
    references: Mapping[int, Array | None],
) -> dict[int, Statistics]:
    """Merge parts as they come, as many as one shrink takes together."""
    memory, sums = recipe.parts.memory, dict[int, Statistics]()
    while some := [(places(part), _read(part)) for part in islice(parts, _TOGETHER)]:
        for place in {place for where, _ in some for place in where}:
            theirs = [each for where, each in some if place in where]
            ours = sums.get(place) or memory.empty_server()
            sums[place] = memory.merged(ours, theirs, references.get(place))
    return sums
