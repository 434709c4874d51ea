"""A coordinator of one's own, for as long as a test runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedbandit import wire
from fedbandit.client import ConnectedAgent, connect
from fedbandit.core.messages import Download
from fedbandit.core.recipe import Recipe
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas
from fedbandit.service.models.model import DEFAULT_LIMITS, new_model
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import new_token
from fedbandit.wire import Limits

_ASKS_FOR_TOKENS = Settings(remember_seconds=0.0)


@dataclass(frozen=True, slots=True)
class RunningCoordinator:
    """A coordinator at ``url`` that serves ``model`` and asks for tokens."""

    url: str
    model: str
    store: Store

    def token(self, agent: str) -> str:
        """Return a new token that opens this agent."""
        secret, token = new_token(model=self.model, agent=agent)
        self.store.add_token(token)
        return secret

    def connect(self, agent: str, **options: Any) -> ConnectedAgent:
        """Return an agent with a token of its own; ``options`` are those of ``fb.connect``."""
        return connect(self.url, model=self.model, agent=agent, token=self.token(agent), **options)

    def state(self) -> Download:
        """Return everything that it has merged, as it is stored."""
        return wire.decode_download(self.store.state(self.model)[1])


@contextmanager
def coordinator(
    recipe: Recipe,
    *,
    model: str = "model",
    limits: Limits = DEFAULT_LIMITS,
    quotas: Quotas = NO_QUOTAS,
    store: Store | None = None,
    settings: Settings = _ASKS_FOR_TOKENS,
) -> Iterator[RunningCoordinator]:
    """Serve a model of this recipe on a free port of this machine while the block runs.

    It is the real coordinator, over real HTTP, in a thread of this process; it merges in threads,
    too, where ``fedbandit serve`` has a process for that. ``store`` is one of your own, and is
    closed at the end; a model of that name in it is gone on from, whatever its recipe. By default
    it is SQLite in a temporary directory.
    """
    new = new_model(model, recipe, limits=limits, quotas=quotas)
    with TemporaryDirectory(prefix="fedbandit-testing-") as place:
        if store is None:
            store = open_store(f"sqlite:///{Path(place) / 'store.db'}", create=True)
        if all(each.name != model for each in store.models()):
            store.create(*new)
        with private_coordinator(store, model=model, recipe=recipe, settings=settings) as url:
            yield RunningCoordinator(url, model, store)
