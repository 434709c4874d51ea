"""No upload counts twice, whatever is sent again, late or out of order, and memory is bounded."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.deduplication import KEPT, ForgottenLife, MergedUploads


@dataclass
class Device:
    """One life of an agent: it knows when it was born and what it has sent."""

    life: bytes
    born: int
    sequence: int = 0
    sent: list[int] = field(default_factory=list)


@given(st.data())
def test_every_upload_is_merged_at_most_once(data: st.DataObject) -> None:
    uploads, devices = MergedUploads(), list[Device]()
    merged: dict[tuple[bytes, int], int] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        act = data.draw(st.sampled_from(["join", "send", "copy"]))
        if act == "join" or not devices:
            devices.append(Device(len(devices).to_bytes(16), uploads.known))
            continue
        device = data.draw(st.sampled_from(devices))
        if act == "send" or not device.sent:
            device.sequence += 1
            device.sent.append(device.sequence)
            sequence = device.sequence
        else:
            sequence = data.draw(st.sampled_from(device.sent))
        key = (device.life, sequence)
        try:
            copied = uploads.copy_of(device.life, born=device.born, sequence=sequence)
        except ForgottenLife:
            continue
        if copied is None:
            assert key not in merged
            merged[key] = len(merged) + 1
            uploads = uploads.noting(
                device.life, born=device.born, sequence=sequence, version=merged[key]
            )
        else:
            assert key in merged
            assert copied in (merged[key], 0)
        assert len(uploads.lives) <= KEPT
        assert uploads.floor <= uploads.known


@given(st.integers(0, 40))
def test_a_life_that_joins_now_is_let_in(lives: int) -> None:
    uploads = MergedUploads()
    for version in range(1, lives + 1):
        life, born = version.to_bytes(16), uploads.known
        assert uploads.copy_of(life, born=born, sequence=1) is None
        uploads = uploads.noting(life, born=born, sequence=1, version=version)
    assert uploads.copy_of(b"new", born=uploads.known, sequence=1) is None
    assert uploads.known == lives


def test_the_lives_that_uploaded_last_are_remembered() -> None:
    uploads = MergedUploads()
    for version in range(1, KEPT + 1):
        uploads = uploads.noting(bytes([version]), born=version - 1, sequence=1, version=version)
    uploads = uploads.noting(b"\x01", born=0, sequence=2, version=KEPT + 1)
    uploads = uploads.noting(b"new", born=KEPT, sequence=1, version=KEPT + 2)
    assert set(uploads.lives) == {b"\x01", b"new", *(bytes([i]) for i in range(3, KEPT + 1))}
    assert uploads.copy_of(b"\x01", born=0, sequence=2) == KEPT + 1
    assert uploads.copy_of(b"\x01", born=0, sequence=1) == 0
    with pytest.raises(ForgottenLife) as caught:
        uploads.copy_of(b"\x02", born=1, sequence=1)
    assert caught.value.field == "life"


def test_a_birth_that_has_not_come_is_refused() -> None:
    with pytest.raises(InvalidMessage) as caught:
        MergedUploads().copy_of(b"life", born=1, sequence=1)
    assert caught.value.field == "born"


def test_a_sequence_may_skip() -> None:
    uploads = MergedUploads().noting(b"life", born=0, sequence=7, version=1)
    assert uploads.copy_of(b"life", born=0, sequence=9) is None
    assert uploads.copy_of(b"life", born=0, sequence=3) == 0
