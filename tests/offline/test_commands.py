"""``fedbandit evaluate`` and ``fedbandit log``: what they print, write and refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.logs import LogWriter, read
from fedbandit.logs.records import Decided
from tests.offline.known_truth import D, draw

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 700 events that says which recipe wrote it, with what the agent would have done."""
    place = tmp_path_factory.mktemp("log")
    recipe = fb.FedLinUCB(dimension=D, agents=2, radius=0.3)
    writer = LogWriter(place, model="shop", recipe=recipe.name, params=recipe.params)
    rows = draw(np.random.default_rng(0), 700)
    for i, event in enumerate(rows.events()):
        assert event.arms is not None
        writer.decided(
            Decided(
                id=event.id,
                chosen=event.chosen,
                probability=event.probability,
                arms=event.arms.tolist(),
                own=rows.target[i].tolist(),
                means=[0.5] * len(event.arms),
            )
        )
        writer.rewarded(event.id, event.reward)
    writer.rewarded("foreign", 1.0)
    writer.close()
    return place


def test_a_table_a_sentence_and_a_figure(log: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["evaluate", str(log), "--radius", "0.1,1", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "700 decisions (least probability" in said
    assert "FedLinUCB, radius 0.1" in said
    assert "left out: 1 x a reward for a decision of another log" in said
    assert "best of 2 on the first half, judged on the second" in said
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"evaluation.json", "evaluation.pdf", "evaluation.png", "evaluation.svg"}
    plain = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert plain["sentence"] in said


def test_json_says_what_python_does(log: Path, capsys: Capture) -> None:
    words = ["--recipe", "LinUCB,FSCLB", "--sketch-size", "3", "--choice", "ucb,thompson", "--json"]
    assert main(["evaluate", str(log), *words]) == 0
    plain = json.loads(capsys.readouterr().out)
    names = {each["name"] for each in plain["outcomes"]}
    assert names == {f"{n}, choice {c}" for n in ("LinUCB", "FSCLB") for c in ("ucb", "thompson")}
    recipe = fb.LinUCB(dimension=D, agents=1, choice="ucb")
    again = fb.evaluate(log, {"LinUCB": recipe}).of("LinUCB", "dr")
    (told,) = (
        e for e in plain["outcomes"] if (e["name"], e["method"]) == ("LinUCB, choice ucb", "dr")
    )
    assert told["estimate"]["value"] == again.value


def test_logs_are_shown_converted_and_compared(log: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["log", "show", str(log), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["model"], shown["recipe"], shown["events"]) == ("shop", "FedLinUCB", 700)
    out = tmp_path / "out.vw"
    assert main(["log", "convert", str(log), "--to", "vw", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out == f"{out}: 700 events\n"
    assert "1 left out: a reward for a decision of another log" in told.err
    back = tmp_path / "back.ndjson"
    assert main(["log", "convert", str(out), "--from", "vw", "--out", str(back), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 700
    assert sum(event.reward for event in read(back)) == sum(event.reward for event in read(log))
    assert main(["log", "shadow", str(log)]) == 0
    assert "The agent agrees with the baseline in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "LOG", "--recipe", "FSCLUB"], "Did you mean 'FSCLB'?"),
        (["evaluate", "LOG", "--recipe", "FSCLB"], "sketch_size is missing"),
        (["evaluate", "LOG", "--radius", "x"], "got 'x'; expected a number of at least 0"),
        (["evaluate", "gone"], "gone: cannot be read"),
        (["log", "convert", "LOG", "--to", "csv", "--out", "x"], "to: got 'csv'"),
    ],
)
def test_what_cannot_be_is_refused(
    log: Path, words: list[str], message: str, capsys: Capture
) -> None:
    given = [str(log) if word == "LOG" else word for word in words]
    try:
        code = main(given)
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 2
    assert message in capsys.readouterr().err
