"""Code blocks of a page, and a place in which they run as a reader would run them.

Blocks of ``python`` and ``sh`` run in order, in one directory. Comments that a reader does not see
help where a page shows a part only:

- ``<!-- python ... -->`` and ``<!-- sh ... -->`` run as blocks
- ``<!-- background -->`` before a block: it goes on running until the page ends
- ``<!-- run as OLD => NEW -->`` before a block: it runs with OLD replaced by NEW
- ``<!-- not run: REASON -->`` before a block
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORTS = ("8400", "8401", "8402")
TIMEOUT = 300

_PIECES = re.compile(
    r"<!-- (?P<hidden>python|sh)\n(?P<secret>.*?)-->"
    r"|<!-- (?P<word>background|run as|not run:?)(?P<told>.*?) ?-->"
    r"|^```(?P<language>\w*)\n(?P<shown>.*?)^```",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """Code to run."""

    language: str
    code: str
    background: bool = False


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page that are to be run, in order."""
    found: list[Block] = []
    words: dict[str, str] = {}
    for piece in _PIECES.finditer(text):
        if piece["word"]:
            words[piece["word"].rstrip(":")] = piece["told"].strip()
            continue
        language = piece["hidden"] or piece["language"]
        code = piece["secret"] if piece["hidden"] else piece["shown"]
        if language in ("python", "sh") and "not run" not in words:
            if "run as" in words:
                old, _, new = words["run as"].partition(" => ")
                assert old in code, f"{old!r} is not in the block below"
                code = code.replace(old, new)
            found.append(Block(language, code, "background" in words))
        words = {}
    return found


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


# Reads files of Python, one a line, runs them in one namespace, and says how each ended.
SESSION = """
import sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        with open(line.strip(), encoding="utf-8") as source:
            exec(compile(source.read(), line.strip(), "exec"), names)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("\\nFAILED", flush=True)
    else:
        print("\\nDONE", flush=True)
"""


@dataclass
class Place:
    """A directory with the repository's examples, ports of its own, and what runs there."""

    directory: Path
    ports: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    session: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> None:
        code = block.code
        for told, free in self.ports.items():
            code = code.replace(told, free)
        if block.language == "python":
            self._python(code)
            return
        command = ["bash", "-euo", "pipefail", "-c", code]
        if block.background:
            self._start(command, code)
            return
        ran = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert ran.returncode == 0, f"{code}\n{ran.stdout}\n{ran.stderr}"

    def _python(self, code: str) -> None:
        """Run a block; it knows what earlier blocks of the page have defined."""
        if self.session is None:
            self.session = subprocess.Popen(
                [sys.executable, "-c", SESSION],
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self.session.stdin is not None
        assert self.session.stdout is not None
        (self.directory / "block.py").write_text(code, encoding="utf-8")
        self.session.stdin.write("block.py\n")
        self.session.stdin.flush()
        said = ""
        for line in self.session.stdout:
            if line in ("DONE\n", "FAILED\n"):
                assert line == "DONE\n", f"{code}\n{said}"
                return
            said += line
        raise AssertionError(f"the interpreter ended:\n{code}\n{said}")

    def _start(self, command: list[str], code: str) -> None:
        """Start a server and wait until every port that it names is open."""
        log = (self.directory / "background.log").open("ab")
        with log:
            self.running.append(
                subprocess.Popen(
                    command, cwd=self.directory, env=self._environment(), stdout=log, stderr=log
                )
            )
        deadline = time.monotonic() + 60
        for port in (free for free in self.ports.values() if f"listen 127.0.0.1:{free}" in code):
            while not _open(int(port)):
                assert time.monotonic() < deadline, (self.directory / "background.log").read_text()
                time.sleep(0.1)

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "NO_COLOR": "1"}


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def place(directory: Path) -> Iterator[Place]:
    """Make a place to run a page in; end what it left running."""
    (directory / "examples").symlink_to(ROOT / "examples")
    (directory / ".venv").symlink_to(sys.prefix)
    here = Place(directory, {port: free_port() for port in PORTS})
    try:
        yield here
    finally:
        if here.session is not None:
            here.session.communicate(timeout=30)
        for process in here.running:
            process.terminate()
        for process in here.running:
            process.wait(timeout=30)
