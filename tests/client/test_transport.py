"""Over real connections: what an agent makes of answers, of silence and of broken pipes."""

import socket
import ssl
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import trustme
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit.client.transport import HttpTransport
from fedbandit.errors import InvalidParameter, Refused, RemoteError, Unreachable
from tests.client.http_twin import serving
from tests.client.proxy import MISCHIEF, between
from tests.client.twin import Twin

D = 80
RECIPE = fb.FSCLB(dimension=D, sketch_size=3, agents=2)


def transport_to(url: str, *, token: str | None = None, timeout: float = 5.0) -> HttpTransport:
    return HttpTransport(url, model="news", agent="phone-7", token=token, timeout=timeout)


def connected(url: str, *, state_dir: Path | None = None) -> fb.ConnectedAgent:
    return fb.connect(url, model="news", agent="phone-7", token="secret", state_dir=state_dir)


def test_a_connection_is_kept_and_the_token_sent() -> None:
    with serving(Twin(RECIPE)) as server:
        transport = transport_to(server.url + "/", token="secret")
        first = transport.exchange("state")
        assert transport.exchange("state") == first
        assert len(server.connections) == 1
        assert server.tokens == ["Bearer secret"] * 2
        transport.close()


def test_a_kept_connection_that_has_gone_stale_is_opened_anew() -> None:
    with serving(Twin(RECIPE)) as server:
        transport = transport_to(server.url)
        transport.exchange("state")
        server.connections[0].shutdown(socket.SHUT_RDWR)
        transport.exchange("state")
        assert len(server.connections) == 2
        transport.close()


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413, 415, 422])
def test_no_is_told_with_its_reason(status: int) -> None:
    with serving(Twin(RECIPE)) as server:
        server.status = status
        transport = transport_to(server.url)
        with pytest.raises(Refused, match=f"{status} token no") as caught:
            transport.exchange("state")
        assert caught.value.status == status
        transport.close()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_not_now_is_told_apart_from_no(status: int) -> None:
    with serving(Twin(RECIPE)) as server:
        server.status = status
        transport = transport_to(server.url)
        with pytest.raises(Unreachable, match=f"{status}"):
            transport.exchange("state")
        transport.close()


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match=r"refused.* runs at this address") as caught:
        connected(f"http://127.0.0.1:{port}")
    assert "cafile" not in str(caught.value)


@pytest.mark.parametrize("status", [None, 401, 404, 503])
def test_nothing_is_promised_that_holds_with_a_state_dir_alone(status: int | None) -> None:
    with serving(Twin(RECIPE)) as server:
        url, server.status = server.url, status
        transport = transport_to(url if status else "http://127.0.0.1:1")
        with pytest.raises(RemoteError, match="tries again by itself") as caught:
            transport.exchange("state")
        assert "lose" not in str(caught.value)
        transport.close()


def test_a_certificate_for_another_address_is_told(tmp_path: Path) -> None:
    authority, cafile = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(cafile)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    with serving(Twin(RECIPE), tls=context) as server:
        url = f"https://127.0.0.1:{server.server_port}"
        with pytest.raises(Unreachable, match="an address that the certificate names"):
            fb.connect(url, model="news", agent="phone-7", cafile=str(cafile))


def test_silence_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = transport_to(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1)
        with pytest.raises(Unreachable, match="timed out"):
            transport.exchange("state")


ANSWERS = {
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "cut in its head": b"HTTP/1.1 200 OK\r\nContent-Type: x\r\n",
    "no HTTP": b"220 mail.example ESMTP\r\n\r\n",
    "nothing": b"",
    "asks to wait": b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    "asks for ever": b"HTTP/1.1 503 Busy\r\nRetry-After: " + b"9" * 400 + b"\r\n\r\n",
    "deep": b"HTTP/1.1 500 No\r\n\r\n" + b"[" * 100_000,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers_that_are_none(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            there, _ = server.accept()
            there.recv(65536)
            there.sendall(answer)
            there.close()

        thread = Thread(target=serve)
        thread.start()
        transport = transport_to(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unreachable) as caught:
            transport.exchange("state")
        thread.join()
        transport.close()
        assert caught.value.retry_after == (7.0 if b"Retry-After: 7" in answer else 0.0)


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:80", "ftp://host", "http://", "http://h:x", "http://u@h", "http://h?q"),
        *(
            "http://a..b",
            f"https://{'x' * 64}.example",
            "http://h/ä",
            "http://h/a b",
            "http://h\x7f",
        ),
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidParameter, match="coordinator's address"):
        transport_to(url)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ä"])
def test_tokens_that_are_none_are_not_shown(token: str) -> None:
    with pytest.raises(InvalidParameter, match=r"token: got (another text|nothing);"):
        transport_to("http://host", token=token)


@pytest.mark.parametrize("host", ["10.0.0.1", "example.org", "localhost.example.org", "[fe80::1]"])
def test_a_token_is_not_sent_where_anybody_can_read_it(host: str) -> None:
    for url in (f"http://{host}:8400", f"http://{host}"):
        with pytest.raises(InvalidParameter, match=r"read the token.* insecure=True"):
            fb.connect(url, model="news", agent="a", token="secret", recipe=RECIPE)
        HttpTransport(
            url, model="news", agent="a", timeout=1.0, token="secret", insecure=True
        ).close()
        HttpTransport(url, model="news", agent="a", timeout=1.0, token=None).close()
    HttpTransport(f"https://{host}", model="news", agent="a", timeout=1.0, token="secret")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]"])
