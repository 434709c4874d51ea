"""Refusals quote what was sent, and are shown in terminals: nothing in them steers one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit import wire
from fedbandit.errors import InvalidMessage
from tests.service.made_uploads import RECIPE, sync_for

_SYNC = msgspec.msgpack.decode(wire.encode_sync(sync_for(RECIPE, 1, sequence=1)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_refusal_can_be_printed(sent: str) -> None:
    tag = f"\x1b]0;x\x07\u202e{sent}"
    with pytest.raises(InvalidMessage) as told:
        wire.decode_sync(msgspec.msgpack.encode([tag, *_SYNC[1:]]))
    assert "Invalid value" in str(told.value)
    assert str(told.value).isprintable()
