"""A SuperLink with TLS and node authentication on this machine, and SuperNodes to be killed."""

import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BIN = Path(sys.executable).parent
APP = Path(__file__).parents[2] / "examples" / "flower"
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(holds: Callable[[], object], *, seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.2)


class Flower:
    """Processes of Flower under a home of their own; ended by id, SuperNodes first."""

    def __init__(self, place: Path) -> None:
        self.place, self.home = place, place / "home"
        self.home.mkdir()
        self.port = free_port()
        self.env = {
            **os.environ,
            **QUIET,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "FLWR_HOME": str(self.home),
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(self.port),
            "FLWR_LOCAL_CONTROL_API_PORT": str(free_port()),
        }
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.link: subprocess.Popen[bytes] | None = None

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        log = (self.place / f"{name}.log").open("ab")
        with log:
            return subprocess.Popen(
                [str(BIN / words[0]), *words[1:]],
                env=self.env,
                cwd=self.place,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def flwr(self, *words: str) -> dict[str, object]:
        """Run a command of Flower; return what it says in JSON."""
        command = [str(BIN / "flwr"), *words, "--format", "json"]
        ran = subprocess.run(
            command,
            env=self.env,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        told: dict[str, object] = json.loads(ran.stdout[ran.stdout.index("{") :])
        return told

    def run(self, link: str, *words: str, **config: object) -> None:
        given = " ".join(f"{name.replace('_', '-')}={json.dumps(v)}" for name, v in config.items())
        self.flwr("run", str(APP), link, "--run-config", given, *words)

    def start_link(self) -> None:
        """Start a SuperLink that SuperNodes and commands must trust by its certificate."""
        make_certificate(self.place)
        tls = ["--ssl-ca-certfile", "ca.pem", "--ssl-certfile", "link.pem"]
        self.link = self.start(
            "superlink",
            "flower-superlink",
            *tls,
            *("--ssl-keyfile", "link.key", "--enable-supernode-auth"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        )
        ca = json.dumps(str(self.place / "ca.pem"))
        config = f'[superlink.tls]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = {ca}\n'
        (self.home / "config.toml").write_text(config)
        wait_for(lambda: _listens(self.port), seconds=900, what="SuperLink")

    def register(self, index: int) -> None:
        make_node_key(self.place, index)
        self.flwr("supernode", "register", f"node-{index}.pub", "tls")

    def start_node(self, index: int) -> None:
        key = ["--auth-supernode-private-key", f"node-{index}.key"]
        self.nodes[index] = self.start(
            f"supernode-{index}",
            "flower-supernode",
            *("--root-certificates", "ca.pem", "--superlink", f"127.0.0.1:{self.port}"),
            *key,
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *("--node-config", f"partition-id={index}"),
        )

    def restart_node(self, index: int) -> None:
        """Start a SuperNode that was killed, again and again until the SuperLink takes it.

        Flower believes for a minute that the killed one is there, and lets no other in.
        """
        log = self.place / f"supernode-{index}.log"
        seen, until = log.read_text().count("SuperNode ID:"), time.monotonic() + 900

        def settled() -> bool:
            taken = log.read_text().count("SuperNode ID:") > seen
            return taken or self.nodes[index].poll() is not None

        while log.read_text().count("SuperNode ID:") == seen:
            assert time.monotonic() < until, "the SuperLink does not take the SuperNode back"
            if index in self.nodes:
                self.kill_node(index)
                time.sleep(5)
            self.start_node(index)
            wait_for(settled, seconds=900, what=f"SuperNode {index} is taken or ends")

    def kill_node(self, index: int) -> None:
        """Kill a SuperNode and the processes that it has started, as a power cut would."""
        node = self.nodes.pop(index)
        with suppress(ProcessLookupError):  # it may have ended
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def stop(self) -> None:
        for process in [*self.nodes.values(), *([self.link] if self.link else [])]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._stop_local_link()

    def _stop_local_link(self) -> None:
        """End the SuperLink that ``flwr run . local`` leaves behind, and what that has started.

        Each is known by the home that it was given, and ended by its id.
        """
        mine = f"FLWR_HOME={self.home}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mine in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGTERM)
            except OSError:  # of others, or gone meanwhile
                continue


@contextmanager
def flower(place: Path) -> Iterator[Flower]:
    made = Flower(place)
    try:
        yield made
    finally:
        made.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def make_certificate(place: Path) -> None:
    """Write ca.pem, link.pem and link.key, for 127.0.0.1."""
    authority, link = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    )
    for file, subject, key, extension in (
        ("ca", root, authority, x509.BasicConstraints(ca=True, path_length=None)),
        ("link", name, link, hosts),
    ):
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(root)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=file == "ca")
            .sign(authority, hashes.SHA256())
        )
        (place / f"{file}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (place / "link.key").write_bytes(_private(link))


def make_node_key(place: Path, index: int) -> None:
    """Write the two halves of the key by which a SuperNode is known."""
    key = ec.generate_private_key(ec.SECP384R1())
    (place / f"node-{index}.key").write_bytes(_private(key, serialization.PrivateFormat.OpenSSH))
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    (place / f"node-{index}.pub").write_bytes(key.public_key().public_bytes(*form))


def _private(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
