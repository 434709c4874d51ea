"""Coverage-guided fuzzing of the decoders: ``python tools/fuzz_wire.py -runs=1000000``.

Feeds bytes that atheris grows towards new branches to every decoder of ``fedbandit.wire``. Where a
sync comes out, it is held against the door of a model of sketches and of one of matrices; and what
passes is merged. Nothing but InvalidMessage and Refusal may be raised, what was merged must be a
state that a restart takes, and what was refused must have changed nothing.
"""

import contextlib
import os
import sys
from collections.abc import Callable

import atheris

os.environ["FEDBANDIT_COMPILE"] = "0"  # what is instrumented cannot be compiled

with atheris.instrument_imports(include=["fedbandit.wire", "fedbandit.service"]):
    import fedbandit as fb
    from fedbandit import wire
    from fedbandit.errors import InvalidMessage
    from fedbandit.service.bookkeeping.recipes import server_at
    from fedbandit.service.merging.merge import merge
    from fedbandit.service.models.model import Served, new_model
    from fedbandit.service.refusal import Refusal
    from fedbandit.service.validation.upload import check_sync

import numpy as np

RECIPES = (
    fb.FSCLB(dimension=3, sketch_size=3, agents=2),
    fb.FedLinUCB(dimension=3, agents=2),
)
SERVED = tuple(Served(new_model("fuzz", recipe)[0], recipe) for recipe in RECIPES)
DECODERS: tuple[Callable[[bytes], object], ...] = (
    wire.decode,
    wire.decode_sync,
    wire.decode_synced,
    wire.decode_joined,
)


def try_bytes(data: bytes) -> None:
    """Decode the bytes as everything there is; let a sync pass the doors, and merge it."""
    for decode in DECODERS:
        with contextlib.suppress(InvalidMessage):
            message = decode(data)
            if isinstance(message, wire.Sync):
                for served in SERVED:
                    try_sync(served, message)


def try_sync(served: Served, sync: wire.Sync) -> None:
    """Merge a sync twice into an empty model, if it is let in."""
    server = served.recipe.server()
    for _ in range(2):
        before = wire.encode(server.download())
        try:
            check_sync(served, sync)
            merge(served.recipe, server, [sync.upload])
        except (InvalidMessage, Refusal):
            if wire.encode(server.download()) != before:
                raise AssertionError("a refused upload has changed the state") from None
            return
        server_at(served.recipe, wire.encode(server.download()))


def seeds() -> list[bytes]:
    """Return messages to start from, empty ones and such as agents send, of both kinds."""
    found = []
    for served in SERVED:
        mark, life = served.model.fingerprint, bytes(16)
        upload, server = observed(served.recipe), served.recipe.server()
        empty = server.download()
        server.receive(upload)
        for told in (empty, server.download()):
            sent = fb.Upload(0, fb.Statistics(told.summary, told.moment, max(told.count, 1)))
            limits = served.model.limits
            joined = wire.Joined(mark, served.recipe.name, b"{}", limits, told)
            found += [
                wire.encode(sent),
                wire.encode(told),
                wire.encode_sync(wire.Sync(mark, life, 1, sent)),
                wire.encode_synced(wire.Synced(mark, True, 1, 1, told)),
                wire.encode_joined(joined),
            ]
    return found


def observed(recipe: fb.Recipe) -> fb.Upload:
    """Return an upload of three observations."""
    agent = recipe.agent(0)
    for arm in np.eye(3):
        made = agent.observe(arm, 0.5)
        if made is not None:
            return made
    made = agent.receive(fb.Collect())
    if made is None:
        raise AssertionError("nothing was observed")
    return made


def main() -> None:
    """Fuzz, starting from whole messages; the options are libFuzzer's."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        for number, seed in enumerate(seeds()):
            (Path(place) / f"{number}").write_bytes(seed)
        atheris.Setup([*sys.argv, place], try_bytes)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
