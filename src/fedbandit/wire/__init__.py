"""Messages as bytes: MessagePack, arrays as their shape and their raw little-endian bytes.

``encode`` and ``decode`` carry the core's messages. Over HTTP they travel in envelopes that say for
which recipe they are and which upload of which agent: an agent posts a ``Sync`` and is answered
with a ``Synced``; one that joins or catches up gets a ``Joined``. docs/wire.md describes every
field, for clients in other languages. Whatever the bytes, decoding raises nothing but
InvalidMessage, and its ``field`` says where.
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
    state_path,
    synced_head,
    synced_rest,
)
from fedbandit.wire.messages import decode, encode

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
    "Sync",
    "Synced",
    "decode",
    "decode_joined",
    "decode_sync",
    "decode_synced",
    "digest",
    "encode",
    "encode_joined",
    "encode_sync",
    "encode_synced",
    "fingerprint",
    "state_path",
    "synced_head",
    "synced_rest",
]
