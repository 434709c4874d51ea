"""From the bytes of syncs to their answers: decoded, checked at the door, merged and committed."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fedbandit import wire
from fedbandit.errors import InvalidMessage
from fedbandit.service.merging.commit import Answer, Committer, Posted, Revoked
from fedbandit.service.merging.commit import Outcome as Committed
from fedbandit.service.merging.validation import check_sync
from fedbandit.service.models.deduplication import UnreadableLedger
from fedbandit.service.models.model import Served
from fedbandit.service.refusal import Refusal, failed, not_now, refused, unauthorised
from fedbandit.service.storage.contract import Store

_log = logging.getLogger("fedbandit.service")


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """The body of a sync, who sent it, and the digest of the token that was shown, if any."""

    agent: str
    body: bytes
    token: bytes | None = None


Outcome = Answer | Refusal


class Intake:
    """Takes in what is sent to one model, one batch at a time."""

    def __init__(self, store: Store, served: Served) -> None:
        self._committer, self._served = Committer(store, served), served

    def take(self, arrived: Sequence[Arrived]) -> list[Outcome]:
        """Return the outcome of each sync, those merged durably so; raise if it is not known."""
        checked = [self._check(each) for each in arrived]
        posted = [each for each in checked if isinstance(each, Posted)]
        committed = iter(self._committer.commit(posted) if posted else ())
        return [
            each if isinstance(each, Refusal) else _outcome(next(committed)) for each in checked
        ]

    def _check(self, arrived: Arrived) -> Posted | Refusal:
        try:
            sync = wire.decode_sync(arrived.body)
            check_sync(self._served, sync)
        except InvalidMessage as error:
            return refused(error)
        except Refusal as refusal:
            return refusal
        except Exception as error:  # nobody else's upload is to fail for this one
            _log.error("a check failed: %s", type(error).__name__)
            return failed()
        return Posted(arrived.agent, sync, len(arrived.body), arrived.token)


def _outcome(committed: Committed) -> Outcome:
    match committed:
        case Answer():
            return committed
        case Revoked():
            return unauthorised()
        case UnreadableLedger() as error:
            _log.error("%s", error)
            return not_now("store", "what it holds of this agent cannot be read")
        case error:
            return refused(error)
