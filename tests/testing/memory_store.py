"""A store without SQL, as somebody else would write it: everything in one dictionary."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import RLock

from fedbandit.errors import InvalidParameter, unknown
from fedbandit.service.models.deduplication import MergedUploads
from fedbandit.service.storage.contract import (
    MOST_TOKENS,
    Archive,
    Model,
    Token,
    TooManyTokens,
)


@dataclass
class Place:
    """Where things are kept; several stores may be open on one place."""

    models: dict[str, Archive] = field(default_factory=dict)
    admins: dict[str, Token] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)


@dataclass
class LockedModel:
    """A model that is locked; ``new`` is what takes its place at the end."""

    new: Archive

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

    def write(
        self, *, state: bytes, version: int, count: int, merged: Mapping[str, MergedUploads]
    ) -> None:
        model = replace(self.new.model, version=version, count=count)
        merged = {**self.new.merged, **merged}
        self.new = replace(self.new, model=model, state=state, merged=merged)


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

    def delete(self, name: str) -> None:
        del self._place.models[self.model(name).name]

    @contextmanager
    def lock(self, name: str) -> Iterator[LockedModel]:
        with self._place.lock:
            locked = LockedModel(self.archive(name))
            yield locked
            self._place.models[name] = locked.new

    def merged_uploads(self, model: str, agent: str) -> MergedUploads:
        found = self._place.models.get(model)
        return MergedUploads() if found is None else found.merged.get(agent, MergedUploads())

    def tallies(self) -> dict[str, tuple[int, int]]:
        return {
            name: (
                sum(each.uploads for each in found.merged.values()),
                sum(each.observations for each in found.merged.values()),
            )
            for name, found in self._place.models.items()
            if found.merged
        }

    def archive(self, name: str) -> Archive:
        if name not in self._place.models:
            raise unknown("model", name, self._place.models)
        return copy(self._place.models[name])

    def install(self, archive: Archive) -> None:
        with self._place.lock:
            taken = {token.name for token in self.tokens()} & {t.name for t in archive.tokens}
            if archive.model.name in self._place.models or taken:
                raise InvalidParameter(f"Model {archive.model.name!r} exists already.")
            self._place.models[archive.model.name] = archive

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
