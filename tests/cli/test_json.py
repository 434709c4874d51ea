"""--json: what a command reports, for programs, on standard output alone."""

import json
from pathlib import Path
from typing import Any

import pytest

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.cli.guidance.completion import options_of
from tests.cli.leaves import LEAVES
from tests.lab.tiny import write_spec

Capture = pytest.CaptureFixture[str]
SILENT = {"serve", "edge", "completion", "help", "quickstart", "table"}
"""Servers, and what prints text that is its own format."""


def test_everything_that_reports_has_it() -> None:
    without = {
        words
        for words, leaf in LEAVES.items()
        if "--json" not in {option.name for option in options_of(leaf)}
    }
    assert without == SILENT & set(LEAVES)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Any:
    """Run a command in a store of its own and return its JSON."""
    monkeypatch.setenv("FEDBANDIT_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.chdir(tmp_path)

    def run(words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*words.split(), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def test_models_tokens_and_agents(ask: Any) -> None:
    made = ask("model create news --dimension 6 --agents 3")
    assert made["recipe"] == "FSCLB.lean"
    assert fb.FSCLB(**made["parameters"]) == fb.FSCLB.lean(dimension=6, agents=3)
    (listed,) = ask("model list")["models"]
    assert (listed["name"], listed["uploads"], listed["observations"]) == ("news", 0, 0)
    assert listed["fingerprint"] == made["fingerprint"]
    assert ask("model show news")["limits"]["count"] == 10_000
    assert ask("model set news --max-count 7")["limits"]["count"] == 7
    assert ask("model history news")["snapshots"] == []
    weights = ask("model weights news --top 2")
    assert [each["weight"] for each in weights["weights"]] == [0.0, 0.0]
    token = ask("token create news phone-7 --name first")
    assert len(token["secret"]) > 20
    assert ask("token code news phone-8")["secret"] != token["secret"]
    names = [each["name"] for each in ask("token list")["tokens"]]
    assert "first" in names
    rotated = ask("token rotate first")
    assert rotated["secret"] != token["secret"]
    assert ask(f"token revoke {rotated['name']}") == {"name": rotated["name"], "revoked": True}
    assert ask("agent quarantine news phone-7")["quarantined"] is True
    assert ask("agent release news phone-7")["quarantined"] is False
    assert [each["agent"] for each in ask("agent list news")["agents"]] == ["phone-7"]
    assert ask("model export news --out news.model")["bytes"] > 0
    assert ask("model import news.model --as other")["tokens"] == 0
    assert ask("model delete other --yes")["model"] == "other"


def test_lists(ask: Any) -> None:
    everything = ask("list")
    assert {each["kind"] for each in everything["recipes"]} == set(fb.RECIPES)
    assert {each["data"] for each in everything["datasets"]} == set(fb.worlds.BUNDLED)
    assert ask("list worlds") == {"worlds": everything["worlds"]}
    lean = next(each for each in everything["recipes"] if each["kind"] == "FSCLB.lean")
    assert {"name": "radius", "default": "auto"} in lean["parameters"]
    assert {"name": "dimension"} in lean["parameters"]


def test_an_experiment_and_its_figures(ask: Any, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.toml", trials=1)
    done = ask(f"run {spec} --out out --jobs 1")
    assert done["made_now"] == done["runs"] == 4
    assert done["results"][0]["estimates"]["regret"]["ci95"] is None  # of one trial
    drawn = ask("plot out --format png")["figures"]
    assert all(Path(path).exists() for path in drawn)


def test_advice(ask: Any) -> None:
    words = "advise synthetic --set dimension=4 --sizes 2 --rounds 60 --trials 2 --radius 0.1"
    told = ask(f"{words} --jobs 1")
    assert told["files"] == []
    assert told["advice"]["dimension"] == 4
    assert told["advice"]["recommendation"]["sentence"]


def test_a_fleet(ask: Any) -> None:
    told = ask("fleet --agents 2 --rounds 60 --dimension 4 --lean")
    assert (told["recipe"], told["decisions"], told["delivered"]) == ("FSCLB.lean", 60, True)
    assert told["sent"]["up"] > 0
