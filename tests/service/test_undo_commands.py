"""``fedbandit model set, history, rollback, forget`` and ``fedbandit agent``."""

import re
from pathlib import Path

import pytest

from fedbandit import wire
from fedbandit.cli import main
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.quotas import Quotas
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import BODY, client_of, post, stored, sync_path

Capture = pytest.CaptureFixture[str]
CREATE = "model create news --dimension 4 --recipe FSCLB --sketch-size 3 --agents 2"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that the environment names."""
    url = f"sqlite:///{tmp_path / 'commands.db'}"
    monkeypatch.setenv("FEDBANDIT_STORE", url)
    return url


def run(words: str) -> None:
    assert main(words.split()) == 0


def send(url: str, agent: str, *sequences: int) -> None:
    with client_of(url) as client:
        for sequence in sequences:
            post(client, sync_for(RECIPE, sequence, sequence=sequence), agent=agent)


def test_quotas_and_history_are_set_and_shown(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --hourly-observations 500 --max-share 0.2 --snapshots 0 --keep-parts")
    said = capsys.readouterr().err
    assert "--max-arm-norm and --max-reward" in said
    assert "--hourly-uploads: a few times" in said
    opened = open_store(store)
    model = opened.model("news")
    assert model.quotas == Quotas(observations=500, uploads=3600, share=0.2)
    assert model.limits.count == 40  # or an upload could be larger than a share lets in: 10 d
    assert model.history == History(keep=0, by_agent=True)
    run(
        "model set news --hourly-observations none --hourly-uploads 9 --snapshot-every 60"
        " --snapshots 5 --no-keep-parts --max-count 7 --max-reward 2"
    )
    said = capsys.readouterr().out
    assert "limits: arm norm 1e+06, reward 2, count 7" in said
    assert "quotas of an agent: 9 uploads an hour, 0.2 of the model" in said
    assert "history: 5 snapshots, 60 seconds apart; parts are not kept" in said
    model = opened.model("news")
    assert model.quotas == Quotas(uploads=9, share=0.2)
    assert model.history == History(every=60.0, keep=5)
    assert model.limits.count == 7
    run("model show news")
    assert said in capsys.readouterr().out
    opened.close()


@pytest.mark.parametrize(
    ("given", "uploads"),
    [("", 3600), ("--relays 1", None), ("--hourly-uploads none", None), ("--hourly-uploads 7", 7)],
)
def test_one_agent_does_not_keep_a_coordinator_busy_unless_it_is_asked_for(
    given: str, uploads: int | None, store: str
) -> None:
    run(f"{CREATE} {given}")
    opened = open_store(store)
    assert opened.model("news").quotas == Quotas(uploads=uploads)
    opened.close()


def test_a_model_whose_limits_are_known_gets_no_advice(capsys: Capture) -> None:
    limits = "--max-arm-norm 1 --max-reward 1"
    run(f"{CREATE} {limits} --hourly-observations 5 --hourly-uploads 5 --max-share 0.5")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "groups", "watched", "advised"),
    [
        ("4 --agents 9", 24, True, False),
        ("4 --agents 50", 24, True, True),
        ("512 --agents 50 --groups auto", 24, True, True),
        ("4 --agents 50 --groups 12", 12, False, False),
        ("4 --agents 50 --groups 0", 0, False, True),
        ("513 --agents 50", 0, False, True),
    ],
)
def test_groups_are_watched_and_advised_where_there_are_agents_for_them(
    store: str, capsys: Capture, given: str, groups: int, watched: bool, advised: bool
) -> None:
    run(f"model create news --dimension {given}")
    assert ("--groups" in capsys.readouterr().err) == advised
    opened = open_store(store)
    model = opened.model("news")
    assert (model.groups, model.weighed, model.watched) == (groups, groups > 0, watched)
    opened.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("4", "liars that lie alike can sway a young model"),
        ("513", "one liar can own the model"),
        ("4 --relays 1", "from 8 relays on"),
    ],
)
def test_what_is_not_held_is_said_when_a_model_is_made(
    capsys: Capture, given: str, said: str
) -> None:
    run(f"model create news --agents 50 --dimension {given}")
    assert said in capsys.readouterr().err


def test_no_groups_are_watched_of_more_features_than_that_is_made_for(capsys: Capture) -> None:
    assert main(["model", "create", "news", "--dimension", "513", "--groups", "auto"]) == 2
    assert "auto is for at most 512 features" in capsys.readouterr().err


def test_groups_of_an_empty_model_are_set_and_shown(store: str, capsys: Capture) -> None:
    run(CREATE)
    for groups, shown in (("12", "12;"), ("auto", "24, watched;"), ("0", "none")):
        run(f"model set news --groups {groups}")
        run("model show news")
        assert f"groups: {shown}" in capsys.readouterr().out
    opened = open_store(store)
    assert opened.model("news").version == 0  # so that it can still be passed on by a relay
    opened.close()


def test_groups_are_set_later_and_taken_away(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --groups 0")
    send(store, "phone", 1, 2)
    for groups, version in ((12, 3), (12, 3), (0, 4)):
        run(f"model set news --groups {groups}")
        opened = open_store(store)
        model = opened.model("news")
        assert (model.groups, model.weighed, model.version) == (groups, groups > 0, version)
        opened.close()
        assert f"groups: {groups or 'none'}" in capsys.readouterr().out


def test_a_model_is_rolled_back(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --snapshot-every 1e-9")
    send(store, "phone", 1, 2, 3, 4)
    capsys.readouterr()
    run("model history news")
    shown = capsys.readouterr().out
    assert re.findall(r"^ +(\d) ", shown, re.MULTILINE) == ["0", "1", "2", "3"]
    assert "now: version 4, 24 observations" in shown
    assert main(["model", "rollback", "news", "2"]) == 2
    assert "Add --yes to confirm" in capsys.readouterr().err
    assert main(["model", "rollback", "news", "7", "--yes"]) == 2
    assert "expected one of 0, 1, 2, 3" in capsys.readouterr().err
    run("model rollback news 2 --yes")
    said = capsys.readouterr().out
    assert "as it was at version 2, now version 5; 12 observations taken out" in said
    assert (stored(store).version, stored(store).count) == (5, 12)
    with client_of(store) as client:
        for copy in (1, 4, 3):
            assert not post(client, sync_for(RECIPE, copy, sequence=copy), agent="phone").merged
        assert post(client, sync_for(RECIPE, 5, sequence=5), agent="phone").version == 6
    run("model history news")
    assert "something was last taken out at 5" in capsys.readouterr().out


def test_an_agent_is_listed_quarantined_released_and_forgotten(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --keep-parts")
    send(store, "phone", 1, 2)
    send(store, "tablet", 3)
    capsys.readouterr()
    run("agent quarantine news phone")
    with client_of(store) as client:
        body = sync_for(RECIPE, 4, sequence=4)
        answer = client.post(sync_path(agent="phone"), content=wire.encode_sync(body), headers=BODY)
        assert answer.status_code == 403
        assert answer.json()["error"]["field"] == "agent"
    capsys.readouterr()
    run("agent list news")
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[:3] for row in rows] == [["phone", "2", "12"], ["tablet", "1", "6"]]
    assert sum(float(row.split()[3]) for row in rows) == pytest.approx(1.0, abs=0.002)
    assert rows[0].endswith("quarantined")
    assert main(["agent", "forget", "news", "phone"]) == 2
    assert "Add --yes" in capsys.readouterr().err
    run("agent forget news phone --yes")
    assert "12 observations of phone taken out, now version 4" in capsys.readouterr().out
    assert stored(store).count == 6
    run("agent release news phone")
    with client_of(store) as client:
        assert not post(client, sync_for(RECIPE, 2, sequence=2), agent="phone").merged
        assert post(client, sync_for(RECIPE, 4, sequence=4), agent="phone").merged
    assert main(["agent", "forget", "news", "pone", "--yes"]) == 2
    assert "Did you mean 'phone'" in capsys.readouterr().err


def test_a_time_is_taken_out(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --keep-parts --snapshot-every 1e-9")
    send(store, "phone", 1, 2, 3, 4)
    capsys.readouterr()
    assert main(["model", "forget", "news", "--after", "1", "--upto", "3"]) == 2
    assert "Add --yes" in capsys.readouterr().err
    run("model forget news --after 1 --upto 3 --yes")
    assert "12 observations taken out, now version 5" in capsys.readouterr().out
    assert stored(store).count == 12


def test_without_parts_it_says_what_to_do(store: str, capsys: Capture) -> None:
    run(CREATE)
    send(store, "phone", 1)
    capsys.readouterr()
    assert main(["agent", "forget", "news", "phone", "--yes"]) == 2
    said = capsys.readouterr().err
    assert "fedbandit model history news" in said
    assert "fedbandit model set news --keep-parts" in said
    run("model set news --keep-parts")
    send(store, "phone", 2)
    capsys.readouterr()
    run("agent forget news phone --yes")
    said = capsys.readouterr().out
    assert "6 observations of phone taken out" in said
    assert "\n6 more were merged before parts were kept" in said


def test_what_was_rolled_back_does_not_stay(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --keep-parts --snapshot-every 1e-9")
    send(store, "phone", 1)
    send(store, "liar", 2, 3)
    run("model rollback news 1 --yes")
    capsys.readouterr()
    run("agent forget news liar --yes")
    said = capsys.readouterr().out
    assert "0 observations of liar taken out" in said
    assert "stay in the model" not in said


def test_what_may_stay_is_told_where_it_was_rolled_back_too(store: str, capsys: Capture) -> None:
    """What the two sent before parts were kept is one part: at most that can be the liar's."""
    run(f"{CREATE} --snapshot-every 1e-9")
    send(store, "phone", 1)
    run("model set news --keep-parts")
    send(store, "liar", 2, 3)
    run("model rollback news 2 --yes")
    capsys.readouterr()
    run("agent forget news liar --yes")
    assert "up to 6 more were merged before parts were kept" in capsys.readouterr().out


