"""The audit log: whole lines, bounded, and never in the way."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fedbandit.service.access.audit import AuditLog, note_locally
from tests.client.faults import disk_full_at, eventually


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_what_is_noted_is_there_in_order_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(path)
    for number in range(100):
        log.note("sync", model="news", agent=f"a{number}", received=number)
    log.close()
    assert [line["agent"] for line in lines_of(path)] == [f"a{number}" for number in range(100)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_refusals_of_one_kind_share_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(path)
    for _ in range(10_000):
        log.refused("192.0.2.1", 401, "authorization")
    log.refused("192.0.2.2", 422, "upload.count")
    log.close()
    lines = lines_of(path)
    assert len(lines) < 10
    counts = {line["from"]: 0 for line in lines}
    for line in lines:
        counts[line["from"]] += line["count"]
    assert counts == {"192.0.2.1": 10_000, "192.0.2.2": 1}


def test_refusals_from_very_many_addresses_are_lumped(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(path)
    for number in range(50_000):
        log.refused(f"address-{number}", 401, "authorization")
    log.close()
    lines = lines_of(path)
    assert len(lines) <= 1001 * 5  # of a second each
    assert sum(line["count"] for line in lines) == 50_000


def test_both_files_together_are_bounded(tmp_path: Path) -> None:
    path, most = tmp_path / "audit", 20_000
    for turn in range(30):
        log = AuditLog(path, most_bytes=most)
        for number in range(40):
            log.note("sync", turn=turn, number=number)
        log.close()
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 1.2 * most
    assert {each.name for each in tmp_path.iterdir()} <= {"audit", "audit.1"}


def repeat(log: AuditLog, times: int, *, agent: str = "a", address: str = "192.0.2.1") -> None:
    for _ in range(times):
        log.repeated(
            "sync", address=address, token="t", received=3, sent=5, model="news", agent=agent
        )


def test_what_an_agent_does_again_and_again_shares_a_line(tmp_path: Path) -> None:
    """Or one with a token could push out of the log what others did, and it itself before."""
    path = tmp_path / "audit"
    log = AuditLog(path)
    repeat(log, 5000)
    repeat(log, 1, agent="b")
    repeat(log, 7, address="192.0.2.2")
    log.close()
    lines = lines_of(path)
    assert [(each["agent"], each["from"], each.get("count", 1)) for each in lines] == [
        ("a", "192.0.2.1", 1),
        ("b", "192.0.2.1", 1),
        ("a", "192.0.2.2", 1),
        ("a", "192.0.2.2", 5005),
    ]
    assert sum(each["received"] for each in lines) == 3 * 5008
    assert sum(each["sent"] for each in lines) == 5 * 5008


def test_an_agent_with_many_addresses_has_few_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    for number in range(5000):
        repeat(log, 1, address=f"address-{number}")
    log.close()
    lines = lines_of(tmp_path / "audit")
    assert len(lines) == 9
    assert sum(each.get("count", 1) for each in lines) == 5000


def test_a_line_is_shared_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    path = tmp_path / "audit"
    log = AuditLog(path)
    repeat(log, 10)
    now += 59.0
    repeat(log, 10)
    now += 2.0
    assert eventually(lambda: len(lines_of(path)) == 2)  # written though nothing more is done
    repeat(log, 1)
    log.close()
    assert [each.get("count") for each in lines_of(path)] == [None, 19, None]


def test_what_is_done_rarely_outlives_any_flood(tmp_path: Path) -> None:
    path, most = tmp_path / "audit", 20_000
    note_locally(path, "token created", token="first")
    for turn in range(30):
        log = AuditLog(path, most_bytes=most)
        for number in range(40):
            log.note("sync", turn=turn, number=number)
            log.refused(f"address-{number}", 401, "authorization")
        log.note("renew", made=f"token-{turn}")
        log.close()
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 1.5 * most
    lines = [line for each in tmp_path.iterdir() for line in lines_of(each)]
    assert {line["token"] for line in lines if line["what"] == "token created"} == {"first"}
    assert {line["made"] for line in lines if line["what"] == "renew"} == {
        f"token-{turn}" for turn in range(30)
    }


def test_also_what_is_done_rarely_is_bounded(tmp_path: Path) -> None:
    path, most = tmp_path / "audit", 20_000
    for _ in range(30):
        log = AuditLog(path, most_bytes=most)
        for number in range(40):
            log.note("renew", number=number)
        log.close()
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 1.5 * most


def test_lines_that_find_no_room_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    failures: list[OSError] = []
    log = AuditLog(path, failed=failures.append)
    with disk_full_at(0):
        log.note("sync", agent="lost")
        assert eventually(lambda: bool(failures))
    log.note("sync", agent="kept")
    log.close()
    found = lines_of(path)
    assert [line.get("agent") for line in found if line["what"] == "sync"] == ["kept"]
    assert sum(line["count"] for line in found if line["what"] == "dropped") == 1


def test_noting_never_waits_and_never_grows_without_end(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    for number in range(200_000):
        log.note("sync", number=number)
    log.close()
    found = lines_of(tmp_path / "audit")
    dropped = sum(line["count"] for line in found if line["what"] == "dropped")
    assert sum(line["what"] == "sync" for line in found) + dropped == 200_000


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        AuditLog(tmp_path / "nowhere" / "audit")


def test_commands_of_several_processes_leave_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    threads = [
        threading.Thread(target=note_locally, args=(path, "token created"), kwargs={"token": "t"})
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lines_of(path)
    assert len(found) == 20
    assert all(line["what"] == "token created" and line["user"] for line in found)
