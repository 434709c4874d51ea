"""Tokens expire, are renewed without a gap, come from codes that work once; certificates too."""

import json
import signal
import socket
import ssl
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import numpy as np
import pytest
import trustme

import fedbandit as fb
from fedbandit import wire
from fedbandit.cli.entry import main
from fedbandit.client.enrolment import read_token
from fedbandit.errors import Refused, Unreachable
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import certificate_digest, digest_of, new_token, token_of
from tests.client.faults import eventually
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import (
    BODY,
    client_of,
    make_model,
    make_token,
    running,
    state_path,
    sync_path,
    unwritable,
)

STRICT = Settings(remember_seconds=0.0, refusal_seconds=0.0)


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    return made


def _add(url: str, **more: Any) -> str:
    secret, token = new_token(model="news", agent="phone")
    store = open_store(url)
    store.add_token(replace(token, **more))
    store.close()
    return secret


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_token_that_is_over_opens_and_merges_nothing(url: str) -> None:
    over, good = _add(url, expires=time.time() - 1.0), _add(url, expires=time.time() + 1e6)
    body = wire.encode_sync(sync_for(RECIPE, 1))
    with client_of(url, STRICT) as client:
        for secret, status in ((over, 401), (good, 200)):
            headers = _bearer(secret)
            assert client.get(state_path(), headers=headers).status_code == status
            answer = client.post(sync_path(), content=body, headers=headers | BODY)
            assert answer.status_code == status


def test_a_token_that_ends_while_it_is_remembered_merges_nothing(url: str) -> None:
    secret = _add(url)
    with client_of(url, Settings(remember_seconds=1e6, refusal_seconds=0.0)) as client:
        headers = _bearer(secret) | BODY
        first, second = (wire.encode_sync(sync_for(RECIPE, n, sequence=n)) for n in (1, 2))
        assert client.post(sync_path(), content=first, headers=headers).status_code == 200
        store = open_store(url)
        heir = token_of(bytes(32), model="news", agent="phone")
        assert store.succeed(digest_of(secret), heir, ends=time.time() - 1.0)
        store.close()
        assert client.post(sync_path(), content=second, headers=headers).status_code == 401


def test_last_use_is_written_down_at_the_end_at_the_latest(url: str) -> None:
    secret, before = _add(url), time.time()
    _add(url)
    with client_of(url, STRICT) as client:
        client.get(state_path(), headers=_bearer(secret))
    store = open_store(url)
    used = {token.digest: token.used for token in store.tokens()}
    store.close()
    assert before <= (used.pop(digest_of(secret)) or 0.0) <= time.time()
    assert list(used.values()) == [None]


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).hexdigest().encode()


def test_a_code_becomes_one_token_and_opens_nothing_itself(url: str) -> None:
    code = _add(url, code=True, lifetime=3600.0, expires=time.time() + 60.0)
    path = state_path().partition("/state")[0] + "/token"
    with client_of(url, STRICT) as client:
        assert client.get(state_path(), headers=_bearer(code)).status_code == 401
        other = client.post(
            path.replace("phone", "other"), content=_digest("t" * 43), headers=_bearer(code)
        )
        assert other.status_code == 401  # it is for one agent
        for wrong in (b"", b"x" * 64, _digest("t")[:-1], _digest("t").upper()):
            answer = client.post(path, content=wrong, headers=_bearer(code))
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, "digest")
        answer = client.post(path, content=_digest("t" * 43), headers=_bearer(code))
        assert answer.status_code == 200
        assert 3500.0 < answer.json()["expires"] - time.time() <= 3600.0
        assert client.get(state_path(), headers=_bearer("t" * 43)).status_code == 200
        again = client.post(path, content=_digest("u" * 43), headers=_bearer(code))
        assert again.status_code == 401  # once


def test_a_code_that_is_over_becomes_nothing(url: str) -> None:
    code = _add(url, code=True, expires=time.time() - 1.0)
    path = state_path().partition("/state")[0] + "/token"
    with client_of(url, STRICT) as client:
        answer = client.post(path, content=_digest("t" * 43), headers=_bearer(code))
        assert answer.status_code == 401