def test_an_agent_that_never_sent_anything_is_told_of_when_it_is_quarantined(
    store: str, capsys: Capture
) -> None:
    run(CREATE)
    capsys.readouterr()
    for _ in range(2):  # its own name is not what was meant
        run("agent quarantine news phone")
        assert "It has sent nothing yet. See fedbandit agent list news" in capsys.readouterr().out
    run("agent release news phone")
    send(store, "phone", 1)
    capsys.readouterr()
    run("agent quarantine news phnoe")
    assert "It has sent nothing yet. Did you mean 'phone'?" in capsys.readouterr().out
    run("agent quarantine news phone")
    assert "nothing yet" not in capsys.readouterr().out


def test_only_an_agent_that_is_known_is_released(store: str, capsys: Capture) -> None:
    run(CREATE)
    send(store, "phone", 1)
    capsys.readouterr()
    assert main(["agent", "release", "news", "pone"]) == 2
    assert "Did you mean 'phone'" in capsys.readouterr().err
    opened = open_store(store)
    assert opened.agents("news").keys() == {"phone"}
    opened.close()
    run("agent quarantine news tablet")  # beforehand
    run("agent release news tablet")


def test_agents_are_known_once_all_that_they_sent_is_gone(store: str, capsys: Capture) -> None:
    run(f"{CREATE} --keep-parts")
    send(store, "phone", 1)
    run("agent forget news phone --yes")
    capsys.readouterr()
    assert main(["agent", "forget", "news", "pone", "--yes"]) == 2
    assert "Did you mean 'phone'" in capsys.readouterr().err
    assert main(["agent", "forget", "news", "phone", "--yes"]) == 2
    assert "Nothing that phone sent can be taken out of news" in capsys.readouterr().err
    assert stored(store).version == 2


