"""``fedbandit serve``, ``model`` and ``token``: what they do, print and refuse."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import fedbandit as fb
from fedbandit import wire
from fedbandit.cli import main
from fedbandit.service.models.archive import archive_bytes
from fedbandit.service.models.model import new_model, recipe_of
from fedbandit.service.storage.contract import Archive
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import digest_of, new_token
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import client_of, make_model, post, stored

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that the environment names."""
    url = f"sqlite:///{tmp_path / 'commands.db'}"
    monkeypatch.setenv("FEDBANDIT_STORE", url)
    return url


def _run(words: str) -> None:
    assert main(words.split()) == 0


def test_a_lean_model_is_made_of_its_name_alone(store: str, capsys: Capture) -> None:
    _run("model create same --dimension 40 --recipe FSCLB.lean")
    _run("model create news --dimension 40")
    _run("model create first --dimension 40 --sketch-size 9 --set radius=paper")
    _run("model create other --dimension 40 --sketch-size auto --set wire=int8")
    shown = capsys.readouterr().out
    same, news, first, other = shown.splitlines()
    assert news.startswith("news: FSCLB.lean(dimension=40, agents=100), fingerprint ")
    assert same.partition(":")[2] == news.partition(":")[2]
    assert first.startswith("first: FSCLB(dimension=40, sketch_size=9, ")
    assert "wire='int8'" in other
    _run("model list")
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [
        ["first", "FSCLB"],
        ["news", "FSCLB.lean"],
        ["other", "FSCLB"],
        ["same", "FSCLB.lean"],
    ]
    opened = open_store(store)
    assert {model.recipe for model in opened.models()} == {"FSCLB"}  # what agents are told
    opened.close()


def test_parameters_are_set_as_in_a_spec_file(store: str) -> None:
    words = ["model", "create", "news", "--dimension", "4", "--sketch-size", "3"]
    words += ["--recipe", "FSCLB"]
    given = ["radius='tight'", "cadence=buffered", "bounds.noise=0.5", "bounds.horizon = 7"]
    assert main([*words, *(word for each in given for word in ("--set", each))]) == 0
    assert main([*words[:2], "same", *words[3:], *("--set", "bounds={noise=0.5, horizon=7}")]) == 0
    opened = open_store(store)
    news, same = (recipe_of(opened.model(name)) for name in ("news", "same"))
    opened.close()
    bounds = fb.Bounds(noise=0.5, horizon=7)
    plain = fb.FSCLB(dimension=4, sketch_size=3, agents=100, bounds=bounds)
    assert same == plain
    assert news.params == plain.params | {"radius": "tight", "cadence": "buffered"}


def test_a_model_is_made_listed_shown_and_deleted(store: str, capsys: Capture) -> None:
    _run(
        "model create news --dimension 4 --sketch-size 3 --agents 2 --recipe FSCLB"
        " --set radius=tight"
        " --set alpha=2 --max-arm-norm 2 --max-reward 3 --max-count 50"
    )
    opened = open_store(store)
    model = opened.model("news")
    assert model.limits == wire.Limits(arm_norm=2.0, reward=3.0, count=50)
    assert b'"radius": "tight"' in model.params
    assert b'"alpha": 2.0' in model.params
    with client_of(store) as client:
        sync = sync_for(RECIPE, 1)
        sync = wire.Sync(model.fingerprint, sync.life, 1, sync.upload)
        post(client, sync)
    capsys.readouterr()
    _run("model list")
    row = capsys.readouterr().out.splitlines()[2].split()
    assert row == ["news", "FSCLB", model.fingerprint, "1", "6"]
    _run("model show news")
    shown = capsys.readouterr().out
    assert "FSCLB(dimension=4, sketch_size=3" in shown
    assert "limits: arm norm 2, reward 3, count 50" in shown
    assert re.search(r"^phone +1 +6 ", shown, re.MULTILINE)
    _run("model delete news --yes")
    assert capsys.readouterr().out == "news: deleted, with 1 uploads and its tokens\n"
    assert opened.models() == []
    opened.close()


