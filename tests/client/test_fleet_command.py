"""``fedbandit fleet``: what it plays and what it adds up."""

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import trustme

import fedbandit as fb
from fedbandit import wire
from fedbandit.cli import main
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from tests.client.twin import Twin, joined_to
from tests.service.running import make_model, make_token, running

SMALL = ["fleet", "--agents", "3", "--rounds", "150"]


def cells(output: str) -> dict[str, list[str]]:
    """Return the numbers of the ledger, by the first word of their row."""
    rows = [line.split("  ") for line in output.splitlines()[2:]]
    return {row[0].partition(",")[0]: [cell.strip() for cell in row[1:] if cell] for row in rows}


@pytest.mark.parametrize(
    ("words", "sketched"),
    [
        ((), fb.FSCLB(dimension=6, sketch_size=2, agents=3, radius=0.3, cadence="buffered")),
        (("--lean",), fb.FSCLB.lean(dimension=6, agents=3, radius=0.3)),
        (
            ("--lean", "--sketch-size", "3"),
            fb.FSCLB.lean(dimension=6, sketch_size=3, agents=3, radius=0.3),
        ),
    ],
)
def test_in_step_it_is_the_simulation(
    words: tuple[str, ...], sketched: fb.Recipe, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [*SMALL, "--dimension", "6", "--arms", "4", "--in-step", "--seed", "5"]
    assert main([*small, *words]) == 0
    shown = capsys.readouterr()
    assert "100 % of 150 decisions" in shown.err
    world = fb.worlds.Synthetic(dimension=6, arms=4, agents=3, seed=5)
    trace = fb.simulate(sketched, world, rounds=150)
    whole = fb.simulate(fb.FedLinUCB(dimension=6, agents=3, radius=0.3), world, rounds=150)
    found = cells(shown.out)
    assert f"{trace.rewards.mean():.4f} a decision" in shown.out
    assert found[sketched.label][0] == str(trace.uploads[-1])
    assert found["FedLinUCB"][0] == str(whole.uploads[-1])
    up, down, both = (int(cell.replace(",", "")) for cell in found["FedLinUCB"][1:])
    assert up + down == both
    envelopes = both - whole.bytes[-1]
    assert 0 < envelopes < 120 * whole.uploads[-1]


def test_against_a_running_coordinator_with_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = fb.FSCLB(dimension=9, sketch_size=4, agents=2)
    store = f"sqlite:///{tmp_path}/c.db"
    with private_coordinator(store, model="shop", recipe=recipe) as url:
        words = [*SMALL, "--coordinator", url, "--model", "shop"]
        assert main([*words, "--state-dir", str(tmp_path / "states")]) == 0
        assert sorted(each.name for each in (tmp_path / "states").iterdir()) == [
            "agent-0",
            "agent-1",
            "agent-2",
        ]
        _check_against_the_store(store, cells(capsys.readouterr().out)["FSCLB"])
        assert main([*words, "--dimension", "5"]) == 2
        assert "Say --dimension 9" in capsys.readouterr().err
        for option in (["--sketch-size", "5"], ["--lean"]):
            assert main([*words, *option]) == 2
            assert "the model says" in capsys.readouterr().err
        assert main([*SMALL, "--coordinator", url, "--model", "other"]) == 2
        assert "404" in capsys.readouterr().err


def _check_against_the_store(store: str, shown: list[str]) -> None:
    """The coordinator has counted what the fleet says that it sent."""
    opened = open_store(store)
    archive = opened.archive("shop")
    opened.close()
    uploads, up, _, _ = (int(cell.replace(",", "")) for cell in shown)
    assert uploads == archive.model.version
    assert up == sum(each.received for each in archive.merged.values())


class Terminal(StringIO):
    """Where somebody is watching."""

    def isatty(self) -> bool:
        return True


def test_somebody_who_watches_sees_a_table_that_keeps_its_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", watched)
    assert main([*SMALL, "--dimension", "6"]) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", watched.getvalue()).replace("\r", "\n")
    rows = [line for line in plain.splitlines() if line.startswith(("│", "┃", "┏", "└"))]
    assert len({len(row) for row in rows}) == 1
    told = {row.split("│")[1].strip(): row.split("│")[2].strip() for row in rows if "│" in row}
    shown = cells(capsys.readouterr().out)["FSCLB"]
    assert told["decisions"] == "150 of 150"
    assert [told["uploads"], told["bytes up"], told["bytes down"]] == shown[:3]
    assert (told["not yet delivered"], told["in trouble"]) == ("0 observations", "0 agents")


def test_a_coordinator_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--coordinator", "http://127.0.0.1:9"]) == 2
    assert "No answer from the coordinator" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [True, False])
