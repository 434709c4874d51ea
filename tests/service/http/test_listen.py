"""Where a coordinator may listen, and what it insists on."""

import subprocess
import sys

import pytest

from fedbandit.errors import InvalidParameter
from fedbandit.service.http.address import Address, check_exposure, read_address

LOOPBACK = ["127.0.0.1:80", "127.9.9.9:80", "localhost:80", "[::1]:80"]
ELSEWHERE = [
    "0.0.0.0:80",
    "[::]:80",
    "192.168.1.5:80",
    "8.8.8.8:80",
    "example.org:80",
    "[fe80::1]:1",
]


@pytest.mark.parametrize("text", LOOPBACK)
def test_loopback_needs_nothing(text: str) -> None:
    check_exposure(read_address(text), tls=False, tokens=False, insecure=False)


@pytest.mark.parametrize("text", ELSEWHERE)
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("tokens", [False, True])
def test_elsewhere_needs_both_or_a_word(text: str, tls: bool, tokens: bool) -> None:
    address = read_address(text)
    check_exposure(address, tls=tls, tokens=tokens, insecure=True)
    if tls and tokens:
        check_exposure(address, tls=tls, tokens=tokens, insecure=False)
    else:
        with pytest.raises(InvalidParameter, match="expected TLS and tokens outside loopback"):
            check_exposure(address, tls=tls, tokens=tokens, insecure=False)


def test_addresses_are_read() -> None:
    assert read_address("[::1]:8400") == Address(host="::1", port=8400)
    assert read_address("localhost:0") == Address(host="localhost", port=0)
    for text in (
        "",
        ":",
        ":80",
        "host",
        "host:",
        "host:-1",
        "host:x",
        "host:65536",
        "host:8\u0664",
    ):
        with pytest.raises(InvalidParameter, match="expected HOST:PORT"):
            read_address(text)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "threadpoolctl"])
def test_without_the_extra_it_says_what_to_install(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from fedbandit.cli import main; sys.exit(main(['serve', '--listen', '127.0.0.1:0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"needs {package}, which is not installed" in done.stderr
    assert "pip install 'fedbandit[service]'" in done.stderr


def test_models_and_tokens_on_sqlite_need_no_server(tmp_path: object) -> None:
    program = (
        "import sys\n"
        "missing = ('starlette', 'uvicorn', 'psycopg', 'threadpoolctl')\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "from fedbandit.cli import main\n"
        f"store = 'sqlite:///{tmp_path}/bare.db'\n"
        "words = 'model create m --dimension 3 --sketch-size 2 --store'.split()\n"
        "assert main([*words, store]) == 0\n"
        "assert main(['token', 'create', 'm', 'a', '--store', store]) == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
