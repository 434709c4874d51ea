"""An agent on a node of Flower: it lives in a file between the messages that it answers.

A node may be killed at any time and started again, and what Flower keeps of it is gone then. So the
agent, and the upload that it answered with last, are on the disk before the answer is sent. Asked
again before that upload was merged, it answers with the same bytes and plays nothing.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from numpy.typing import ArrayLike

from fedbandit import file_lock, wire
from fedbandit.client.state.records import Tensor, packed, unpacked
from fedbandit.core.agent import Agent
from fedbandit.core.recipe import Recipe
from fedbandit.engines.flower_messages import Answer, Ask, read, record_of
from fedbandit.errors import InvalidMessage, InvalidState, OutputError, complaint
from fedbandit.terms import check_served


class Turn(Protocol):
    """One decision of an agent: some arms, and what playing one of them pays."""

    @property
    def arms(self) -> ArrayLike:
        """The arms, K x d."""
        ...

    def play(self, arm: int) -> tuple[float, float]:
        """Play an arm; return its reward, and the regret (0 where that is not known)."""
        ...


Turns = Callable[[int], Iterator[Turn]]
"""Returns the turns of an agent from a number on: how many it has had before."""


class _Saved(msgspec.Struct, frozen=True, array_like=True, tag="flower-agent-1"):
    """The file: the last answer, and the agent after it."""

    answer: dict[str, int | float | bool | bytes]
    agent: dict[str, int | float | str | Tensor]


class NodeAgent:
    """One agent whose state is a file of ``directory``; use it in ``with``, by one process."""

    def __init__(self, recipe: Recipe, index: int, directory: Path) -> None:
        self._recipe, self._path = check_served(recipe), directory / f"agent-{index}.state"
        self._last, self._agent = self._load(index)

    def answer(self, ask: Ask, turns: Turns) -> Answer:
        """Answer with an upload: the last one again unless it is merged, or the next.

        Plays turns until an upload is due or none are left; what is pending then is sent too.
        """
        last = self._last
        acknowledged = ask.life == last.life and ask.merged >= last.sequence
        if last.upload and not acknowledged:
            return last
        self._receive(ask.download)
        self._last = self._played(turns)
        self._save()
        return self._last

    def _receive(self, data: bytes) -> None:
        self._agent.receive(wire.decode_download(data))

    def _played(self, turns: Turns) -> Answer:
        agent, last, upload = self._agent, self._last, None
        rounds, reward, regret = last.rounds, last.reward, last.regret
        for turn in turns(rounds):
            arm = agent.choose(turn.arms)
            paid, missed = turn.play(arm)
            rounds, reward, regret = rounds + 1, reward + paid, regret + missed
            upload = agent.observe(arm, paid)
            if upload is not None:
                break
        over = upload is None
        if upload is None and agent.pending:
            upload = agent.collect()
        data = b"" if upload is None else wire.encode(upload)
        sequence = last.sequence + (upload is not None)
        told = (agent.index, last.life, sequence, data)
        return Answer(*told, over, rounds, float(reward), float(regret))

    def _load(self, index: int) -> tuple[Answer, Agent]:
        """Return the last answer and the agent; a new life where there is no file."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            life = os.urandom(wire.LIFE_BYTES)
            return Answer(index, life, 0, b"", False, 0, 0.0, 0.0), self._recipe.agent(index)
        try:
            saved = msgspec.msgpack.decode(data, type=_Saved)
            return read(Answer, saved.answer), Agent.restore(self._recipe, unpacked(saved.agent))
        except (msgspec.DecodeError, ValueError, InvalidMessage) as error:
            fix = "Delete the file: the agent begins another life, and what was not sent is lost."
            where, expected = f"state {self._path}", "what this agent wrote"
            message = complaint(where, got=str(error), expected=expected, fix=fix)
            raise InvalidState(message) from error

    def _save(self) -> None:
        """Replace the file, so that it is whole whenever the machine stops."""
        state: dict[str, Any] = packed(self._agent.state())
        data = msgspec.msgpack.encode(_Saved(record_of(self._last), state))
        part = self._path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
            handle = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(
                f"{self._path}: {error}. Make room, or give another state."
            ) from error


@contextmanager
def node_agent(recipe: Recipe, index: int, directory: Path) -> Iterator[NodeAgent]:
    """Open an agent while a block runs; raise InvalidState if another process has it open.

    A process that a killed node left behind may still be playing: its answer and ours must not mix.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = file_lock.acquire(directory / f"agent-{index}.lock")
    except OSError as error:
        fix = "Give a directory that can be written."
        raise OutputError(f"state directory {directory}: {error}. {fix}") from error
    if lock is None:
        fix = "Wait until that process has ended; the server asks again."
        raise InvalidState(f"Agent {index} in {directory} is in use by another process. {fix}")
    try:
        yield NodeAgent(recipe, index, directory)
    finally:
        file_lock.release(lock)
