"""A journal keeps whole records, whatever happens to its end or to its disk."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.client.state.journal import Content, Journal, read, split
from fedbandit.errors import InvalidState, OutputError
from tests.client.faults import disk_full_at

PAYLOADS = [b"a", b"bc" * 40, bytes(100), b"\x00", b"last"]
ANY = re.compile(b"(?=.)", re.DOTALL)


def journal_of(path: Path, payloads: list[bytes]) -> Journal:
    made = Journal.create(path, payloads)
    made.rename(path)
    return made


def resumed(path: Path) -> tuple[Journal, Content]:
    content = read(path, opening=ANY)
    return Journal.resume(path, content), content


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8))
def test_what_was_appended_is_there(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("j") / "journal"
    made = journal_of(path, payloads[:3])
    for payload in payloads[3:]:
        made.append(payload)
    made.close()
    again, content = resumed(path)
    again.close()
    assert (content.payloads, content.torn) == (payloads, 0)


def test_cut_at_every_byte_the_whole_records_before_it_are_there(tmp_path: Path) -> None:
    journal_of(tmp_path / "whole", PAYLOADS).close()
    data = (tmp_path / "whole").read_bytes()
    ends = [8 + len(p) for p in PAYLOADS]
    ends = [sum(ends[: i + 1]) for i in range(len(ends))]
    for cut in range(ends[0], len(data) + 1):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        content = read(path, opening=ANY)
        assert path.read_bytes() == data[:cut]  # looking changes nothing
        assert content == Content(PAYLOADS[:whole], ends[whole - 1], cut - ends[whole - 1])
        journal = Journal.resume(path, content)
        journal.append(b"goes on")
        journal.close()
        assert split(path.read_bytes())[0] == [*PAYLOADS[:whole], b"goes on"]


@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_damaged_byte_ends_the_journal_there(place: int, flip: int) -> None:
    frames = [len(p).to_bytes(4, "little") for p in PAYLOADS]
    assert frames  # the layout below is the documented one, made by hand
    from zlib import crc32

    data = b"".join(
        size + crc32(p).to_bytes(4, "little") + p for size, p in zip(frames, PAYLOADS, strict=True)
    )
    assert split(data) == (PAYLOADS, len(data))
    damaged = bytearray(data)
    damaged[place % len(data)] ^= flip
    found, end = split(bytes(damaged))
    assert found == PAYLOADS[: len(found)]
    assert end <= place % len(data)


@pytest.mark.parametrize("bit", range(8))
def test_damage_is_told_from_a_torn_end_and_the_file_left_alone(tmp_path: Path, bit: int) -> None:
    journal_of(tmp_path / "j", PAYLOADS).close()
    data = (tmp_path / "j").read_bytes()
    last = len(data) - len(PAYLOADS[-1]) - 8
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        (tmp_path / "j").write_bytes(damaged)
        longer = last <= place < last + 4 and damaged[place] > data[place]
        if longer:  # this is what a record that was not finished looks like
            assert read(tmp_path / "j", opening=ANY).payloads == PAYLOADS[:-1]
        else:
            with pytest.raises(InvalidState, match="left as it is"):
                read(tmp_path / "j", opening=ANY)
        assert (tmp_path / "j").read_bytes() == damaged


def test_zeros_at_the_end_are_no_records(tmp_path: Path) -> None:
    journal_of(tmp_path / "j", PAYLOADS).close()
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole + bytes(4096))
    journal, content = resumed(tmp_path / "j")
    journal.close()
    assert (content.payloads, content.torn) == (PAYLOADS, 4096)
    assert (tmp_path / "j").read_bytes() == whole


@pytest.mark.parametrize("room", [0, 1, 7, 8, 9, 500])
def test_a_full_disk_leaves_no_part_of_a_record(tmp_path: Path, room: int) -> None:
    journal = journal_of(tmp_path / "j", PAYLOADS)
    before = (tmp_path / "j").read_bytes()
    with (
        disk_full_at(len(before) + room),
        pytest.raises(OutputError, match="Free some space"),
    ):
        journal.append(bytes(1000))
    assert (tmp_path / "j").read_bytes() == before
    journal.append(b"room again")
    journal.close()
    assert split((tmp_path / "j").read_bytes())[0] == [*PAYLOADS, b"room again"]


def test_a_new_journal_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    journal_of(tmp_path / "j", PAYLOADS).close()
    with disk_full_at(50), pytest.raises(OutputError):
        Journal.create(tmp_path / "j", [bytes(1000)])
    assert os.listdir(tmp_path) == ["j"]
    assert split((tmp_path / "j").read_bytes())[0] == PAYLOADS
