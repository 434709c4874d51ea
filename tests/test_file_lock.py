"""One process holds a lock file at a time, where the system has locks."""

import sys
from pathlib import Path

import pytest

from fedbandit import file_lock

unix = pytest.mark.skipif(sys.platform == "win32", reason="no locks to be taken")


@unix
def test_a_held_lock_is_not_taken_again_until_it_is_released(tmp_path: Path) -> None:
    held = file_lock.acquire(tmp_path / "lock")
    assert held is not None
    assert file_lock.acquire(tmp_path / "lock") is None
    file_lock.release(held)
    again = file_lock.acquire(tmp_path / "lock")
    assert again is not None
    file_lock.release(again)


@unix
def test_a_file_system_without_locks_gives_a_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(_handle: int, _operation: int) -> None:
        raise OSError("Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    handle = file_lock.acquire(tmp_path / "lock")
    assert handle is not None
    file_lock.release(handle)


def test_a_platform_without_locks_gives_a_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    handles = [file_lock.acquire(tmp_path / "lock") for _ in range(2)]
    assert None not in handles
    for handle in handles:
        file_lock.release(handle or 0)


def test_a_file_that_cannot_be_opened_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        file_lock.acquire(tmp_path / "missing" / "lock")
