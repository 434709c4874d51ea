"""``fedbandit quickstart`` as a process: it answers, ends cleanly, and goes on from there."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from fedbandit.cli import main
from fedbandit.cli.quickstart.places import MODEL
from fedbandit.cli.quickstart.shop import BY_CHANCE, DRINKS, visitor
from fedbandit.service.storage.opening import open_store
from tests.edge.sidecar import ask

WORDS = ["quickstart", "--dir", "here", "--rate", "60"]
WORDS += ["--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0"]


@contextmanager
def started(place: Path, *more: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run it in a directory; yield what it says until it is ready."""
    with subprocess.Popen(
        [sys.executable, "-m", "fedbandit.cli", *WORDS, *more],
        cwd=place,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FEDBANDIT_COMPILE": "0"},
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line == "Ctrl-C ends it\n":
                    break
            yield said, process
        finally:
            process.kill()


def merged(place: Path) -> int:
    store = open_store(f"sqlite:///{place}/here/fedbandit.db")
    try:
        return store.model(MODEL).count
    finally:
        store.close()


def test_it_runs_ends_and_goes_on(tmp_path: Path) -> None:
    with started(tmp_path) as (said, process):
        board = re.findall(r"^board +(\S+)$", said, re.MULTILINE)[0]
        token = re.findall(r"^admin token +(\S+)$", said, re.MULTILINE)[0]
        sidecar = re.findall(r"^sidecar +(\S+)/docs$", said, re.MULTILINE)[0]
        metrics = Request(f"{board}metrics", headers={"Authorization": f"Bearer {token}"})
        with urlopen(metrics, timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{board}metrics", timeout=10)
        actions = [{"id": "tea"}, {"id": "coffee"}]
        decided = ask(f"{sidecar}/rank", {"eventId": "mine-1", "actions": actions})
        assert decided["rewardActionId"] in ("tea", "coffee")
        assert ask(f"{sidecar}/events/mine-1/reward", {"value": 1}) == 204
        assert process.stdout is not None
        assert "visitors" in process.stdout.readline()  # the first, after ten seconds
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0
        assert re.search(r"^\d+ uploads, [\d,]+ bytes up and down; kept in here$", rest, re.M)
        for gone in (board, sidecar):
            with pytest.raises(URLError):
                urlopen(f"{gone}/healthz", timeout=10)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    for secret in tmp_path.glob("here/*.token"):
        assert secret.stat().st_mode & 0o077 == 0
    before = merged(tmp_path)
    assert before > 0
    with started(tmp_path, "--seconds", "1") as (said, process):
        assert token in said
        assert process.wait(60) == 0
    assert merged(tmp_path) >= before


def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart", "--dir", "/proc/nowhere"]) == 2
    told = capsys.readouterr().err
    assert "'/proc/nowhere' cannot be written" in told
    assert "Choose another --dir." in told


def test_an_address_that_cannot_be_had(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quickstart", "--dir", str(tmp_path / "q"), "--listen", "203.0.113.7:0"]
    assert main(words) == 2
    assert "fedbandit serve did not start: " in capsys.readouterr().err


def test_a_drink_drawn_by_lot_is_bought_as_often_as_is_said() -> None:
    chance = np.random.default_rng(0)
    drawn = [visitor(chance).chances for _ in range(50)]
    for chances in drawn:
        assert set(chances) == {drink["id"] for drink in DRINKS}
        assert np.mean(list(chances.values())) == pytest.approx(BY_CHANCE)
