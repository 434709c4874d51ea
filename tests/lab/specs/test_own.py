"""docs/experiments.md is followed to the end, as somebody new would."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.lab import parse_spec, read_spec, run

PAGE = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mymodule.py").write_text("\n\n".join(blocks("python")), encoding="utf-8")
    (tmp_path / "own.toml").write_text(blocks("toml")[-1], encoding="utf-8")
    yield tmp_path / "own.toml"
    sys.modules.pop("mymodule", None)


def test_the_page_is_followed_to_the_end(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["run", str(spec), "--out", out, "--jobs", "2"]) == 0
    assert "16 runs: 16 made now" in capsys.readouterr().out
    frame = pd.read_parquet(tmp_path / "out" / "runs")
    last = frame[frame["round"] == 300].groupby("algorithm")
    assert set(last.groups) == {"Periodic, every=5", "Periodic, every=50", "Greedy", "FedLinUCB"}
    uploads = last["uploads"].mean()
    assert uploads["Periodic, every=5"] == pytest.approx(58.0, abs=2.0)
    assert uploads["Periodic, every=50"] == pytest.approx(5.0, abs=1.0)
    assert uploads["Greedy"] == 0.0
    regret = last["regret"].mean()
    assert regret["Periodic, every=5"] < regret["Periodic, every=50"]
    assert regret["Greedy"] < regret["Periodic, every=50"]
    assert main(["run", str(spec), "--out", out]) == 0
    assert "0 made now" in capsys.readouterr().out
    assert main(["plot", out, "--format", "svg"]) == 0
    drawn = {Path(line).name for line in capsys.readouterr().out.split()}
    assert {"regret.svg", "regret-by-gap.svg", "regret-by-every.svg"} <= drawn


def test_other_code_under_the_same_name_is_run_again(spec: Path, tmp_path: Path) -> None:
    run(read_spec(spec), out=tmp_path / "out", jobs=1)
    module = tmp_path / "mymodule.py"
    changed = module.read_text(encoding="utf-8").replace(
        "epsilon: float = 0.1", "epsilon: float = 0.9"
    )
    module.write_text(changed, encoding="utf-8")
    sys.modules.pop("mymodule")
    assert run(read_spec(spec), out=tmp_path / "out", jobs=1).computed == 16


def test_parameters_of_ones_own_are_columns_of_the_frame(spec: Path, tmp_path: Path) -> None:
    frame = run(read_spec(spec), out=tmp_path / "out", jobs=1).frame(last=True)
    assert set(frame["gap"]) == {0.1, 0.3}
    assert set(frame["every"].dropna()) == {5, 50}


def test_the_sweep_of_the_page_is_one_file_of_15_lines() -> None:
    text = blocks("toml")[0]
    assert len(text.splitlines()) <= 15
    found = parse_spec(tomllib.loads(text))
    assert found.tuned
    swept = {**found.worlds["digits"].params, **found.recipes["FSCLB"].params}
    assert {name for name, value in swept.items() if isinstance(value, list)} == {
        "agents",
        "sketch_size",
    }
    assert len(found.recipes) == 3


class Stuck:
    """Chooses an arm that is not there."""

    def choose(self, arms: Any) -> int:
        return len(arms)

    def observe(self, arm: int, reward: float) -> None:
        raise AssertionError(arm, reward)


class Mute:
    """Does not observe."""

    def choose(self, arms: Any) -> int:
        return int(np.argmax(arms[:, 0]))


def test_learners_that_cannot_play_are_refused() -> None:
    world = fb.worlds.Synthetic(dimension=3, arms=2, agents=1)
    with pytest.raises(InvalidParameter, match=r"Stuck, round 0: got 2; expected an index from 0"):
        fb.simulate(fb.Independent(Stuck, dimension=3, agents=1), world, rounds=5)
    with pytest.raises(InvalidParameter, match=r"choose\(arms\) and observe"):
        fb.Independent(Mute, dimension=3, agents=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("gone:Greedy", InvalidParameter, r"recipes\.it\.kind: there is no module 'gone'"),
        ("mymodule:Greddy", UnknownName, "Did you mean 'Greedy'"),
        ("mymodule:Every", InvalidParameter, r"recipes\.it: n is missing"),
        ("Greedy", UnknownName, r"recipes\.it\.kind"),
    ],
)
def test_kinds_that_are_not_there(
    spec: Path, kind: str, error: type[Exception], message: str
) -> None:
    text = spec.read_text(encoding="utf-8").partition("[recipes.")[0]
    spec.write_text(f'{text}\n[recipes.it]\nkind = "{kind}"\n', encoding="utf-8")
    with pytest.raises(error, match=message):
        read_spec(spec).tasks()


def test_a_world_of_parts_that_is_none_is_refused(spec: Path) -> None:
    text = spec.read_text(encoding="utf-8").replace("mymodule:Coins", "mymodule:Greedy")
    spec.write_text(text.replace("gap = [0.1, 0.3]", "dimension = 3"), encoding="utf-8")
    with pytest.raises(InvalidParameter, match=r"worlds\.coins\.kind: got a Greedy without"):
        read_spec(spec).tasks()


def test_tables_for_papers(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(read_spec(spec), out=tmp_path / "out", jobs=1)
    assert main(["table", str(tmp_path / "out"), "--columns", "gap,every"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| setting | algorithm | radius | gap | every | regret | uploads | bytes |"
    assert len(lines) == 2 + 2 * 4
    command = ["table", str(tmp_path / "out"), "--format", "latex", "--measures", "regret"]
    assert main(command) == 0
    written = capsys.readouterr().out
    assert written.startswith("\\begin{tabular}{lllr}\n\\toprule\nsetting & algorithm & radius &")
    assert r"Periodic, every=5 & 0.5 &" in written
    assert r"$\pm$" in written
    assert main(["table", str(tmp_path / "out"), "--measures", "regrte"]) == 2
    assert "Did you mean 'regret'" in capsys.readouterr().err
