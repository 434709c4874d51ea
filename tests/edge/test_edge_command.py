"""``fedbandit edge`` as a process: rank, reward, stop, start again."""

import signal
import threading
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError

import pytest

import fedbandit as fb
from fedbandit import file_lock
from fedbandit.cli import main
from fedbandit.cli.commands.edge import machine_name
from fedbandit.client.state.directory import wait_until_free
from fedbandit.logs import read
from fedbandit.service.private import private_coordinator
from fedbandit.service.storage.opening import open_store
from tests.edge.sidecar import ask, running

QUESTION = {
    "contextFeatures": [{"time": "morning"}],
    "actions": [{"id": "a", "features": [{"topic": "sport"}]}, {"id": "b"}],
}


def test_an_event_outlives_the_sidecar(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=12, sketch_size=5, agents=2, alpha=1e-6)
    store = f"sqlite:///{tmp_path}/c.db"
    with private_coordinator(store, model="news", recipe=recipe) as coordinator:
        with running(coordinator, tmp_path / "edge") as (url, process):
            first, second = ask(f"{url}/rank", QUESTION), ask(f"{url}/rank", QUESTION)
            assert ask(f"{url}/events/{first['eventId']}/reward", {"value": 1.0}) == 204
            process.kill()  # no goodbye
        with running(coordinator, tmp_path / "edge") as (url, process):
            assert ask(f"{url}/events/{second['eventId']}/reward", {"value": 1.0}) == 204
            with pytest.raises(HTTPError, match="409"):
                ask(f"{url}/events/{first['eventId']}/reward", {"value": 1.0})
            assert ask(f"{url}/healthz")["open"] == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        with running(coordinator, tmp_path / "edge") as (url, process):
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    stored = open_store(store)
    assert stored.model("news").count == 2
    stored.close()


def test_in_shadow_mode_with_a_log_it_answers_as_the_rule_does(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
    store, log = f"sqlite:///{tmp_path}/c.db", tmp_path / "log"
    more = ("--shadow", "--log", str(log), "--log-megabytes", "1")
    with private_coordinator(store, model="news", recipe=recipe) as coordinator:
        for turn in range(2):
            with running(coordinator, tmp_path / "edge", *more) as (url, process):
                ranked = ask(f"{url}/rank", QUESTION)
                assert ranked["rewardActionId"] == "a"
                assert ask(f"{url}/events/{ranked['eventId']}/reward", {"value": turn}) == 204
                process.kill()
    events = list(read(log))
    assert [(event.chosen, event.reward) for event in events] == [(0, 0.0), (0, 1.0)]
    assert all(event.own is not None for event in events)
    assert events[0].context == [{"time": "morning"}]


def test_started_again_at_once_it_waits_for_its_state_dir(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
    store, place = f"sqlite:///{tmp_path}/c.db", tmp_path / "edge"
    with (
        private_coordinator(store, model="news", recipe=recipe) as coordinator,
        running(coordinator, place) as (_, first),
    ):
        assert not wait_until_free(place, seconds=0.0)
        first.send_signal(signal.SIGTERM)
        with running(coordinator, place) as (url, second):  # while the first may still stop
            assert ask(f"{url}/healthz")["open"] == 0
            assert first.wait(20) == 0
            second.send_signal(signal.SIGTERM)
            assert second.wait(20) == 0
    assert wait_until_free(place, seconds=0.0)
    assert wait_until_free(tmp_path / "nowhere", seconds=0.0)


def test_it_waits_until_another_process_lets_go(tmp_path: Path) -> None:
    held = file_lock.acquire(tmp_path / "lock")
    assert held is not None
    threading.Timer(0.3, file_lock.release, [held]).start()
    assert wait_until_free(tmp_path, seconds=30.0)


def test_it_answers_to_names_that_it_was_given(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
    store, more = f"sqlite:///{tmp_path}/c.db", ["--allow-host", "Box.internal"]
    with (
        private_coordinator(store, model="news", recipe=recipe) as coordinator,
        running(coordinator, tmp_path / "edge", *more) as (url, _),
    ):
        for host, status in (("box.internal:8401", 200), ("evil.example", 421), ("127.0.0.1", 200)):
            connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
            connection.request("GET", "/healthz", headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()


def test_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["edge", "--model", "news", "--coordinator", "http://127.0.0.1:9"]
    for more, message in (
        ([], "No answer from the coordinator"),
        (["--listen", "0.0.0.0:0"], "a sidecar has no TLS or tokens. Listen on 127.0.0.1, or"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--token-file", str(tmp_path / "none")], "token file: got No such file"),
        (["--agent", "a/b"], "letters, digits"),
        (["--default-reward", "nan"], "default_reward: got nan"),
        (["--state-dir", "/proc/nowhere"], "state_dir: got"),
    ):
        assert main([*words, *more]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert "--tls-cert" not in told
        assert "--open" not in told


def test_events_wait_as_long_and_as_many_as_it_is_told(tmp_path: Path) -> None:
    recipe = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
    store = f"sqlite:///{tmp_path}/c.db"
    more = ["--reward-wait", "172800", "--default-reward", "None", "--max-open", "1"]
    with (
        private_coordinator(store, model="news", recipe=recipe) as coordinator,
        running(coordinator, tmp_path / "edge", *more) as (url, _),
    ):
        first, second = ask(f"{url}/rank", QUESTION), ask(f"{url}/rank", QUESTION)
        with pytest.raises(HTTPError, match="409"):
            ask(f"{url}/events/{first['eventId']}/reward", {"value": 1.0})
        assert ask(f"{url}/events/{second['eventId']}/reward", {"value": 1.0}) == 204
        status = ask(f"{url}/healthz")
        assert (status["open"], status["forgotten"]) == (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--reward-wait 0", "expected a number above 0"),
        ("--reward-wait inf", "expected a number above 0"),
        ("--default-reward much", "got 'much'; expected a number, or none"),
        ("--max-open 0", "expected a whole number of at least 1"),
    ],
)
def test_words_it_cannot_read(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["edge", "--model", "news", *words.split()])
    assert message in capsys.readouterr().err


def test_names_of_machines() -> None:
    assert machine_name("phone-7.local") == "phone-7.local"
    assert machine_name("-böse maschine") == "b-se-maschine"
    assert machine_name("") == "agent"
    assert len(machine_name("x" * 100)) == 64
