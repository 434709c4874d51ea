"""A coordinator in this process: the real server, merging each (life, sequence) once."""

from pathlib import Path
from threading import Lock

import msgspec

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.agent import ConnectedAgent
from fedbandit.client.connecting import Durability, open_state
from fedbandit.client.state.agent_state import AgentState, Waiting
from fedbandit.client.state.directory import Identity
from fedbandit.errors import InvalidMessage, Refused, Unreachable
from fedbandit.service.bookkeeping.deduplication import ForgottenLife, MergedUploads

LIMITS = wire.Limits(arm_norm=1e6, reward=1e6, count=10**9)
PATIENT = Waiting()
WHO = Identity(model="news", agent="phone-7")


class Twin:
    """Answers like a coordinator; ``down`` makes it unreachable, ``deaf`` loses its answers.

    ``error`` is raised in place of any answer. ``refuse`` is the field of uploads that it refuses,
    with ``status``. ``beside`` is how far the number in its answers is from the one of the upload,
    which is ``sequence``. After ``down_after`` more uploads it is down.
    """

    def __init__(self, recipe: fb.Recipe, *, limits: wire.Limits = LIMITS) -> None:
        self.recipe, self.limits, self.server = recipe, limits, recipe.server()
        self.fingerprint = wire.fingerprint(recipe)
        self.ledger = MergedUploads()
        self.requests: list[str] = []
        self.down = self.deaf = False
        self.error: Exception | None = None
        self.refuse: str | None = None
        self.status = 422
        self.beside = self.sequence = 0
        self.down_after: int | None = None
        self.lock = Lock()

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        with self.lock:
            self.requests.append(path)
            if self.error is not None:
                raise self.error
            if self.down:
                raise Unreachable("down")
            answer = self._joined(path) if body is None else self._synced(body)
            if body is not None and self.down_after is not None:
                self.down_after -= 1
                self.down = self.down_after == 0
            if self.deaf:
                raise Unreachable("deaf")
            return answer

    def close(self) -> None:
        pass

    def _joined(self, path: str) -> bytes:
        current = path == wire.state_path(wire.digest(self.server.download()))
        return wire.encode_joined(
            wire.Joined(
                self.fingerprint,
                self.recipe.name,
                msgspec.json.encode(self.recipe.params),
                self.limits,
                None if current else self.server.download(),
                self.ledger.known,
            )
        )

    def _synced(self, body: bytes) -> bytes:
        sync = wire.decode_sync(body)
        self.sequence = sync.sequence
        if self.refuse is not None:
            said = f"{self.status} {self.refuse} is wrong"
            raise Refused(said, status=self.status, field=self.refuse)
        assert sync.fingerprint == self.fingerprint
        who = {"born": sync.born, "sequence": sync.sequence}
        try:
            version = self.ledger.copy_of(sync.life, **who)
        except ForgottenLife as error:
            raise Refused(str(error), status=410, field=error.field) from error
        except InvalidMessage as error:
            raise Refused(str(error), status=422, field=error.field) from error
        merged = version is None
        if version is None:
            self.server.receive(sync.upload)
            version = self.server.version
            self.ledger = self.ledger.noting(
                sync.life, born=sync.born, sequence=sync.sequence, version=version
            )
        number, download = sync.sequence + self.beside, self.server.download()
        answer = wire.Synced(self.fingerprint, merged, number, version, download)
        return wire.encode_synced(answer)


def state_of(
    twin: Twin, *, state_dir: Path, waiting: Waiting = PATIENT, max_open: int = 10_000
) -> AgentState:
    """Open an agent's state, and start no thread."""
    return open_state(twin, WHO, state_dir=state_dir, waiting=waiting, max_open=max_open)


def joined_to(
    twin: Twin,
    *,
    who: Identity = WHO,
    waiting: Waiting = PATIENT,
    state_dir: Path | None = None,
    recipe: fb.Recipe | None = None,
    max_open: int = 10_000,
    durability: Durability = "process",
) -> ConnectedAgent:
    """Connect an agent to a twin."""
    state = open_state(
        twin,
        who,
        waiting=waiting,
        state_dir=state_dir,
        recipe=recipe,
        max_open=max_open,
        durability=durability,
    )
    return ConnectedAgent(state, twin)
