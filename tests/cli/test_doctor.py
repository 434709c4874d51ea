"""``fedbandit doctor``: what it finds in good order, and what it says to do where it is not."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

import fedbandit as fb
from fedbandit.cli import main
from fedbandit.service.private import private_coordinator
from fedbandit.service.settings import Settings

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDBANDIT_TOKEN", raising=False)
    monkeypatch.setenv("FEDBANDIT_STORE", f"sqlite:///{tmp_path}/fedbandit.db")
    return tmp_path


def examine(capsys: Capture, *words: str, code: int = 0) -> dict[str, tuple[str, str, str]]:
    """Return what doctor found, by what it looked at: state, found, fix."""
    capsys.readouterr()
    assert main(["doctor", *words, "--json"]) == code
    told = json.loads(capsys.readouterr().out)["checks"]
    return {each["about"]: (each["state"], each["found"], each["fix"]) for each in told}


def test_where_there_is_nothing_yet_it_says_what_to_do(capsys: Capture) -> None:
    found = examine(capsys, "--coordinator", "http://127.0.0.1:9", code=1)
    assert found["installation"][0] == "ok"
    assert fb.__version__ in found["installation"][1]
    assert found["store"][0] == "note"
    assert "fedbandit model create" in found["store"][2]
    assert found["coordinator"][0] == "problem"
    assert found["certificate"][0] == found["token"][0] == "ok"


def test_people_get_a_line_each_and_a_count(capsys: Capture) -> None:
    assert main(["doctor", "--store", "sqlite:///none.db"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("PROBLEM store: none at sqlite:///none.db") for line in lines)
    assert lines[-1] == "1 problem"


def test_a_token_that_opens_its_agent(place: Path, capsys: Capture) -> None:
    assert main(["model", "create", "news", "--dimension", "4"]) == 0
    capsys.readouterr()
    assert main(["token", "create", "news", "phone-7"]) == 0
    token = place / "token"
    token.touch(0o600)
    token.write_text(capsys.readouterr().out)
    recipe = fb.FSCLB.lean(dimension=4, agents=100)
    store = f"sqlite:///{place}/fedbandit.db"
    with private_coordinator(store, model="news", recipe=recipe, settings=Settings()) as url:
        asked = ["--coordinator", url, "--token-file", str(token), "--model", "news"]
        found = examine(capsys, *asked, "--agent", "phone-7")
        assert {state for state, _, _ in found.values()} <= {"ok", "note"}
        assert found["coordinator"][1] == f"{url} is ready"
        assert found["store"][1].endswith("fedbandit.db: 1 models, 1 tokens")
        assert found["token"][1].startswith("opens news/phone-7")
        found = examine(capsys, *asked, "--agent", "phone-8", code=1)
        assert "fedbandit token create news phone-8" in found["token"][2]
        found = examine(capsys, *asked)
        assert found["token"][:2] == ("note", "there, not tried")
    token.chmod(0o644)
    found = examine(capsys, "--token-file", str(token), code=1)
    assert found["token"] == (
        "problem",
        f"{token} can be read by other users (mode 644)",
        f"chmod 600 {token}",
    )


@contextmanager
def secure_server(issued: trustme.LeafCert) -> Iterator[str]:
    """Answer every request with 200 over TLS."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_certificate_is_trusted_by_its_authority(place: Path, capsys: Capture) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(place / "ca.pem"))
    with secure_server(authority.issue_cert("localhost")) as url:
        found = examine(capsys, "--coordinator", url, "--cafile", "ca.pem")
        assert found["coordinator"][1] == f"{url} is ready"
        assert found["certificate"][1].startswith("trusted, ends in ")
        found = examine(capsys, "--coordinator", url, code=1)
        assert found["certificate"][0] == "problem"
        assert "--cafile" in found["certificate"][2]
        wrong = url.replace("localhost", "127.0.0.1")
        found = examine(capsys, "--coordinator", wrong, "--cafile", "ca.pem", code=1)
        assert "127.0.0.1" in found["certificate"][1]


@pytest.mark.parametrize(
    ("words", "about", "message"),
    [
        ("--coordinator nowhere", "coordinator", "'nowhere' is no address"),
        ("--coordinator http://[", "coordinator", "'http://[' is no address"),
        ("--store postgresql://127.0.0.1:1/x", "store", "The store postgresql://... "),
        ("--store mysql://x", "store", "expected sqlite:///PATH"),
        ("--token-file none", "token", "token file: got No such file"),
    ],
)
def test_wrong_input_is_a_problem_among_others(
    words: str, about: str, message: str, capsys: Capture
) -> None:
    found = examine(capsys, *words.split(), code=1)
    assert found[about][0] == "problem"
    assert message in found[about][1]


def test_a_file_that_is_no_certificate(capsys: Capture) -> None:
    words = ["--coordinator", "https://localhost:1", "--cafile", "none.pem"]
    assert main(["doctor", *words]) == 2
    assert "--cafile: got 'none.pem'" in capsys.readouterr().err