def test_a_device_enrols_renews_and_goes_on_without_a_gap(url: str, tmp_path: Path) -> None:
    code = _add(url, code=True, expires=time.time() + 60.0)
    file = tmp_path / "token"
    with running(url) as process:
        whom: Any = {"model": "news", "agent": "phone", "token_file": file}
        with pytest.raises(Refused):
            fb.enrol(process.address, code="x" * 43, **whom)
        fb.enrol(process.address, code=code, **whom)
        assert file.stat().st_mode & 0o777 == 0o600
        first = read_token(file)
        fb.enrol(process.address, code=code, **whom)  # its answer was lost, say
        assert read_token(file) == first
        with fb.connect(
            process.address, model="news", agent="phone", token=file, state_dir=tmp_path / "state"
        ) as agent:
            for _ in range(2):
                before = read_token(file)
                fb.renew(process.address, **whom)
                assert read_token(file) != before
                agent.reward(agent.decide(np.eye(4)).id, 1.0)
                assert agent.sync(everything=True)
        store = open_store(url)
        tokens = {token.digest: token for token in store.tokens()}
        store.close()
    assert len(tokens) == 3
    assert tokens[digest_of(first)].expires is not None  # a day from then
    assert tokens[digest_of(read_token(file))].expires is None
    assert {each.name for each in tmp_path.iterdir()} >= {"token", "state"}


