"""The options of ``fedbandit serve`` for relays: what they want, and what they refuse."""

from pathlib import Path

import pytest

from fedbandit.cli import main
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import client_of, make_model, post

Capture = pytest.CaptureFixture[str]
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that the environment names."""
    url = f"sqlite:///{tmp_path / 'relay.db'}"
    monkeypatch.setenv("FEDBANDIT_STORE", url)
    return url


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--upstream-model news", "Give --upstream too"),
        (f"--upstream {NOWHERE}", "which models to pass on"),
        (f"--upstream {NOWHERE} --upstream-token-file t", "for which model it is"),
        (f"--upstream {NOWHERE} --upstream-model a/b", "model: got 'a/b'"),
        (f"--upstream {NOWHERE} --upstream-model news", "No answer from the coordinator"),
        (
            "--upstream http://192.0.2.1 --upstream-token-file news=t",
            "over which anybody on the way can read the token",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    token = tmp_path / "t"
    token.write_text("secret")
    token.chmod(0o600)
    listen = ["--listen", "127.0.0.1:0", "--upstream-agent", "relay"]
    assert main(["serve", *listen, *words.split()]) != 0
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_model_that_has_merged_something_is_not_passed_on(store: str, capsys: Capture) -> None:
    make_model(store, "news", RECIPE)
    with client_of(store) as client:
        post(client, sync_for(RECIPE, 1))
    words = f"--upstream {NOWHERE} --upstream-agent relay --upstream-model news"
    assert main(["serve", "--listen", "127.0.0.1:0", *words.split()]) != 0
    assert "merged something already" in " ".join(capsys.readouterr().err.split())


def test_room_for_relays_is_made_and_shown(store: str, capsys: Capture) -> None:
    assert store
    assert main(["model", "create", "news", "--dimension", "4", "--relays", "2"]) == 0
    assert main(["model", "show", "news"]) == 0
    assert "up to 2 levels" in capsys.readouterr().out
    assert main(["model", "set", "news", "--relays", "0"]) == 0
    assert main(["model", "show", "news"]) == 0
    assert "levels" not in capsys.readouterr().out