def test_a_token_may_go_to_this_machine_as_it_is(host: str) -> None:
    HttpTransport(f"http://{host}", model="news", agent="a", timeout=1.0, token="secret")


@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 65, "a b"])
def test_names_that_are_none(name: str) -> None:
    for model, agent in ((name, "a"), ("m", name)):
        with pytest.raises(InvalidParameter, match="letters, digits"):
            fb.connect("http://127.0.0.1:1", model=model, agent=agent)


def test_https_with_certificates_of_ones_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    twin = Twin(RECIPE)
    with serving(twin, tls=context) as server:
        url = f"https://127.0.0.1:{server.server_port}"
        with pytest.raises(Unreachable, match=r"verify failed.* Give as cafile") as caught:
            connected(url)
        assert "runs at this address" not in str(caught.value)
        cafile = str(tmp_path / "ca.pem")
        with fb.connect(url, model="news", agent="phone-7", cafile=cafile) as agent:
            agent.reward(agent.decide(np.eye(D)).id, 1.0)
            assert agent.sync(everything=True)
    assert twin.server.count == 1


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_file_that_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(InvalidParameter, match="file of certificates"):
        fb.connect("https://h", model="m", agent="a", cafile=str(tmp_path / "ca.pem"))


def test_a_certificate_file_that_goes_away_is_trouble_until_it_is_back(tmp_path: Path) -> None:
    authority, cafile = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(cafile)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    twin = Twin(RECIPE)
    with serving(twin, tls=context) as server:
        url = f"https://127.0.0.1:{server.server_port}"
        with fb.connect(url, model="news", agent="phone-7", cafile=str(cafile)) as agent:
            cafile.rename(tmp_path / "away")
            server.connections[-1].shutdown(socket.SHUT_RDWR)
            agent.reward(agent.decide(np.eye(D)).id, 1.0)
            for _ in range(3):
                assert not agent.sync(everything=True, timeout=0.05)
            assert "No such file" in str(agent.status().trouble)
            (tmp_path / "away").rename(cafile)
            assert agent.sync(everything=True)
            assert agent.status().trouble is None
    assert twin.server.count == 1


def test_a_token_that_is_refused_and_then_mended_loses_nothing() -> None:
    twin = Twin(RECIPE)
    with serving(twin) as server, connected(server.url) as agent:
        server.status = 401
        for i in range(10):
            agent.reward(agent.decide(np.eye(D)[i : i + 1]).id, 1.0)
        assert not agent.sync(timeout=0.2)
        assert "401" in str(agent.status().trouble)
        server.status = None
        assert agent.sync(everything=True)
        assert agent.status().trouble is None
    assert_array_equal(twin.server.moment[:10], np.ones(10))


@pytest.mark.parametrize("seed", range(3))
def test_through_a_proxy_that_cuts_and_copies(seed: int, tmp_path: Path) -> None:
    twin = Twin(RECIPE)
    with serving(twin) as server, between(server.server_port, seed=seed) as proxy:
        proxy.calm = True
        with connected(proxy.url, state_dir=tmp_path) as agent:
            proxy.calm = False
            for i in range(D):
                agent.reward(agent.decide(np.eye(D)[i : i + 1]).id, 1.0)
                deadline = time.monotonic() + 30.0
                while not agent.sync(timeout=0.01):
                    assert time.monotonic() < deadline
            proxy.calm = True
            assert agent.sync(everything=True)
        assert all(proxy.done[kind] >= 3 for kind in MISCHIEF)
    assert_array_equal(twin.server.moment, np.ones(D))
    assert twin.server.count == D