def test_a_renewal_whose_answer_was_lost_goes_on_with_the_same_token(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(_add(url))
    draft = tmp_path / "token.new"
    draft.write_text(_add(url))  # registered before, and then the machine went down
    with running(url) as process:
        fb.renew(process.address, model="news", agent="phone", token_file=file)
    assert not draft.exists()


def test_an_agent_that_renews_in_a_loop_keeps_no_other_agent_waiting(url: str) -> None:
    """Exchanges write, and so may wait for the store; others have to be able to read meanwhile."""
    mine, theirs = _add(url), _add(url, agent="tablet")
    path = "/v1/models/news/agents/phone/token"
    with client_of(url, Settings()) as client, ThreadPoolExecutor(8) as pool:

        def renew(number: int) -> int:
            answer = client.post(path, content=f"{number}" * 64, headers=_bearer(mine))
            return int(answer.status_code)

        with unwritable(url):
            asked = [pool.submit(renew, number) for number in range(8)]
            done = [each.result() for each in islice(as_completed(asked), 6)]
            joined = client.get(state_path(agent="tablet"), headers=_bearer(theirs))
            assert joined.status_code == 200
            assert done == [429] * 6
        assert sorted(each.result() for each in asked) == [200] * 2 + [429] * 6


def test_commands_make_codes_rotate_and_show_when(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit"
    more = ["--store", url, "--audit", str(audit)]

    def run(*words: str) -> tuple[str, str]:
        capsys.readouterr()
        assert main([*words, *more]) == 0
        out, told = capsys.readouterr()
        return out.strip(), told

    secret, told = run("token", "create", "news", "phone", "--lifetime", "90d", "--name", "first")
    code, _ = run("token", "code", "news", "tablet", "--expires", "2h", "--lifetime", "30d")
    heir, told = run("token", "rotate", "first", "--overlap", "12h")
    assert "first stays good until" in told
    store = open_store(url)
    old, new, made = (store.token(digest_of(each)) for each in (secret, heir, code))
    store.close()
    assert old is not None
    assert new is not None
    assert made is not None
    assert (old.expires or 0.0) - time.time() <= 12 * 3600.0
    assert new.lifetime == 90 * 86_400.0
    assert (made.code, made.lifetime) == (True, 30 * 86_400.0)
    assert made.expires is not None
    assert main(["token", "list", "--store", url]) == 0
    assert "(code)" in capsys.readouterr().out
    run("token", "revoke", "first")
    whats = [json.loads(line)["what"] for line in audit.read_text().splitlines()]
    assert whats == ["token created", "code created", "token rotated", "token revoked"]
    assert main(["token", "rotate", "first", "--store", url]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(["token", "create", "news", "x", "--lifetime", "soon", "--store", url])


# TLS: certificates of clients, and of the coordinator ------------------------------------------


def _serving(authority: trustme.CA, tmp_path: Path) -> tuple[str, ...]:
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))


def test_a_client_certificate_takes_the_place_of_a_token(url: str, tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, issuer in (("phone", authority), ("other", authority), ("forged", stranger)):
        path = tmp_path / f"{name}.pem"
        issuer.issue_cert(f"{name}.example").private_key_and_cert_chain_pem.write_to_path(path)
    for name in ("phone", "forged"):  # the second is not of an authority that is trusted
        words = ["token", "create", "news", "phone", "--name", name]
        words += ["--certificate", str(tmp_path / f"{name}.pem"), "--store", url]
        assert main(words) == 0
    ca = str(tmp_path / "ca.pem")
    options = (*_serving(authority, tmp_path), "--tls-client-ca", ca)

    def connected(process_address: str, name: str, agent: str = "phone") -> fb.ConnectedAgent:
        return fb.connect(
            process_address,
            model="news",
            agent=agent,
            cafile=ca,
            certificate=str(tmp_path / f"{name}.pem"),
        )

    with running(url, *options) as process:
        with connected(process.address, "phone") as agent:
            agent.reward(agent.decide(np.eye(4)).id, 1.0)
            assert agent.sync(everything=True)
        with pytest.raises(Refused, match="401"):
            connected(process.address, "other")
        with pytest.raises(Refused, match="401"):
            connected(process.address, "phone", agent="tablet")
        with pytest.raises(Unreachable):
            connected(process.address, "forged")
        secret = make_token(url, model="news", agent="tablet")  # tokens still do
        fb.connect(process.address, model="news", agent="tablet", cafile=ca, token=secret).close()
        assert main(["token", "revoke", "phone", "--store", url]) == 0
        assert eventually(lambda: _is_refused(lambda: connected(process.address, "phone")))


def _is_refused(connect: Callable[[], fb.ConnectedAgent]) -> bool:
    try:
        connect().close()
    except Refused:
        return True
    return False


def test_no_token_has_the_digest_of_a_certificate(url: str) -> None:
    """Certificates are no secret, so their bytes must not do as a token."""
    der = b"\x30\x82 not a certificate"
    store = open_store(url)
    store.add_token(token_of(certificate_digest(der), model="news", agent="phone"))
    store.close()
    with client_of(url, STRICT) as client:
        for secret in (der, b"fedbandit certificate\n" + der):
            headers = {b"Authorization": b"Bearer " + secret}
            assert client.get(state_path(), headers=headers).status_code in (400, 401)


def _shown(address: str) -> bytes:
    """Return the certificate that a coordinator shows now."""
    place = urlsplit(address)
    pem = ssl.get_server_certificate((str(place.hostname), int(place.port or 0)), timeout=30)
    return ssl.PEM_cert_to_DER_cert(pem)


def test_sighup_has_the_certificate_read_again(url: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    with running(url, *_serving(authority, tmp_path)) as process:
        first = _shown(process.address)
        (tmp_path / "cert.pem").write_text("no certificate")
        process.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert _shown(process.address) == first  # the old one, while the files are wrong
        _serving(authority, tmp_path)
        process.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: _shown(process.address) != first)


# Refusals, the audit log, and an address for operators -----------------------------------------


def _status(url: str, headers: dict[str, str] | None = None) -> int:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers or {}), timeout=30
        ) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def test_wrong_tokens_are_answered_429_in_the_end_and_good_ones_are_served(
    url: str, tmp_path: Path
) -> None:
    good, audit = _add(url), tmp_path / "audit"
    with running(url, "--audit", str(audit)) as process:
        place = process.address + state_path()
        with ThreadPoolExecutor(16) as many:  # faster than room for more comes back, one a second
            wrong = [many.submit(_status, place, _bearer("x" * 43)) for _ in range(160)]
        statuses = Counter(each.result() for each in wrong)
        assert set(statuses) == {401, 429}
        assert statuses[401] >= 60
        assert _status(place, _bearer(good)) == 200
        assert process.stop() == 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    refused = [line for line in lines if line["what"] == "refused"]
    assert sum(line["count"] for line in refused) == 160
    assert {line["from"] for line in lines} == {"127.0.0.1"}
    (join,) = (line for line in lines if line["what"] == "join")
    assert (join["model"], join["agent"], join["status"]) == ("news", "phone", 200)
    assert join["token"].startswith("phone-")
    assert join["sent"] > 0
    assert good not in audit.read_text()


def test_operators_have_an_address_of_their_own(url: str) -> None:
    admin = make_token(url, model=None, agent=None)
    port = _free_port()
    with running(url, "--admin-listen", f"127.0.0.1:{port}") as process:
        own = f"http://127.0.0.1:{port}"
        for path in ("/readyz", "/docs", "/openapi.json", "/metrics"):
            assert _status(process.address + path) == 404
        for path in ("/readyz", "/docs", "/openapi.json", "/healthz"):
            assert _status(own + path) == 200
        assert _status(f"{own}/metrics") == 401
        assert _status(f"{own}/metrics", _bearer(admin)) == 200
        request = urllib.request.Request(f"{own}/metrics", headers=_bearer(admin))
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert b"\nfedbandit_connections 1\n" in answer.read()  # this one
        assert _status(own + state_path(), _bearer(admin)) == 404
        assert _status(f"{process.address}/healthz") == 200


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_the_address_of_operators_is_no_hole(url: str) -> None:
    words = ["serve", "--store", url, "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"]
    assert main(words) == 2
