"""Warm start: past observations become uploads of a model like any other, once.

The events of a log are numbered. They are merged in uploads of an agent of their own, whose name
and life follow from the log's first event, and whose sequence numbers are those of the last event
in each upload. So the model itself remembers how far a log was merged: given again, the log changes
nothing, and one that has grown adds what is new. A log that has the first event of another log
somewhere inside is refused from there on: those events would be merged twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from itertools import chain, islice

from fedbandit import wire
from fedbandit.core.checks import checked_arm
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Upload
from fedbandit.core.recipe import Recipe
from fedbandit.errors import DataError, complaint
from fedbandit.logs.event import Event
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import ModelRef, SyncRequest
from fedbandit.service.models.model import recipe_of
from fedbandit.service.refusal import Refusal
from fedbandit.service.storage.contract import Store
from fedbandit.terms import LOG_PREFIX, is_log_name

AT_ONCE = 1000
"""How many observations an upload stands for, unless the model allows fewer."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What came of it: under which agent's name, how many observations are new, how many were."""

    agent: str
    new: int
    before: int


def warm(
    store: Store, name: str, events: Iterable[Event], *, arms: Callable[[Event], Array]
) -> Warmed:
    """Merge the observations of a log into a model of a store.

    ``arms`` returns the arms of an event (K x d). Raises DataError for an event that does not fit
    the model; what was merged before it stays merged, and the same log goes on from there.
    """
    model = store.model(name)
    recipe, rest = recipe_of(model), iter(events)
    first = next(rest, None)
    if first is None:
        fix = "Give a log whose decisions have rewards."
        raise DataError(complaint("logs", got="no events", expected="at least one", fix=fix))
    life, agents = _life_of(first), store.agents(name)
    agent = f"{LOG_PREFIX}{life.hex()[:12]}"
    known = agents.get(agent)
    others = {each: who for who in agents if is_log_name(who) for each in agents[who].lives}
    merged = known.lives[life].sequence if known is not None and life in known.lives else 0
    merger, ref = StoreMerger(store), ModelRef(model.name, model.incarnation)
    done, numbered = merged, enumerate(chain([first], rest), start=1)
    ahead = (each for each in numbered if each[0] > merged)
    while block := list(islice(ahead, min(AT_ONCE, model.limits.count))):
        _check_own(block, life, others)
        done = block[-1][0]
        upload = _upload(recipe, (event for _, event in block), arms)
        sync = wire.Sync(wire.fingerprint(recipe), life, done, upload)
        (outcome,) = merger.merge(ref, [SyncRequest(agent, wire.encode_sync(sync))])
        if isinstance(outcome, Refusal):
            raise _refused(name, outcome, done)
    return Warmed(agent, done - merged, merged)


def _life_of(first: Event) -> bytes:
    """Return the life under which a log with this first event is merged."""
    text = f"{first.agent}\n{first.id}\n{first.time!r}"
    return sha256(text.encode()).digest()[: wire.LIFE_BYTES]


def _check_own(
    block: Sequence[tuple[int, Event]], life: bytes, others: Mapping[bytes, str]
) -> None:
    """Raise DataError where another log, which was merged before, begins inside of this one."""
    for number, event in block:
        inside = _life_of(event)
        if inside != life and inside in others:
            raise DataError(
                f"logs: event {number:,} is the first of a log that was merged before, as "
                f"{others[inside]}, and what follows would be counted twice. Merge one log at a "
                "time, always from the same beginning."
            )


def _upload(recipe: Recipe, events: Iterator[Event], arms: Callable[[Event], Array]) -> Upload:
    """Return what events come to as one upload, whatever the trigger says."""
    agent, ready = recipe.agent(0), list[Upload]()
    for event in events:
        arm = checked_arm(arms(event)[event.chosen], recipe.dimension)
        upload = agent.observe(arm, event.reward, pack=False)
        if upload is not None:
            ready.append(upload)
            agent = recipe.agent(0)  # this one would wait for an answer
    ready.append(agent.collect(pack=False))
    return agent.packed(reduce(agent.combined, ready))


def _refused(name: str, refusal: Refusal, number: int) -> DataError:
    fix = "Raise the model's limits or quotas (fedbandit model set), then give the log again."
    said = f"{refusal.field}: {refusal}"
    return DataError(
        f"{name}: the upload that ends with event {number:,} was refused: {said}. {fix}"
    )