def test_a_model_moves_to_another_store_with_all_that_is_its_own(
    store: str, store_url: str, tmp_path: Path, capsys: Capture
) -> None:
    make_model(store, "news", RECIPE)
    _run("token create news phone")
    secret = capsys.readouterr().out.strip()
    with client_of(store) as client:
        post(client, sync_for(RECIPE, 1))
    file = tmp_path / "news.model"
    capsys.readouterr()
    _run(f"model export news --out {file}")
    assert capsys.readouterr().out == f"{file}: {file.stat().st_size:,} bytes, model news\n"
    assert file.stat().st_mode & 0o777 == 0o600
    _run(f"model import {file} --store {store_url}")
    assert capsys.readouterr().err == "news: 1 uploads, 1 token\n"
    before, after = (open_store(url) for url in (store, store_url))
    one, other = before.archive("news"), after.archive("news")
    assert (one.state, one.merged, one.tokens) == (other.state, other.merged, other.tokens)
    assert other.tokens[0].digest == digest_of(secret)
    before.close()
    after.close()
    with client_of(store_url) as client:
        assert not post(client, sync_for(RECIPE, 1)).merged
        assert post(client, sync_for(RECIPE, 2, sequence=2)).version == 2


def test_under_another_name_it_comes_without_tokens(
    store: str, tmp_path: Path, capsys: Capture
) -> None:
    make_model(store, "news", RECIPE)
    _run("token create news phone")
    _run("token create news tablet")
    file = tmp_path / "news.model"
    _run(f"model export news --out {file}")
    capsys.readouterr()
    _run(f"model import {file} --as other")
    said, left_out = capsys.readouterr().err.splitlines()
    assert said == "other: 0 uploads, 0 tokens"
    assert left_out.startswith("2 tokens of the file left out: ")
    assert left_out.endswith("fedbandit token create other AGENT")
    opened = open_store(store)
    assert [token.model for token in opened.tokens()] == ["news", "news"]
    assert opened.model("news").incarnation != opened.model("other").incarnation
    opened.close()
    assert wire.encode(stored(store, "other")) == wire.encode(stored(store, "news"))


def test_a_damaged_export_is_refused(store: str, tmp_path: Path, capsys: Capture) -> None:
    make_model(store, "news", RECIPE)
    file = tmp_path / "news.model"
    _run(f"model export news --out {file}")
    whole = file.read_bytes()
    for place in range(0, len(whole), 37):
        for damaged in (whole[:place], whole[:place] + b"\xaa\xbb" + whole[place + 2 :]):
            file.write_bytes(damaged)
            assert main(["model", "import", str(file), "--as", "other"]) == 2
            assert "model file: got" in capsys.readouterr().err
    opened = open_store(store)
    assert [model.name for model in opened.models()] == ["news"]
    opened.close()


@pytest.mark.parametrize(("owner", "agent"), [("shop", "phone"), (None, None), ("news", None)])
def test_an_export_brings_no_tokens_but_its_own(
    store: str, tmp_path: Path, capsys: Capture, owner: str | None, agent: str | None
) -> None:
    make_model(store, "shop", RECIPE)
    model, state = new_model("news", RECIPE)
    _, token = new_token(model="news", agent="phone")
    smuggled = replace(token, digest=b"1" * 32, name="x", model=owner, agent=agent)
    file = tmp_path / "news.model"
    archive = Archive(model=model, state=state, merged={}, tokens=[token, smuggled])
    file.write_bytes(archive_bytes(archive))
    for words in ([], ["--as", "other"]):
        assert main(["model", "import", str(file), *words]) == 2
        assert "a token of another model, or of an admin" in capsys.readouterr().err
    opened = open_store(store)
    assert ([each.name for each in opened.models()], opened.tokens()) == (["shop"], [])
    opened.close()


