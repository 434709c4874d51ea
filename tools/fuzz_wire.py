"""Coverage-guided fuzzing of the decoders: ``python tools/fuzz_wire.py -runs=1000000``.

Feeds bytes that atheris grows towards new branches to every decoder of ``fedbandit.wire`` and,
where a sync comes out, to the door of a coordinator. Nothing but InvalidMessage and Refusal may be
raised.
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
    from fedbandit.service.door import check_sync
    from fedbandit.service.model import Served, new_model
    from fedbandit.service.refusal import Refusal

RECIPE = fb.FSCLB(dimension=3, sketch_size=3, agents=2)
SERVED = Served(new_model("fuzz", RECIPE)[0], RECIPE)
DECODERS: tuple[Callable[[bytes], object], ...] = (
    wire.decode,
    wire.decode_sync,
    wire.decode_synced,
    wire.decode_joined,
)


def try_bytes(data: bytes) -> None:
    """Decode the bytes as everything there is, and check what a sync would have to pass."""
    for decode in DECODERS:
        with contextlib.suppress(InvalidMessage, Refusal):
            message = decode(data)
            if isinstance(message, wire.Sync):
                check_sync(SERVED, message)


def seeds() -> list[bytes]:
    """Return messages to start from."""
    server = RECIPE.server()
    download = server.download()
    upload = fb.Upload(0, download.summary, download.moment, 1)
    mark, life = wire.fingerprint(RECIPE), bytes(16)
    joined = wire.Joined(mark, "FSCLB", b"{}", SERVED.model.limits, download)
    return [
        wire.encode(upload),
        wire.encode(download),
        wire.encode_sync(wire.Sync(mark, life, 1, upload)),
        wire.encode_synced(wire.Synced(mark, True, 1, 1, download)),
        wire.encode_joined(joined),
    ]


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
