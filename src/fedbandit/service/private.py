"""A coordinator in a thread of this process, for as long as a block runs."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from fedbandit.core.recipe import Recipe
from fedbandit.errors import OutputError
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.address import Address
from fedbandit.service.http.guard import guarded
from fedbandit.service.merging.precompile import precompile
from fedbandit.service.models.model import new_model
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from fedbandit.web.listening import listen, url_of, uvicorn_config

_HOST = "127.0.0.1"
_OPEN = Settings(open=True)
_PATIENCE = 30.0


@contextmanager
def private_coordinator(
    store: Store | str, *, model: str, recipe: Recipe, settings: Settings = _OPEN
) -> Iterator[str]:
    """Serve one model on a free port of loopback, and yield the URL.

    The store, if it is given by its URL, and the model are created if they do not exist; the store
    is closed at the end. By default no tokens are asked for: only programs on this machine can
    reach it, and only while the block runs.
    """
    if isinstance(store, str):
        store = open_store(store, create=True)
    if all(each.name != model for each in store.models()):
        store.create(*new_model(model, recipe))
    precompile()  # a first request that had to wait for compiling would time out
    listener = listen(_HOST, 0)
    coordinator = Coordinator(store, settings, told_to_stop=lambda: server.should_exit)
    app = guarded(coordinator, Address(host=_HOST, port=0))
    config = uvicorn_config(app, stop_seconds=5)
    server = uvicorn.Server(config)
    thread = Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])),
        name="coordinator",
        daemon=True,
    )
    thread.start()
    try:
        _wait_for(server, thread)
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)
        listener.close()


def _wait_for(server: uvicorn.Server, thread: Thread) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise OutputError(
                "The coordinator did not start. See the messages above for the cause."
            )
        time.sleep(0.005)