def test_a_token_is_shown_once_and_can_be_revoked(store: str, capsys: Capture) -> None:
    make_model(store, "news", RECIPE)
    _run("token create news phone-7")
    secret, told = capsys.readouterr()
    name = told.split()[1].rstrip(";")
    assert len(secret.strip()) == 43
    _run("token create --admin --name boss")
    capsys.readouterr()
    _run("token list")
    listed = capsys.readouterr().out
    assert secret.strip() not in listed
    rows = [line.split()[:3] for line in listed.splitlines()[2:]]
    assert rows[1] == [name, "news", "phone-7"]
    assert rows[0][:2] == ["boss", "(admin)"]
    _run(f"token revoke {name}")
    assert capsys.readouterr().out == f"{name}: revoked\n"
    opened = open_store(store)
    assert [token.name for token in opened.tokens()] == ["boss"]
    opened.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "model create news --dimension 4 --recipe FSCLB",
            "FSCLB needs a sketch size. Add --sketch-size 2 (",
        ),
        (
            "model create news --dimension 4 --sketch-size 9",
            "sketch_size must be a whole number from 2 to 5",
        ),
        ("model create n/s --dimension 4 --sketch-size 3", "model: got 'n/s'; expected 1 to 64"),
        ("model create old --dimension 4 --sketch-size 3", "exists already"),
        (
            "model create news --dimension 4 --recipe LinUCB",
            "recipe: a coordinator cannot serve LinUCB. Use FSCLB",
        ),
        (
            "model create news --dimension 4 --recipe Random",
            "recipe: a coordinator cannot serve Random. Use FSCLB",
        ),
        (
            "model create news --dimension 4 --recipe AsyncLinUCB",
            "a coordinator cannot serve AsyncLinUCB",
        ),
        ("model create news --dimension 4 --recipe fsclb", "Did you mean 'FSCLB'?"),
        (
            "model create n --dimension 4 --recipe FedLinUCB --set a=1",
            "parameter in FedLinUCB: got",
        ),
        (
            "model create n --dimension 4 --recipe FedLinUCB --sketch-size 2",
            "parameter in FedLinUCB: got 'sketch_size'",
        ),
        ("model create n --dimension 4 --sketch-size 3 --set alfa=2", "Did you mean 'alpha'?"),
        ("model create n --dimension 4 --sketch-size 3 --set bounds.nois=1", "mean 'noise'?"),
        (
            "model create n --dimension 4 --sketch-size 3 --set bounds=3",
            "FSCLB.lean.bounds: got 3; expected a table.",
        ),
        (
            "model create n --dimension 4 --sketch-size 3 --set alpha=big",
            "FSCLB.lean.alpha: got 'big'; expected a number.",
        ),
        (
            "model create n --dimension 4 --sketch-size 3 --set alpha=2 --set alpha=3",
            "--set: alpha is set twice. Set each parameter once.",
        ),
        ("model create n --dimension 4 --sketch-size 3 --max-arm-norm -1", "largest arm norm: got"),
        (
            "model create n --dimension 4 --sketch-size 3 --max-reward nan",
            "largest reward: got nan",
        ),
        (
            "model create n --dimension 10 --sketch-size 3 --set dimension=7",
            "--set: got dimension=7; expected a parameter without an option of its own. "
            "Write --dimension 7.",
        ),
        ("model create n --dimension 10 --set sketch_size=auto", "Write --sketch-size auto."),
        ("model create n --dimension 10 --sketch-size 3 --set agents=9", "Write --agents 9."),
        ("model create n --dimension 6000 --recipe FedLinUCB", "a state of 288,048,000 bytes"),
        ("model create n --dimension 6000", "a state of 288,048,000 bytes"),
        (
            "model create n --dimension 99999999 --sketch-size 2 --recipe FSCLB",
            "a state of 1,599,999,984 bytes",
        ),
        ("model create n --dimension 99999999 --sketch-size 2", "a state of 7,199,999,928 bytes"),
        ("model import news.model --as a/b", "model: got 'a/b'; expected 1 to 64"),
        ("model show d1l2", "expected one of old. Pick one of those."),
        ("model show odl", "model: got 'odl'; expected one of old. Did you mean 'old'?"),
        ("model delete gone --yes", "model: got 'gone'"),
        ("model delete old", "Deleting old loses 0 uploads of 0 observations for good. Add --yes"),
        ("model export gone --out x", "model: got 'gone'"),
        ("model export old --out /nowhere/x", "export: cannot write: [Errno 2]"),
        ("model import /nowhere/x", "import: cannot read: [Errno 2]"),
        ("model list --store sqlite:////nowhere/x.db", "no such file"),
        ("model list --store mysql://x", "store: got 'mysql'"),
        ("model create n --dimension 4 --sketch-size 3 --store sqlite:////nowhere/x", "unable to"),
        ("token create", "token: got nothing; expected a model and an agent"),
        ("token create old", "token: got old; expected a model and an agent"),
        ("token create old phone --admin", "token: got old phone --admin"),
        ("token create gone phone", "model: got 'gone'"),
        ("token create old ph/one", "agent: got 'ph/one'"),
        ("token revoke phone", "token: 'phone' does not exist; there is no token yet. Create one."),
        ("token create old phone --name a/b", "token name: got 'a/b'; expected 1 to 64"),
        ("serve --listen nowhere", "listen: got 'nowhere'; expected HOST:PORT"),
        ("serve --listen 127.0.0.1:99999", "listen: got '127.0.0.1:99999'"),
        ("serve --listen 203.0.113.7:0 --insecure", "cannot listen on 203.0.113.7:0: [Errno"),
        ("serve --listen 0.0.0.0:0", "got 0.0.0.0 without TLS; expected TLS and tokens"),
        ("serve --listen 0.0.0.0:0", "Give --tls-cert and --tls-key, listen on 127.0.0.1, or"),
        ("serve --listen 0.0.0.0:0 --open", "--tls-key and leave out --open, listen on 127.0.0.1"),
        ("serve --listen 0.0.0.0:0 --open", "got 0.0.0.0 without TLS and tokens"),
        ("serve --listen [::]:0 --open", "got :: without TLS and tokens"),
        ("serve --allow-host box", "--allow-host is for --open alone"),
        ("serve --tls-cert x.pem", "TLS needs both files. Give --tls-cert and --tls-key"),
        ("serve --tls-cert x.pem --tls-key y.pem", "TLS: got [Errno 2]"),
        ("serve --store sqlite:////nowhere/x.db", "unable to open"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    store: str, words: str, message: str, capsys: Capture
) -> None:
    make_model(store, "old", RECIPE)
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("fedbandit: error: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("model", "required: VERB"),
        ("model creat news", "verb: got 'creat'; expected one of create, delete"),
        ("model create --dimension 4", "required: NAME"),
        ("model create news", "required: --dimension"),
        ("model create news --dimension 0", "--dimension: got '0'"),
        ("model create news --dimensio 4", "Did you mean '--dimension'?"),
        ("model create news --dimension 4 --set alpha", "--set: got 'alpha'; expected NAME=VALUE"),
        ("model create n --dimension 4 --max-count 1e-9", "expected a whole number of at least 1"),
        ("model create n --dimension 4 --max-count 1.5", "expected a whole number of at least 1"),
        ("model create n --dimension 4 --max-count 1e999", "expected a whole number of at least 1"),
        ("model export news", "required: --out"),
        ("token revoke", "required: NAME"),
        ("serve --queue 0", "--queue: got '0'"),
        ("serve --body-seconds 0", "--body-seconds: got '0'; expected seconds"),
        ("serve --body-seconds inf", "--body-seconds: got 'inf'"),
        ("serve --insecur", "Did you mean '--insecure'?"),
    ],
)
def test_wrong_words_are_answered(words: str, message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("written", "meant"), [("1e9", 10**9), ("2.5e3", 2500), ("70", 70)])
def test_counts_are_read_as_help_writes_them(store: str, written: str, meant: int) -> None:
    _run(f"model create news --dimension 4 --sketch-size 3 --max-count {written}")
    opened = open_store(store)
    assert opened.model("news").limits.count == meant
    opened.close()


