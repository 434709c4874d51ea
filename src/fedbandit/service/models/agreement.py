"""Whether a model and what is remembered of its agents' uploads are of one instant."""

from fedbandit.errors import StoreError
from fedbandit.service.storage.contract import Store


def check_agreement(store: Store) -> None:
    """Raise StoreError if agents' uploads are more than their model has merged.

    Both are written in one transaction, so that tells of a file that was mixed up: written to while
    a backup was put in its place, or with the log of another file beside it. Fewer can be right:
    a version also counts how often a model was set back, and records may have been deleted.
    """
    tallies = store.tallies()
    for model in store.models():
        uploads = tallies.get(model.name, 0)
        if uploads > model.version:
            said = f"Model {model.name} has merged {model.version} uploads, its agents' records say"
            fix = "Stop every coordinator, delete the files -wal and -shm, and restore a backup."
            raise StoreError(f"{said} {uploads}. The store is mixed up. {fix}")
