"""A server in a process of its own, which ends with this one."""

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedbandit.errors import OutputError

_STOP_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1


@contextmanager
def running(words: Sequence[str], *, log: Path) -> Iterator[str]:
    """Run a command of fedbandit that serves, and yield its address; stop it at the end.

    It gets no Ctrl-C from the terminal, so that it is stopped in its turn.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedbandit.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 (agents have no threads yet)
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            said = (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            why = said.removeprefix("fedbandit: error: ")
            raise OutputError(f"quickstart: fedbandit {words[0]} did not start: {why}")
        yield line.split()[-1]
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _end_with_parent() -> None:
    """Have Linux stop the process if this one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_address(port: int) -> str:
    """Return a loopback address with this port, or with any if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return "127.0.0.1:0"
    return f"127.0.0.1:{port}"
