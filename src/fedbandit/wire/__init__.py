"""Messages as bytes: MessagePack, with arrays as a shape and raw little-endian bytes.

``encode`` and ``decode`` are for the core's messages; ``decode_upload`` and ``decode_download`` for
those of one kind. Over HTTP these are sent inside envelopes,
which add the recipe's fingerprint and the number of the upload: an agent posts a ``Sync`` and gets
a ``Synced``; an agent that joins or catches up gets a ``Joined``. docs/wire.md describes every
field, for clients in other languages. Decoding any bytes raises nothing but InvalidMessage, whose
``field`` names the place.
"""

from typing import Final

from fedbandit.wire.decoding import FORMAT, FORMATS, WIDTH
from fedbandit.wire.envelopes import (
    LARGEST,
    LIFE_BYTES,
    Joined,
    Limits,
    Sync,
    Synced,
    decode_joined,
    decode_sync,
    decode_synced,
    digest,
    encode_joined,
    encode_sync,
    encode_synced,
    fingerprint,
    fingerprints,
    state_path,
    synced_head,
    synced_rest,
)
from fedbandit.wire.messages import decode, decode_download, decode_upload, encode
from fedbandit.wire.shadow import ShadowSums, check_shadow

MEDIA_TYPE: Final = "application/vnd.fedbandit+msgpack"

__all__ = [
    "FORMAT",
    "FORMATS",
    "LARGEST",
    "LIFE_BYTES",
    "MEDIA_TYPE",
    "WIDTH",
    "Joined",
    "Limits",
    "ShadowSums",
    "Sync",
    "Synced",
    "check_shadow",
    "decode",
    "decode_download",
    "decode_joined",
    "decode_sync",
    "decode_synced",
    "decode_upload",
    "digest",
    "encode",
    "encode_joined",
    "encode_sync",
    "encode_synced",
    "fingerprint",
    "fingerprints",
    "state_path",
    "synced_head",
    "synced_rest",
]