def test_versions_are_listed_by_number_and_huge_ones_are_unknown(
    store: str, capsys: Capture
) -> None:
    run(f"{CREATE} --snapshot-every 1e-9")
    send(store, "phone", *range(1, 13))
    capsys.readouterr()
    for words in ("rollback news 99999999999999999999999 --yes", "weights news --since 77"):
        assert main(f"model {words}".split()) == 2
        assert "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11." in capsys.readouterr().err
    for odd in ("1.5", "-1", "nan", "1e1"):
        with pytest.raises(SystemExit, match="2"):
            main(["model", "rollback", "news", "--yes", "--", odd])
        assert "a whole number of at least 0" in capsys.readouterr().err
    assert stored(store).version == 12


@pytest.mark.parametrize("span", ["--after 0 --upto 0", "--after 4", "--after 3 --upto 1"])
def test_nothing_changes_where_nothing_is_taken_out(store: str, capsys: Capture, span: str) -> None:
    run(f"{CREATE} --keep-parts --snapshot-every 1e-9")
    send(store, "phone", 1, 2, 3, 4)
    opened = open_store(store)
    before = opened.archive("news")
    for sure in ("", " --yes"):
        capsys.readouterr()
        assert main(f"model forget news {span}{sure}".split()) == 2
        assert "nothing is there that was merged after version" in capsys.readouterr().err
    assert opened.archive("news") == before
    assert opened.outline("news")[0].set_back == 0
    opened.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{CREATE} --max-share 2", "a number above 0 and at most 1"),
        (f"{CREATE} --snapshots 5000", "a whole number from 0 to 1000"),
        ("model rollback nws 1 --yes", "model: 'nws' does not exist"),
        ("agent list nws", "model: 'nws' does not exist"),
        ("agent quarantine nws a/b", "agent: got 'a/b'"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, said: str, store: str, capsys: Capture) -> None:
    open_store(store, create=True).close()
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err


def test_weights_are_shown_with_intervals_and_names(
    store: str, capsys: Capture, tmp_path: Path
) -> None:
    run(f"{CREATE} --snapshot-every 0.000001")
    run("model weights news")
    assert "4 in all; hardly anything is known of 4" in capsys.readouterr().out
    send(store, "a", 1, 2, 3)
    names = tmp_path / "names.json"
    names.write_text('{"kind=sport": [0, 1.0], "price": [1, -1.0], "age": [1, 1.0]}')
    run(f"model weights news --names {names} --top 2 --since 1")
    said = capsys.readouterr().out
    assert "Weights of news, version 3" in said
    assert "3 in all" in said
    assert "2 share a place" in said
    assert "moved: since version 1" in said
    assert len(re.findall(r"^(?:kind=sport|price \*|age \*) .* to .* %", said, re.MULTILINE)) == 2
    for bad in ("[]", "{}", '{"x": [9, 1.0]}', '{"x": [1, 0.5]}', '{"x": 3}', "no JSON"):
        names.write_text(bad)
        assert main(["model", "weights", "news", "--names", str(names)]) != 0
        assert "agent.encoder.terms()" in capsys.readouterr().err
    assert main(["model", "weights", "news", "--since", "77"]) != 0
