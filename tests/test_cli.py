"""The command line: what it prints, what it refuses, and with which exit code."""

import csv
import os
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.cli.catalogue import COMMANDS
from fedbandit.cli.table import plain_table, show_table
from fedbandit.lab.advice import advice
from fedbandit.lab.analysis.recommendation import TOLERANCE
from tests.lab.tiny import SPEC, write_spec

LAB = ("joblib", "matplotlib", "pyarrow", "rich", "scipy", "threadpoolctl", "jinja2")
MEASURES = ("reward", "regret", "seconds", "uploads", "scalars", "bytes")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one tiny experiment, run from the command line."""
    place = tmp_path_factory.mktemp("cli")
    spec = write_spec(place / "spec.toml")
    assert main(["run", str(spec), "--out", str(place / "out"), "--jobs", "1"]) == 0
    return place / "out"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    example = capsys.readouterr().out.partition("example:\n")[2]
    assert example.startswith(f"  fedbandit {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_in_help_are_valid(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = COMMANDS[command].example.splitlines()[0]
    with pytest.raises(SystemExit) as left:
        main([*example.split()[1:], "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"fedbandit {fb.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--verbose", "required: COMMAND"),
        ("rnu", r"command: got 'rnu'; .* Did you mean 'run'\?"),
        ("reproduct", r"command: got 'reproduct'; .* Did you mean 'reproduce'\?"),
        ("--verison", r"option: got '--verison'; .* Did you mean '--version'\?"),
        ("--jobs 3 run x", "option: got '--jobs'; expected one of --help, --verbose, --version"),
        ("run spec.toml --otu x", r"option: got '--otu'; .* Did you mean '--out'\?"),
        ("run spec.toml --out x -jobs 3", r"option: got '-jobs'; .* Did you mean '--jobs'\?"),
        ("run spec.toml --ou x", r"option: got '--ou'; .* Did you mean '--out'\?"),
        ("run spec.toml", "required: --out"),
        ("run --out x", "required: SPEC.toml"),
        ("run spec.toml other.toml --out x", "unrecognized arguments: other.toml"),
        ("run spec.toml --out x --jobs 0", "--jobs: got '0'; expected a whole number"),
        ("run spec.toml --out x --jobs -2", "--jobs: got '-2'"),
        ("run spec.toml --out x --jobs two", "--jobs: got 'two'"),
        ("run spec.toml --out x --jobs 1.5", "--jobs: got '1.5'"),
        ("reproduce --trails 3 --out x", r"option: got '--trails'; .* Did you mean '--trials'\?"),
        ("reproduce --trails=3 --out x", r"option: got '--trails'; .* Did you mean '--trials'\?"),
        ("reproduce --trials 0 --out x", "--trials: got '0'"),
        ("reproduce --rounds 0 --out x", "--rounds: got '0'"),
        ("reproduce --rounds 1e4 --out x", "--rounds: got '1e4'"),
        ("reproduce --quik --out x", r"option: got '--quik'; .* Did you mean '--quick'\?"),
        ("plot", "required: DIR"),
        ("advise", "required: DATA"),
        ("advise satimage --sizes 5,x", "--sizes: got 'x'; expected a whole number"),
        ("advise satimage --sizes ,", "--sizes: got ''"),
        ("advise satimage --size 5", r"option: got '--size'; .* Did you mean '--sizes'\?"),
        ("advise satimage --set target", "--set: got 'target'; expected NAME=VALUE"),
        ("advise satimage --tolerance 2", "--tolerance: got '2'; expected a number strictly"),
        ("advise satimage --radius -1", "--radius: got '-1'; expected a number of at least 0"),
        ("advise satimage --radius nan", "--radius: got 'nan'"),
        ("advise satimage --trials 0", "--trials: got '0'"),
    ],
)
def test_bad_words_are_answered_with_the_nearest(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    shown = capsys.readouterr()
    assert left.value.code == 2
    assert re.search(message, shown.err)
    assert shown.out == ""


def test_errors_of_the_project_are_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(write_spec(tmp_path / "good.toml"))
    bad = str(write_spec(tmp_path / "bad.toml", worlds={"w": {"kind": "synthetik"}}))
    place = str(tmp_path / "out")
    for words, message in [
        (["run", str(tmp_path / "gone.toml"), "--out", place], "No such file"),
        (["run", bad, "--out", place], "Did you mean 'synthetic'?"),
        (["run", good, "--out", good], "cannot be written"),
        (["run", good, "--out", f"{good}/below"], "cannot be written"),
        (["reproduce", "--quick", "--out", good], "cannot be written"),
        (["plot", place], "no finished runs"),
        (["list", "recipe"], "topic: got 'recipe'; expected one of datasets, recipes, worlds. Did"),
    ]:
        assert main(words) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("fedbandit: error: ")
        assert message in shown.err
        assert shown.err.count("\n") == 1
    assert not Path(place).exists()


@pytest.mark.parametrize(
    "words", ["run x.toml --out", "reproduce --out", "plot", "plot x --out", "advise x --out"]
)
def test_no_text_is_no_directory(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words.split(), ""])
    assert left.value.code == 2
    assert "got ''; expected a directory" in capsys.readouterr().err


ADVISE = [
    "advise",
    "synthetic",
    "--rounds",
    "60",
    "--trials",
    "2",
    "--radius",
    "0.1",
    "--jobs",
    "1",
]


def test_advise_shows_tables_and_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "dimension=4", "--set", "spectrum=power-law", "--set", "decay=0.5"]
    assert main([*ADVISE, *words, "--sizes", "5,2"]) == 0
    shown = capsys.readouterr()
    first, second, last = shown.out.strip().split("\n\n")
    assert first.startswith("synthetic, d = 4: ")
    assert [line.split()[0] for line in first.splitlines()[1:-1]] == ["l", "2", "5"]
    assert second.startswith("60 rounds, 2 trials, radius 0.1: mean ± 95 % interval")
    assert [line.split()[0] for line in second.splitlines()[2:-1]] == [
        *["FSCLB.lean"] * 3,
        *["FSCLB"] * 2,
        "FedLinUCB",
        "Random",
    ]
    assert re.match(r"(Take l = \d|No size|Too short)", last)
    assert last.count("\n") == 0
    assert shown.err.endswith("100 % of 840 rounds\n")


def test_help_of_advise_states_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["advise", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for default in (advice.TRIALS, advice.ROUNDS, TOLERANCE):
        assert f"(default: {default})" in shown
    for number in (*advice.SHARES, *advice.RADII):
        assert f"{number:g}" in shown


def test_advise_on_a_file_writes_what_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{row % 7},{row % 5},{'yes' if row % 3 else 'no'},{row % 4}" for row in range(40)]
    (tmp_path / "visits.csv").write_text("\n".join(["age,hour,bought,page", *rows]))
    words = ["--set", "target_column=bought", "--set", "target=yes", "--sizes", "2"]
    place = tmp_path / "out"
    given = ["advise", str(tmp_path / "visits.csv"), *ADVISE[2:], *words, "--out", str(place)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("visits.csv, d = 4: ")
    for kind in ("csv", "json", "png", "svg"):
        assert (place / f"advice.{kind}").stat().st_size > 0
        assert str(place / f"advice.{kind}") in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gone.csv", "data file gone.csv: got No such file or directory"),
        ("data.arff", "expected one of .csv, .parquet, .npz"),
        ("text.csv", "got column 'b' of type string ('x', say); expected numbers"),
        ("empty.csv", "got no rows; expected a row per instance"),
        ("few.csv", "got 2 rows in 2 classes"),
        ("synthetik", "advise: got 'synthetik'; expected one of"),
        ("satimag", "Did you mean 'satimage'?"),
        ("classification", "world: data is missing"),
        ("satimage --set data=x.csv", "data: got 'x.csv' beside 'satimage'"),
        ("satimage --set target=9", "world.target must be a whole number from 0 to 5"),
        ("satimage --sizes 1,5", "each of sizes must be a whole number from 2 to 38"),
        ("satimage --sizes 39", "d + 1, loses nothing); got 39."),
        ("synthetic --set dimension=1", "advise: got arms of dimension 1; expected at least 2"),
        ("synthetic --set dimension=big", "world.dimension: got 'big'; expected a whole number"),
        ("synthetic --set dimensoin=9", "Did you mean 'dimension'?"),
        ("synthetic --set spectrum=powerlaw", "Did you mean 'power-law'?"),
        ("satimage --out few.csv", "'few.csv' cannot be written"),
    ],
)
def test_advise_refuses_in_one_line(
    words: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.csv").write_text("a,b,c\n1,x,0\n2,y,1\n3,z,0\n")
    Path("empty.csv").write_text("a,b,c\n")
    Path("few.csv").write_text("a,b,c\n1,2,0\n3,4,1\n")
    assert main(["advise", *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("fedbandit: error: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_output_that_cannot_be_written_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = _program("list", stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith("fedbandit: error: ")
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_want_of_memory_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(write_spec(tmp_path / "spec.toml", rounds=10**12, trials=1))
    assert main(["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1"]) == 2
    error = capsys.readouterr().err
    assert "Unable to allocate" in error
    assert "fewer rounds" in error
    assert error.count("\n") == 1


def test_ascii_terminal_gets_what_it_can_show(out: Path) -> None:
    done = _program(
        *("run", str(out.parent / "spec.toml"), "--out", str(out)), PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0
    assert "mean ? 95 % interval" in done.stdout


def test_run_shows_and_writes_the_summary(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = out.parent / "spec.toml"
    assert main(["run", str(spec), "--out", str(out), "--jobs", "1"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].startswith("tiny: 50 rounds, 3 trials")
    assert lines[1].split() == ["setting", "algorithm", "radius", *MEASURES]
    assert [line.split()[0] for line in lines[2:6]] == ["easy", "easy", "noisy", "noisy"]
    assert "12 runs: 0 made now, 12 made earlier" in lines
    assert str(out / "summary.csv") in shown.out
    assert shown.err == ""


def test_summary_has_the_means_of_the_runs(out: Path) -> None:
    with (out / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [f"{measure}_{part}" for measure in MEASURES for part in ("mean", "ci95")]
    head = list(rows[0])  # labels, parameters, measures
    assert head[:5] == ["setting", "algorithm", "radius", "trials", "rounds"]
    assert head[-len(columns) :] == columns
    assert [(row["setting"], row["algorithm"]) for row in rows] == [
        (setting, algorithm) for setting in SPEC["worlds"] for algorithm in SPEC["recipes"]
    ]
    regrets = [
        fb.simulate(
            fb.FSCLB(
                dimension=4, sketch_size=3, agents=2, radius=0.3, bounds=fb.Bounds(horizon=50)
            ),
            fb.worlds.Synthetic(dimension=4, arms=3, agents=2, seed=seed),
            rounds=50,
        ).regret[-1]
        for seed in (7, 8, 9)
    ]
    assert float(rows[0]["regret_mean"]) == pytest.approx(sum(regrets) / 3)
    assert (rows[0]["trials"], rows[0]["rounds"], rows[0]["radius"]) == ("3", "50", "0.3")


def test_piped_output_is_plain_and_progress_is_sparse(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.toml")
    done = _program("run", str(spec), "--out", str(tmp_path / "out"), "--jobs", "1")
    assert done.returncode == 0
    shares = list(map(int, re.findall(r"^(\d+) % of 600 rounds$", done.stderr, re.MULTILINE)))
    assert shares == sorted({10 * (10 * runs // 12) for runs in range(1, 13)} - {0})
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.count("±") == 1 + 4 * len(MEASURES)


def test_plot_draws_what_was_asked_for(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(out), "--format", "png,svg"]) == 0
    drawn = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in drawn} == {
        f"{name}.{kind}"
        for name in ("regret", "time", "communication", "bytes")
        for kind in ("png", "svg")
    }
    assert all(path.parent == out / "figures" and path.stat().st_size > 1000 for path in drawn)
    assert main(["plot", str(out), "--out", str(out), "--format", "png"]) == 0
    assert (out / "regret.png").exists()
    (out.parent / "file").touch()
    assert main(["plot", str(out), "--out", str(out.parent / "file")]) == 2


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        ("pgn", "got 'pgn'; expected one of pdf, png, svg. Did you mean 'png'?"),
        ("png,jpeg", "got 'jpeg'"),
        ("", "got ''"),
    ],
)
def test_formats_are_judged_before_anything_is_drawn(
    out: Path, tmp_path: Path, formats: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "figures"
    assert main(["plot", str(out), "--out", str(place), "--format", formats]) == 2
    assert message in capsys.readouterr().err
    assert not place.exists()


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in (*fb.RECIPES, *fb.worlds.WORLDS, *fb.worlds.BUNDLED):
        assert re.search(rf"^{re.escape(name)} ", shown, re.MULTILINE)
    assert "sketch_size" in shown
    assert "alpha=1.0" in shown
    assert "delta=0.01" in shown
    assert main(["list", "worlds"]) == 0
    assert "seed" not in capsys.readouterr().out


@pytest.mark.parametrize("topic", ["recipes", "worlds", "datasets"])
def test_list_of_one_topic_is_part_of_all(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", topic]) == 0
    part = capsys.readouterr().out
    assert main(["list"]) == 0
    whole = capsys.readouterr().out
    assert part in whole
    assert len(part) < len(whole)


def test_terminal_gets_drawn_tables() -> None:
    reader, writer = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "fedbandit.cli", "list", "worlds"], stdout=writer, check=True
    )
    os.close(writer)
    shown = os.read(reader, 100_000).decode()
    os.close(reader)
    assert "─" in shown
    assert "synthetic" in shown


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list"], 0, "FSCLB"),
        (["run", "--help"], 0, "example:"),
        (["run", "x.toml", "--out", "x"], 2, "pip install 'fedbandit[lab]'"),
        (
            ["model", "create", "n", "--dimension", "4", "--recipe", "FSCLB"],
            2,
            "needs a sketch size",
        ),
        (["plot", "x"], 2, "pip install 'fedbandit[lab]'"),
        (["advise", "satimage"], 2, "pip install 'fedbandit[lab]'"),
    ],
)
def test_bare_install_answers(words: Sequence[str], code: int, message: str) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({LAB!r}));"
        f"from fedbandit.cli import main; sys.exit(main({list(words)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert message in (done.stderr if code else done.stdout)
    assert "Traceback" not in done.stderr


def test_help_imports_nothing_slow() -> None:
    program = (
        "import sys; from fedbandit.cli import main\n"
        "try: main(['--help'])\n"
        f"finally: print(sorted(set(sys.modules) & set({LAB!r})), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("package", ["fedbandit", "fedbandit.cli"])
def test_the_package_can_be_run_as_a_program(package: str) -> None:
    command = [sys.executable, "-m", package, "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fedbandit: error: ")


def test_reader_that_stops_early_is_no_error() -> None:
    program = f"{sys.executable} -m fedbandit.cli list | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
    assert done.stderr == ""


def test_plain_table_lines_up() -> None:
    text = plain_table("title", ("name", "n"), [("a", "1"), ("long", "-20")])
    assert text.splitlines() == ["title", "name    n", "a       1", "long  -20"]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


TITLE = "a [/b] study of [red]"
ROWS = [
    ("gaussian [d=50]", "FedLinUCB (published)", "12,345.67 ± 0.12", "1,234,567 ± 89"),
    ("gaussian [d=50]", "[/bold]", "-5.1 ± 1.0", "0"),
]


@pytest.mark.parametrize("columns", [20, 40, 60, 75, 90, 200])
def test_drawn_table_cuts_nothing(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    show_table(TITLE, ("setting", "algorithm", "reward", "scalars"), ROWS)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert "…" not in shown
    assert set(TITLE.split()) <= set(shown.split())
    assert columns < 40 or max(map(len, shown.splitlines())) <= columns
    told = " ".join(shown.split())
    for piece in (piece for row in ROWS for cell in row for piece in cell.split(" ± ")):
        assert piece in told
    assert ("─" in shown) == (columns >= 60)


WORDS = st.text("abcdefgh", min_size=1, max_size=12)
CELLS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@given(st.lists(st.tuples(WORDS, CELLS, CELLS), min_size=1, max_size=4), st.integers(40, 130))
@settings(max_examples=30, deadline=None)
def test_no_word_is_cut_whatever_wraps(rows: list[tuple[str, ...]], width: int) -> None:
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        patch.setenv("COLUMNS", str(width))
        show_table("title", ("kind", "parameters", "what"), rows, wraps=("parameters", "what"))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert max(map(len, shown.splitlines())) <= width
    assert {word for row in rows for cell in row for word in cell.split()} <= set(shown.split())


def test_a_table_of_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    show_table("Agents", ("agent", ""), [])
    assert terminal.getvalue() == "Agents: none yet\n"


def test_long_descriptions_wrap_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["list", "recipes"]) == 0
    table = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).partition("bounds is")[0]
    assert "─" in table
    assert max(map(len, table.splitlines())) <= 60
    assert {"FedLinUCB", "sketch_size,", "bounds={...},"} <= set(table.split())


def _program(
    *words: str, stdout: "IO[str] | int" = subprocess.PIPE, **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "fedbandit.cli", *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (["advise", "satimage"], "starts over"),
        (["advise", "satimage", "--out", "advice"], "continues from here"),
        (["reproduce", "--out", "demo"], "continues from here"),
        (["fleet"], "starts over"),
    ],
)
def test_after_an_interrupt_a_command_says_what_becomes_of_it(
    words: list[str], how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: Namespace) -> None:
        raise KeyboardInterrupt

    command = replace(COMMANDS[words[0]], execute=interrupt)
    monkeypatch.setitem(COMMANDS, words[0], command)
    assert main(words) == 130
    assert capsys.readouterr().err == f"fedbandit: interrupted; the same command {how}\n"
