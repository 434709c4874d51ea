"""Batches of syncs: decoded, checked, then merged and committed together."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fedbandit import wire
from fedbandit.errors import InvalidMessage, UnknownName
from fedbandit.service.merging.commit import Committer, rules_of
from fedbandit.service.merging.sorting import CheckedSync
from fedbandit.service.merging.sync import ModelGone, ModelRef, Outcome, SyncRequest
from fedbandit.service.models.model import Served, recipe_of
from fedbandit.service.refusal import Refusal, failed, refused
from fedbandit.service.storage.contract import Store
from fedbandit.service.validation.influence import restrained
from fedbandit.service.validation.upload import check_recipe, check_sync

_log = logging.getLogger("fedbandit.service")
_QUIET = 1.0  # seconds between two lines


class StoreMerger:
    """Merges batches into the models of a store, one batch of a model at a time.

    Any thread may use it, with batches of different models.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, tuple[Served, Committer]] = {}
        self._said = -_QUIET

    def merge(self, ref: ModelRef, requests: Sequence[SyncRequest]) -> list[Outcome]:
        """Merge a batch durably and return the outcome of each sync.

        Raises ModelGone; LocalError if the store failed, and then both are possible: all of it was
        merged, or nothing.
        """
        try:
            served, committer = self._opened(ref)
            checked = [self._checked(served, each) for each in requests]
            if any(isinstance(each, Refusal) for each in checked) and self._is_outdated(served):
                self._open.pop(ref.model, None)  # refused by rules that were changed meanwhile
                return self.merge(ref, requests)
            batch = [each for each in checked if isinstance(each, CheckedSync)]
            committed = iter(committer.commit(batch) if batch else ())
        except (ModelGone, UnknownName) as error:
            self._open.pop(ref.model, None)
            raise ModelGone from error
        return [each if isinstance(each, Refusal) else next(committed) for each in checked]

    def check(self) -> None:
        """Write to the store."""
        self._store.ping()

    def _is_outdated(self, served: Served) -> bool:
        """Say whether the rules that uploads are checked by were changed in the store."""
        return rules_of(self._store.model(served.model.name)) != rules_of(served.model)

    def _opened(self, ref: ModelRef) -> tuple[Served, Committer]:
        known = self._open.get(ref.model)
        if known is None or known[0].model.incarnation != ref.incarnation:
            model = self._store.model(ref.model)
            if model.incarnation != ref.incarnation:
                raise ModelGone
            served = Served(model, recipe_of(model))
            known = self._open[ref.model] = served, Committer(self._store, served)
        return known

    def _checked(self, served: Served, request: SyncRequest) -> CheckedSync | Refusal:
        try:
            sync = wire.decode_sync(
                request.body,
                dimension=served.recipe.dimension,
                check_sender=partial(check_recipe, served),
            )
            check_sync(served, sync)
            upload = restrained(served, sync.upload)
            if upload is not sync.upload:
                sync = replace(sync, upload=upload)
        except InvalidMessage as error:
            return refused(error)
        except Refusal as refusal:
            return refusal
        except Exception as error:  # refuses this sync alone, not the whole batch
            self._say(f"checking a sync failed: {type(error).__name__}")
            return failed()
        return CheckedSync(request.agent, sync, len(request.body), request.token)

    def _say(self, words: str) -> None:
        """Log it, but not as often as an agent likes."""
        now = time.monotonic()
        if now - self._said >= _QUIET:
            self._said = now
            _log.error("%s", words)