def test_names_that_are_not_there_are_not_answered_with_thousands(
    store: str, capsys: Capture
) -> None:
    make_model(store, "news", RECIPE)
    opened = open_store(store)
    for number in range(30):
        opened.add_token(new_token(model="news", agent="a", name=f"n{number:02}p7")[1])
    opened.close()
    assert main(["token", "revoke", "nope"]) == 2
    told = capsys.readouterr().err
    assert "n19p7 and 10 more. Pick one of those." in told
    assert main(["token", "revoke", "n03p8"]) == 2
    assert "Did you mean 'n03p7'?" in capsys.readouterr().err


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path, capsys: Capture) -> None:
    issued = trustme.CA().issue_cert("localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form))
    files = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    assert main(["serve", "--listen", "127.0.0.1:0", *files]) == 2
    assert "--tls-key: got an encrypted key; expected one that is not" in capsys.readouterr().err


def test_a_file_that_is_no_store_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is no database, whatever its name says" * 100)
    assert main(["model", "list", "--store", f"sqlite:///{path}"]) == 2
    assert "file is not a database" in capsys.readouterr().err


def test_a_store_that_is_away_is_one_line(capsys: Capture) -> None:
    assert main(["model", "list", "--store", "postgresql://me:secret@127.0.0.1:1/x"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "secret" not in shown


def test_postgresql_by_its_url(
    postgres_url: Callable[[], str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBANDIT_STORE", postgres_url())
    assert main(["model", "list"]) == 2
    shown = capsys.readouterr().err
    assert (
        "There is no store at postgresql://... (a database with no store of fedbandit in it)"
        in shown
    )
    assert "fedbandit model create and fedbandit serve make one there" in shown
    _run("model create news --dimension 4 --sketch-size 3")
    _run("token create news phone")
    capsys.readouterr()
    _run("model list")
    assert "news" in capsys.readouterr().out
