"""A store without SQL, as somebody else would write it: everything in one dictionary."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import RLock

from msgspec import structs

from fedbandit.errors import InvalidParameter, unknown
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import History, Part, Snapshot
from fedbandit.service.bookkeeping.progress import (
    MINUTE,
    NO_PROGRESS,
    Period,
    Progress,
    Refused,
    Traffic,
    folded,
    start_of,
    summed,
)
from fedbandit.service.bookkeeping.quotas import Quotas, Senders
from fedbandit.service.bookkeeping.token import MOST_TOKENS, Token, TooManyTokens
from fedbandit.service.storage.contract import Archive, Model, Relaying
from fedbandit.wire import Limits, ShadowSums


@dataclass
class Place:
    """Where things are kept; several stores may be open on one place."""

    models: dict[str, Archive] = field(default_factory=dict)
    pasts: dict[str, "Past"] = field(default_factory=dict)
    admins: dict[str, Token] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)


@dataclass
class Past:
    """Snapshots and their states by version, and parts."""

    kept: dict[int, tuple[Snapshot, bytes]] = field(default_factory=dict)
    made: dict[tuple[str, int], Part] = field(default_factory=dict)
    groups: dict[int | None, dict[int, bytes]] = field(default_factory=dict)
    periods: dict[tuple[int, int], Progress] = field(default_factory=dict)
    refused: dict[tuple[int, str], Refused] = field(default_factory=dict)
    mark: bytes = b""

    def copy(self) -> "Past":
        return Past(
            {**self.kept},
            {**self.made},
            {**self.groups},
            {**self.periods},
            {**self.refused},
            self.mark,
        )

    def listed(self) -> list[Period]:
        return sorted(
            (Period(*key, each) for key, each in self.periods.items()),
            key=lambda each: (each.start, each.span),
        )

    def add(self, period: Period) -> None:
        key = period.span, period.start
        self.periods[key] = self.periods.get(key, NO_PROGRESS).plus(period.progress)


@dataclass
class LockedModel:
    """A model that is locked; ``new`` and ``new_past`` are what takes its place at the end."""

    new: Archive
    new_past: Past

    @property
    def model(self) -> Model:
        return self.new.model

    @property
    def digest(self) -> bytes:
        return sha256(self.new.state).digest()

    def state(self) -> bytes:
        return self.new.state

    def opened(self, digests: Collection[bytes]) -> dict[bytes, str]:
        return {
            each.digest: str(each.agent)
            for each in self.new.tokens
            if each.digest in digests and not each.code and not each.is_over(time.time())
        }

    def merged_uploads(self, agents: Collection[str]) -> dict[str, MergedUploads]:
        return {agent: self.new.merged.get(agent, MergedUploads()) for agent in agents}

    def next_place(self) -> int:
        places = [each.place for each in self.new.merged.values() if each.place is not None]
        return max(places, default=-1) + 1

    def senders(self) -> Senders:
        found = [each for each in self.new.merged.values() if each.uploads]
        return Senders(len(found), sum(each.observations for each in found))

    def write(
        self,
        *,
        state: bytes,
        version: int,
        count: int,
        merged: Mapping[str, MergedUploads],
        mass: float | None = None,
        set_back: int | None = None,
        told: bytes | None = None,
    ) -> None:
        old = self.new.model
        model = replace(
            old,
            version=version,
            count=count,
            mass=old.mass if mass is None else mass,
            set_back=old.set_back if set_back is None else set_back,
            told=old.told if told is None else told,
        )
        merged = {**self.new.merged, **merged}
        self.new = replace(self.new, model=model, state=state, merged=merged)

    def relaying(self) -> Relaying | None:
        return self.new.relaying

    def write_relaying(self, *, outbox: bytes, base: bytes | None = None) -> None:
        if base is None:
            assert self.new.relaying is not None
            base = self.new.relaying.base
        self.new = replace(self.new, relaying=Relaying(base=base, outbox=outbox))

    def set_rules(
        self,
        *,
        limits: Limits,
        quotas: Quotas,
        history: History,
        relays: int | None = None,
        groups: int | None = None,
        watched: bool = False,
    ) -> None:
        model = replace(self.new.model, limits=limits, quotas=quotas, history=history)
        model = model if relays is None else replace(model, relays=relays)
        if groups is not None:
            some = groups > 0
            model = replace(model, groups=groups, weighed=some, watched=watched and some)
        self.new = replace(self.new, model=model)

    @property
    def past(self) -> "LockedModel":
        return self

    def groups(self, snapshot: int | None = None) -> dict[int, bytes]:
        return {**self.new_past.groups.get(snapshot, {})}

    def write_groups(self, states: Mapping[int, bytes]) -> None:
        groups = self.groups() | {**states}
        self.new_past.groups[None] = {each: state for each, state in groups.items() if state}

    def take_snapshot(self, at: float) -> None:
        self.new_past.groups[self.new.model.version] = self.groups()
        model, state = self.new.model, self.new.state
        size = len(state) + sum(map(len, self.groups().values()))
        taken = Snapshot(model.version, model.count, at, size)
        self.new_past.kept[model.version] = taken, state
        self.new = replace(self.new, model=replace(model, snapshot=at))

    def snapshots(self) -> list[Snapshot]:
        return [self.new_past.kept[version][0] for version in sorted(self.new_past.kept)]

    def snapshot_state(self, version: int) -> bytes:
        if version not in self.new_past.kept:
            raise unknown("version", str(version), map(str, self.new_past.kept))
        return self.new_past.kept[version][1]

    def drop_snapshots(self, versions: Collection[int]) -> None:
        for version in versions:
            self.new_past.kept.pop(version, None)
            self.new_past.groups.pop(version, None)

    def add_parts(self, parts: Sequence[Part]) -> None:
        self.new_past.made |= {(each.agent, each.last): each for each in parts}

    def parts(self, agent: str, after: int = 0) -> list[Part]:
        return [each for each in self.all_parts() if each.agent == agent and each.last > after]

    def all_parts(self) -> Iterator[Part]:
        return iter([self.new_past.made[key] for key in sorted(self.new_past.made)])

    def drop_parts(self, agent: str | None, *, after: int, upto: int | None) -> None:
        for key in [*self.new_past.made]:
            late = upto is not None and key[1] > upto
            if agent in (None, key[0]) and key[1] > after and not late:
                del self.new_past.made[key]

    def scale_mass(self, share: float) -> None:
        model, merged = self.new.model, self.new.merged
        scaled = {
            name: structs.replace(each, mass=share * each.mass) for name, each in merged.items()
        }
        model = replace(model, mass=share * model.mass)
        self.new = replace(self.new, model=model, merged=scaled)

    def add_progress(self, at: float, progress: Progress) -> None:
        self.new_past.add(Period(MINUTE, start_of(at, MINUTE), progress))

    def fold_progress(self, now: float) -> None:
        gone, made = folded(self.new_past.listed(), now=now)
        for each in gone:
            del self.new_past.periods[each.span, each.start]
        for each in made:
            self.new_past.add(each)

    def mark(self) -> bytes:
        return self.new_past.mark

    def write_mark(self, theta: bytes) -> None:
        self.new_past.mark = theta


class MemoryStore:
    """Keeps everything in memory; one model is written at a time."""

    writers = 1

    def __init__(self, place: Place) -> None:
        self._place = place

    def create(self, model: Model, state: bytes) -> None:
        self.install(Archive(model=model, state=state, merged={}, tokens=[]))

    def models(self) -> list[Model]:
        return [self._place.models[name].model for name in sorted(self._place.models)]

    def model(self, name: str) -> Model:
        return self.archive(name).model

    def state(self, name: str) -> tuple[Model, bytes]:
        found = self.archive(name)
        return found.model, found.state

    def outline(self, name: str) -> tuple[Model, bytes]:
        found = self.archive(name)
        return replace(found.model, told=b""), sha256(found.state).digest()

    def delete(self, name: str) -> None:
        del self._place.models[self.model(name).name]
        self._place.pasts.pop(name, None)

    @contextmanager
    def lock(self, name: str) -> Iterator[LockedModel]:
        with self._place.lock:
            past = self._place.pasts.get(name, Past())
            locked = LockedModel(self.archive(name), past.copy())
            yield locked
            self._place.models[name], self._place.pasts[name] = locked.new, locked.new_past

    def agents(self, model: str) -> dict[str, MergedUploads]:
        return {**self.archive(model).merged}

    def merged_uploads(self, model: str, agent: str) -> MergedUploads:
        found = self._place.models.get(model)
        return MergedUploads() if found is None else found.merged.get(agent, MergedUploads())

    def shadows(self, model: str) -> list[ShadowSums]:
        with self._place.lock:
            merged = self._place.models[model].merged if model in self._place.models else {}
            told = [each for _, each in sorted(merged.items()) if not each.quarantined]
            return [each.shadow for each in told if each.shadow is not None]

    def tallies(self) -> dict[str, int]:
        return {
            name: sum(each.uploads for each in found.merged.values())
            for name, found in self._place.models.items()
            if found.merged
        }

    def archive(self, name: str) -> Archive:
        if name not in self._place.models:
            raise unknown("model", name, self._place.models)
        past = self._place.pasts.get(name, Past())
        parts = [past.made[key] for key in sorted(past.made)]
        groups = past.groups.get(None, {})
        periods = past.listed()
        return replace(self._place.models[name], parts=parts, groups=groups, periods=periods)

    def groups(self, model: str) -> dict[int, bytes]:
        return dict(self.archive(model).groups)

    def periods(self, model: str) -> list[Period]:
        return list(self.archive(model).periods)

    def totals(self) -> dict[str, Progress]:
        pasts = self._place.pasts.items()
        return {name: summed(past.periods.values()) for name, past in pasts if past.periods}

    def refusals(self, model: str) -> list[Refused]:
        found = self._place.pasts.get(model, Past()).refused.values()
        return sorted(found, key=lambda each: (-each.at, each.status, each.field))

    def add_traffic(self, traffic: Sequence[Traffic]) -> None:
        with self._place.lock:
            for each in traffic:
                if each.model in self._place.models:
                    self._add(each)

    def _add(self, traffic: Traffic) -> None:
        past = self._place.pasts.setdefault(traffic.model, Past())
        past.add(Period(MINUTE, start_of(traffic.start, MINUTE), traffic.progress))
        for each in traffic.refused:
            before = past.refused.get((each.status, each.field))
            count = each.count + (before.count if before else 0)
            past.refused[each.status, each.field] = replace(each, count=count)
        found = self._place.models[traffic.model]
        held = {
            agent: structs.replace(found.merged[agent], held=max(version, found.merged[agent].held))
            for agent, version in traffic.held.items()
            if agent in found.merged
        }
        self._place.models[traffic.model] = replace(found, merged={**found.merged, **held})

    def install(self, archive: Archive) -> None:
        with self._place.lock:
            taken = {token.name for token in self.tokens()} & {t.name for t in archive.tokens}
            if archive.model.name in self._place.models or taken:
                raise InvalidParameter(f"Model {archive.model.name!r} exists already.")
            self._place.models[archive.model.name] = archive
            made = {(each.agent, each.last): each for each in archive.parts}
            past = Past({}, made, {None: {**archive.groups}})
            for each in archive.periods:
                past.add(each)
            self._place.pasts[archive.model.name] = past

    def add_token(self, token: Token) -> None:
        with self._place.lock:
            if token.name in [each.name for each in self.tokens()]:
                raise InvalidParameter(f"Token {token.name!r} exists already.")
            if token.model is None:
                self._place.admins[token.name] = token
                return
            found = self.archive(token.model)
            self._place.models[token.model] = replace(found, tokens=[*found.tokens, token])

    def token(self, digest: bytes) -> Token | None:
        return next((each for each in self.tokens() if each.digest == digest), None)

    def token_named(self, name: str) -> Token | None:
        return next((each for each in self.tokens() if each.name == name), None)

    def tokens(self) -> list[Token]:
        of_models = [each for name in sorted(self._place.models) for each in self._of(name)]
        return [*self._place.admins.values(), *of_models]

    def _of(self, name: str) -> list[Token]:
        return sorted(self._place.models[name].tokens, key=lambda each: (each.agent, each.name))

    def revoke(self, name: str) -> None:
        with self._place.lock:
            if name not in [each.name for each in self.tokens()]:
                raise unknown("token", name, [each.name for each in self.tokens()])
            self._place.admins.pop(name, None)
            for model, found in self._place.models.items():
                kept = [each for each in found.tokens if each.name != name]
                self._place.models[model] = replace(found, tokens=kept)

    def succeed(self, digest: bytes, successor: Token, *, ends: float | None) -> bool:
        with self._place.lock:
            old = self.token(digest)
            if old is None:
                return False
            whose = (successor.model, successor.agent)
            others = [each for each in self.tokens() if (each.model, each.agent) == whose]
            over = [each for each in others if each.is_over(time.time())]
            if successor.agent is not None and len(others) - len(over) > MOST_TOKENS:
                raise TooManyTokens
            self.add_token(successor)
            for each in [old, *(over if successor.agent is not None else ())]:
                if each.name in [left.name for left in self.tokens()]:
                    self.revoke(each.name)
            if ends is not None:
                left = ends if old.expires is None else min(old.expires, ends)
                self.add_token(replace(old, expires=left))
            return True

    def note_uses(self, uses: Mapping[bytes, float]) -> None:
        with self._place.lock:
            for digest, when in uses.items():
                if (found := self.token(digest)) is not None:
                    self.revoke(found.name)
                    self.add_token(replace(found, used=when))

    def ping(self) -> None:
        pass

    def close(self) -> None:
        pass
