"""The delivery of uploads to the coordinator, and what is done meanwhile without the network."""

import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from random import random
from typing import Protocol

from fedbandit import wire
from fedbandit.client.state.agent_state import OutgoingSync
from fedbandit.client.transport import Transport
from fedbandit.errors import Refused, RemoteError, Unreachable, complaint

_HOUSEKEEPING = 60.0  # seconds until a disk that failed while deciding is noticed at the latest
QUIET = 3600.0
"""Seconds without an answer after which an agent asks whether the model was set back.

An upload is due once what is new counts beside what the agent has. If somebody fed the model
nonsense, nothing new may count any more, and the agent would never hear that this was undone.
"""
UNHEARD = (60.0, 3600.0)
"""Seconds without a sync after which an agent sends what it has, whether that counts or not.

One that says first that everything is known would silence all others: nothing that they see counts
beside it, and nobody would ever contradict it. It is as long as the agent has been running, within
these bounds: a fleet that begins is heard within minutes, and later an agent sends once an hour.
"""


class Sender(Protocol):
    """What uploads are delivered for: the state of an agent, or of a coordinator that is one."""

    @property
    def caught_up(self) -> bool:
        """Whether it has the coordinator's state as of this start, or of the start of this life."""
        ...

    @property
    def version(self) -> int:
        """The version of the download last received."""
        ...

    @property
    def digest(self) -> str:
        """What names that download; empty before the first."""
        ...

    @property
    def cut(self) -> int:
        """How many uploads of the fleet had a correction that was cut."""
        ...

    def due(self) -> bool:
        """Return whether there is an upload to deliver, or the coordinator's state to fetch."""
        ...

    def do_housekeeping(self) -> float | None:
        """Do what is due without the network; return in how many seconds again, None for never."""
        ...

    def flush(self) -> None:
        """Let what is pending be due."""
        ...

    def next_request(self) -> OutgoingSync | None:
        """Put an upload in flight, durably, unless one is; return the request, None if none is."""
        ...

    def acknowledge(self, answer: wire.Synced) -> None:
        """Remove the upload in flight and learn from the download in the answer."""
        ...

    def catch_up(self, answer: wire.Joined) -> None:
        """Learn what was merged meanwhile, and limits that have changed."""
        ...

    def set_aside(self, why: str) -> None:
        """Go on without the upload in flight, which was refused for its content; or raise."""
        ...

    def begin_another_life(self, *, again: bool) -> None:
        """Go on under a new life; ``again``: send what was in flight, which was not merged."""
        ...


class Delivery:
    """Sends uploads and learns from the answers. Used by one thread."""

    def __init__(
        self,
        state: Sender,
        transport: Transport,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._began = clock, clock()
        self._ask_at, self._send_at = self._began + _about(QUIET), self._again()
        self.uploads = self.bytes_up = self.bytes_down = 0
        self._state, self._transport = state, transport
        self._tried = True  # an upload in flight that a journal held may have been sent

    def do_housekeeping(self) -> float:
        """Do what the state asks for without the network; return in how many seconds again.

        Also let what is pending be sent, and ask whether the model was set back, if the coordinator
        has not heard, or has not been heard, for long.
        """
        pause = self._state.do_housekeeping()
        if self._clock() >= self._send_at:
            self._send_at = self._again()
            self._state.flush()
        if self._state.caught_up and self._clock() >= self._ask_at:
            self._ask_at = self._clock() + _about(QUIET)
            with suppress(RemoteError):  # the next delivery says so if it lasts
                self._catch_up(since=self._state.version)
        pause = _HOUSEKEEPING if pause is None else min(pause, _HOUSEKEEPING)
        return max(min(pause, self._send_at - self._clock()), 0.0)

    def _again(self) -> float:
        """Return when what is pending is sent, if the agent is not heard before."""
        now, (least, most) = self._clock(), UNHEARD
        return now + _about(min(max(now - self._began, least), most))

    @property
    def cut(self) -> int:
        """How many uploads of the fleet had a correction that was cut."""
        return self._state.cut

    def due(self) -> bool:
        """Return whether there is an upload to deliver, or the coordinator's state to fetch."""
        return self._state.due()

    def deliver(self) -> None:
        """Catch up if that has not been done, else deliver one upload and learn from the answer."""
        if not self._state.caught_up:
            self._catch_up()
            return
        request = self._state.next_request()
        if request is None:
            return
        first, self._tried = request.new or not self._tried, True
        try:
            self._sync(request)
        except Refused as error:
            if _is_about_the_upload(error):
                self._catch_up()  # the limits may have changed; and it must be the same model
                self._state.set_aside(str(error))
                return
            unknown = error.field == "born"  # the coordinator was restored to before this life
            if error.status != HTTPStatus.GONE and not unknown:
                raise
            self._tried = not (first or unknown)
            self._state.begin_another_life(again=not self._tried)
            raise Unreachable(str(error)) from error  # so that it is tried again soon, not at once

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _catch_up(self, *, since: int | None = None) -> None:
        """Fetch the coordinator's state; with ``since`` only if it was set back after that."""
        answer = self._transport.exchange(wire.state_path(self._state.digest, since=since))
        self._state.catch_up(wire.decode_joined(answer))
        self._heard(answer)

    def _heard(self, answer: bytes) -> None:
        self.bytes_down += len(answer)
        self._ask_at = self._clock() + _about(QUIET)

    def _sync(self, request: OutgoingSync) -> None:
        """Send a request and learn from the answer.

        An answer to an older copy of it (merged before, version 0) means that this state was
        restored from a copy, and that its life went on elsewhere: a new life begins, or the next
        uploads would be taken for copies too.
        """
        answer = self._transport.exchange("sync", request.body)
        synced = wire.decode_synced(answer)
        if synced.sequence != request.sequence:
            self._transport.close()  # further answers on this connection may be misplaced too
            raise _another_answer(synced.sequence, request.sequence)
        self._send_at = self._again()
        self.uploads += 1
        self.bytes_up += len(request.body)
        self._heard(answer)
        self._state.acknowledge(synced)
        if not synced.merged and synced.version == 0:
            self._state.begin_another_life(again=False)


def _about(seconds: float) -> float:
    """Return half of it to one and a half, at random, so that a fleet does not come at once."""
    return seconds * (0.5 + random())


def _is_about_the_upload(error: Refused) -> bool:
    """Return whether the upload's content was refused, so that it always will be.

    That is one of its fields, or its size if the coordinator says that no sync of the model is so
    large. A proxy that refuses a size names no field, and its limit can be raised.
    """
    if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return error.field == "body"
    inside = error.field == "upload" or error.field.startswith("upload.")
    return inside and error.status == HTTPStatus.UNPROCESSABLE_ENTITY


def _another_answer(got: int, expected: int) -> Unreachable:
    fix = "Nothing is lost, it is sent again. Check the proxies between here and the coordinator."
    wanted = f"one to upload {expected}"
    return Unreachable(complaint("answer", got=f"one to upload {got}", expected=wanted, fix=fix))