def test_what_could_not_be_delivered_is_told_at_the_end(
    tmp_path: Path, kept: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedbandit.cli.fleet.playing.PATIENCE", 0.05)
    recipe, place = fb.FSCLB(dimension=9, sketch_size=4, agents=3), tmp_path / "states"
    full = Settings(open=True, queue=0)  # it lets agents join, and takes no upload
    words = [*SMALL, "--model", "shop", *(("--state-dir", str(place)) if kept else ())]
    store = f"sqlite:///{tmp_path}/c.db"
    with private_coordinator(store, model="shop", recipe=recipe, settings=full) as url:
        assert main([*words, "--coordinator", url]) == 2
    shown = capsys.readouterr()
    assert "FedLinUCB, same tape" in shown.out
    last = shown.err.splitlines()[-1]
    told = re.search(r"fleet: (\d+) observations of 3 agents were not delivered", last)
    assert told is not None
    assert (f"They are kept in {place}" in last, "They are lost" in last) == (kept, not kept)
    if not kept:
        assert int(told[1]) == 150
        return
    monkeypatch.undo()
    with private_coordinator(store, model="shop", recipe=recipe) as url:
        assert main([*words, "--coordinator", url, "--rounds", "1"]) == 0
    opened = open_store(store)
    assert int(told[1]) <= opened.model("shop").count <= 151
    opened.close()


def test_who_had_nothing_to_deliver_is_not_said_to_have_lost_it() -> None:
    from fedbandit.cli.fleet.playing import Fleet, not_delivered

    recipe = fb.FSCLB(dimension=9, sketch_size=4, agents=3)
    twin = Twin(recipe)
    twin.down = True
    agent = joined_to(twin, recipe=recipe)
    assert not agent.close(timeout=0.01)
    told = str(not_delivered(Fleet([agent]), None))
    assert "did not answer" in told
    assert "lost" not in told


def test_data_sets_are_worlds_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--world", "satimage", "--sketch-size", "8"]) == 0
    assert "FedLinUCB, same tape" in capsys.readouterr().out
    for option in ("--dimension", "--arms"):
        assert main([*SMALL, "--world", "satimage", option, "7"]) == 2
        assert f"{option} has no effect with --world satimage" in capsys.readouterr().err


def test_tokens_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"
    for text, told in (
        ("agent-0 a\n\nagent-1 b hidden\n", f"tokens in {file}, line 3: got 3 words; expected two"),
        ("hidden\n", f"tokens in {file}, line 1: got 1 word; expected two: AGENT TOKEN."),
        ("agent-0 hiddén\n", f"tokens in {file}: got 'ascii' codec"),
    ):
        file.write_text(text, encoding="utf-8")
        assert main([*SMALL, "--tokens", str(file)]) == 2
        shown = capsys.readouterr().err
        assert told in shown
        assert "hidd" not in shown
    assert main([*SMALL, "--tokens", str(tmp_path / "none")]) == 2
    assert "expected a file of lines AGENT TOKEN" in capsys.readouterr().err


def test_a_coordinator_of_a_private_authority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, store = fb.FSCLB(dimension=5, sketch_size=3, agents=2), f"sqlite:///{tmp_path}/c.db"
    make_model(store, "shop", recipe)
    names = ["agent-0", "agent-1"]
    tokens = [f"{name} {make_token(store, model='shop', agent=name)}\n" for name in names]
    (tmp_path / "tokens").write_text("".join(tokens))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "both.pem"
    )
    both = str(tmp_path / "both.pem")
    words = ["fleet", "--agents", "2", "--rounds", "50", "--model", "shop"]
    words += ["--tokens", str(tmp_path / "tokens")]
    with running(store, "--tls-cert", both, "--tls-key", both) as coordinator:
        words += ["--coordinator", coordinator.address]
        assert main(words) == 2
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
        assert main([*words, "--cafile", str(tmp_path / "ca.pem")]) == 0
    assert "2 agents, 50 decisions" in capsys.readouterr().out


def test_sizes_are_those_of_real_messages() -> None:
    from fedbandit.service.board.savings import fedlinucb_bytes

    recipe = fb.FedLinUCB(dimension=7, agents=2)
    agent, server = recipe.agent(0), recipe.server()
    upload = agent.observe(np.ones(7), 1.0)
    assert upload is not None
    server.receive(upload)
    sync = wire.Sync(wire.fingerprint(recipe), bytes(16), 1, upload)
    synced = wire.Synced(wire.fingerprint(recipe), True, 1, 1, server.download())
    up, down = fedlinucb_bytes(7)
    assert 0 <= up - len(wire.encode_sync(sync)) < 10
    assert 0 <= down - len(wire.encode_synced(synced)) < 10
