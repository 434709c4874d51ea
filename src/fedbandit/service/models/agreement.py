"""Whether a model and what is remembered of its agents' uploads are of one instant."""

import logging

from fedbandit.errors import StoreError
from fedbandit.service.storage.contract import Store

_log = logging.getLogger("fedbandit.service")


def check_agreement(store: Store) -> None:
    """Raise StoreError if agents' uploads are more than their model has merged.

    Both are written in one transaction, so that tells of a file that was mixed up: written to while
    a backup was put in its place, or with the log of another file beside it. Fewer can be right, if
    what was remembered of an agent was deleted by hand; that is logged.
    """
    tallies = store.tallies()
    for model in store.models():
        uploads, observations = tallies.get(model.name, (0, 0))
        merged = f"Model {model.name} has merged {model.version} uploads of {model.count}"
        noted = f"observations, its agents' records say {uploads} of {observations}"
        if uploads > model.version or observations > model.count:
            fix = "Stop every coordinator, delete the files -wal and -shm, and restore a backup."
            raise StoreError(f"{merged} {noted}. The store is mixed up. {fix}")
        if (uploads, observations) != (model.version, model.count):
            _log.warning("%s %s: copies of what is missing would be merged again", merged, noted)
