"""What the background thread does: settles, tidies, joins and delivers."""

from http import HTTPStatus

from fedbandit import wire
from fedbandit.client.state.agent_state import Account
from fedbandit.client.state.outbox import Outbox
from fedbandit.client.transport import Transport
from fedbandit.core.messages import Upload
from fedbandit.errors import Refused, Unreachable, complaint

_LOOK = 60.0  # seconds until a disk that failed while deciding is noticed, if by nothing else


class Courier:
    """Carries uploads to the coordinator and what it answers back. For one thread.

    ``joined``: whether the coordinator has told everything since this life began or started again.
    """

    def __init__(self, account: Account, transport: Transport, *, joined: bool) -> None:
        self.uploads = self.bytes_up = self.bytes_down = 0
        self._account, self._transport, self._joined = account, transport, joined
        self._tried = True  # what a journal had in flight may have been sent

    def tend(self) -> float:
        """Settle what was not paid in time, shorten the journal; return when to look again."""
        pause = self._account.settle_overdue()
        self._account.tidy()
        return _LOOK if pause is None else min(pause, _LOOK)

    def due(self) -> bool:
        """Say whether there is anything to deliver or to ask the coordinator."""
        return not self._joined or not self._account.outbox.empty

    def deliver(self) -> None:
        """Join if that has not been done, else deliver one upload and learn from the answer."""
        if not self._joined:
            self._join()
            return
        outbox, new = self._account.freeze()
        if outbox.in_flight is None:
            return
        first, self._tried = new or not self._tried, True
        try:
            self._sync(self._body(outbox, outbox.in_flight), outbox.sequence)
        except Refused as error:
            if _about_the_upload(error):
                self._join()  # the limits may have changed; and it must be the same model
                self._account.set_aside(str(error))
                return
            unknown = error.field == "born"  # the coordinator was set back to before this life
            if error.status != HTTPStatus.GONE and not unknown:
                raise
            self._tried = not (first or unknown)
            self._begin_another_life(again=not self._tried)
            raise Unreachable(str(error)) from error  # soon again, but not at once, for ever

    def end(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _join(self) -> None:
        digest = self._account.digest
        answer = self._transport.exchange(wire.state_path(digest))
        self._account.catch_up(wire.decode_joined(answer))
        self.bytes_down += len(answer)
        self._joined = True

    def _sync(self, body: bytes, sequence: int) -> None:
        """Deliver what is in flight, under its number.

        An answer to an older copy means that this life has been further than we know, since our
        state was brought back from a copy: what comes next must not be taken for copies too.
        """
        answer = self._transport.exchange("sync", body)
        synced = wire.decode_synced(answer)
        if synced.sequence != sequence:
            self._transport.close()  # whatever else comes that way is not for us either
            raise _another_answer(synced.sequence, sequence)
        self.uploads += 1
        self.bytes_up += len(body)
        self.bytes_down += len(answer)
        self._account.acknowledge(synced)
        if not synced.merged and synced.version == 0:
            self._begin_another_life(again=False)

    def _begin_another_life(self, *, again: bool) -> None:
        self._account.begin_another_life(again=again)
        self._joined = False

    def _body(self, outbox: Outbox, upload: Upload) -> bytes:
        name, born = self._account.fingerprint, outbox.born or 0
        return wire.encode_sync(wire.Sync(name, outbox.life, outbox.sequence, upload, born))


def _about_the_upload(error: Refused) -> bool:
    """Say whether what is in the upload itself was refused, so that it always will be.

    Its fields, or its size, if it is the coordinator who says that a sync of the model is never so
    large. A proxy in between that says so names no field, and can be told to let more through.
    """
    if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return error.field == "body"
    inside = error.field == "upload" or error.field.startswith("upload.")
    return inside and error.status == HTTPStatus.UNPROCESSABLE_ENTITY


def _another_answer(got: int, expected: int) -> Unreachable:
    fix = "Nothing is lost: it is sent again. See what stands between here and the coordinator."
    wanted = f"one to upload {expected}"
    return Unreachable(complaint("answer", got=f"one to upload {got}", expected=wanted, fix=fix))
