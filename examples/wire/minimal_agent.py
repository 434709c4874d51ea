"""An agent from docs/wire.md alone, for FedLinUCB with wire="full": the standard library, no more.

Its state is in memory: it begins another life with every start. Run it with
``python minimal_agent.py HOST PORT MODEL AGENT TOKEN``; it plays a small world of its own.
"""

import http.client
import json
import math
import os
import random
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

Vector = Sequence[float]
Rows = list[list[float]]
MEDIA_TYPE = "application/vnd.fedbandit+msgpack"
LATER = (408, 425, 429)


def pack(value: Any) -> bytes:
    """Return a value in MessagePack, always in the longest form: readers take any."""
    if value is None or isinstance(value, bool):
        return b"\xc0" if value is None else b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, dict):
        items = [item for pair in value.items() for item in pair]
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(map(pack, items))
    if isinstance(value, (list, tuple)):
        return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(pack, value))
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">BI", 0xDB if isinstance(value, str) else 0xC6, len(data)) + data


FIXED: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = dict(
    zip(range(0xCA, 0xD4), ["f", "d", "B", "H", "I", "Q", "b", "h", "i", "q"], strict=True)
)
SIZED = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xD9: "B", 0xDA: "H", 0xDB: "I", 0xDC: "H", 0xDD: "I"}
SIZED |= {0xDE: "H", 0xDF: "I"}


def unpack(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return a value of MessagePack, and where the next one begins."""
    tag, at = data[at], at + 1
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in FIXED:
        return FIXED[tag], at
    if tag in NUMBERS:
        form = ">" + NUMBERS[tag]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    size = tag & (31 if 0xA0 <= tag < 0xC0 else 15)
    if tag in SIZED:
        size = struct.unpack_from(">" + SIZED[tag], data, at)[0]
        at += struct.calcsize(SIZED[tag])
    if tag in (0xC4, 0xC5, 0xC6):
        return bytes(data[at : at + size]), at + size
    if 0xA0 <= tag < 0xC0 or tag in (0xD9, 0xDA, 0xDB):
        return data[at : at + size].decode(), at + size
    pairs, items = tag < 0x90 or tag in (0xDE, 0xDF), list[Any]()
    for _ in range(2 * size if pairs else size):
        item, at = unpack(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if pairs else items), at


def dot(x: Vector, y: Vector) -> float:
    """Return the inner product."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def cholesky(matrix: Rows) -> Rows:
    """Return the lower L with L L^T the matrix; raise ValueError if there is none."""
    rows: Rows = []
    for i, given in enumerate(matrix):
        row: list[float] = []
        for j in range(i):
            row.append((given[j] - dot(row, rows[j][:j])) / rows[j][j])
        rows.append([*row, math.sqrt(given[i] - dot(row, row))])
    return rows


def forward(lower: Rows, y: Vector) -> list[float]:
    """Return L^-1 y: the square of its length is the product of y with V^-1 y."""
    found: list[float] = []
    for i, row in enumerate(lower):
        found.append((y[i] - dot(row[:i], found)) / row[i])
    return found


def solve(lower: Rows, y: Vector) -> list[float]:
    """Return V^-1 y, from the Cholesky factor of V."""
    found = forward(lower, y)
    for i in reversed(range(len(found))):
        found[i] /= lower[i][i]
        for j in range(i):
            found[j] -= lower[i][j] * found[i]
    return found


def log_det(lower: Rows) -> float:
    """Return the logarithm of the determinant of V."""
    return 2 * sum(math.log(row[i]) for i, row in enumerate(lower))


def first_best(scores: list[float]) -> int:
    """Return the first of the scores that differ from the best by rounding alone."""
    bar = max(scores) - 1e-9 * max(map(abs, scores))
    return next(k for k, score in enumerate(scores) if score >= bar)


class Agent:
    """Chooses, observes, and syncs when the trigger fires."""

    def __init__(self, host: str, port: int, model: str, agent: str, token: str) -> None:
        """Join as a new life."""
        self.server = http.client.HTTPConnection(host, port, timeout=30)
        self.path = f"/v1/models/{model}/agents/{agent}/"
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE}
        self.begin_life()
        self.forget_pending()

    def begin_life(self) -> None:
        """Draw a life; join, for the recipe, the limits, and how many lives were before."""
        status, _, answer = self.ask("GET", "state?format=2")
        if status != 200:
            raise RuntimeError(answer)
        tag, form, self.fingerprint, _, recipe, params, limits, lives, download, _ = answer
        if (tag, form) != ("joined", 2):
            raise RuntimeError("an older coordinator: it has to be upgraded")
        self.recipe, self.params = recipe, json.loads(params)
        self.longest, self.largest, self.most = limits
        self.life, self.born, self.sequence = os.urandom(16), lives, 0
        self.receive(download)

    def receive(self, download: Any) -> None:
        """Decide with a download from now on."""
        _, _, summary, moment, self.count, self.version, _ = download
        d, ridge = self.params["dimension"], self.params["ridge"]
        if summary[0] != "gram":
            raise RuntimeError('this agent knows FedLinUCB with wire="full" alone')
        numbers = struct.unpack(f"<{d * d}d", summary[1][1])
        self.v = [list(numbers[i * d : i * d + d]) for i in range(d)]
        for i in range(d):
            self.v[i][i] += ridge
        self.root = cholesky(self.v)
        self.theta = solve(self.root, struct.unpack(f"<{d}d", moment[1]))
        self.radius = self.params["radius"]

    def forget_pending(self) -> None:
        """Begin with nothing pending."""
        d = self.params["dimension"]
        self.gram, self.moment = [[0.0] * d for _ in range(d)], [0.0] * d
        self.rewards: list[Any] = [0, 0.0, 0.0]

    def scores(self, arms: Rows) -> list[float]:
        """Return what each arm may be worth."""
        widths = (forward(self.root, x) for x in arms)
        spread = (self.radius * math.sqrt(dot(w, w)) for w in widths)
        return [dot(self.theta, x) + more for x, more in zip(arms, spread, strict=True)]

    def choose(self, arms: Rows) -> int:
        """Return the index of the arm to play."""
        return first_best(self.scores(arms))

    def observe(self, x: list[float], reward: float) -> bool:
        """Learn from the reward of a played arm; sync if that is due, and say whether it was."""
        self.check(x, reward)
        for i, a in enumerate(x):
            self.moment[i] += reward * a
            for j, b in enumerate(x):
                self.gram[i][j] += a * b
        self.rewards = [self.rewards[0] + 1, self.rewards[1] + reward, self.rewards[2] + reward**2]
        due = self.growth() > self.threshold() or self.rewards[0] >= self.most
        if due:
            self.sync(self.upload())
        return due

    def check(self, x: list[float], reward: float) -> None:
        """Refuse what no upload may have in it."""
        if not (math.sqrt(dot(x, x)) <= self.longest and abs(reward) <= self.largest):
            raise ValueError(f"arms up to {self.longest} and rewards up to {self.largest} alone")

    def threshold(self) -> float:
        """Return the growth that an upload waits for, and a little for rounding."""
        grown = math.log1p(self.params["alpha"])
        return grown + 1e-9 * max(1.0, grown)

    def growth(self) -> float:
        """Return by how much pending observations raise log det V."""
        both = [
            [a + b for a, b in zip(*rows, strict=True)]
            for rows in zip(self.v, self.gram, strict=True)
        ]
        return log_det(cholesky(both)) - log_det(self.root)

    def upload(self) -> list[Any]:
        """Return what was observed since the last upload."""
        d, numbers = self.params["dimension"], [a for row in self.gram for a in row]
        summary = ["gram", [[d, d], struct.pack(f"<{d * d}d", *numbers)]]
        moment = [[d], struct.pack(f"<{d}d", *self.moment)]
        return ["upload", 2, 0, summary, moment, self.rewards[0], {"rewards": self.rewards}]

    def sync(self, upload: list[Any]) -> None:
        """Send an upload, the same bytes until it is merged; decide with the answer."""
        self.forget_pending()
        body, sent = self.numbered(upload), 0
        while True:
            status, after, answer = self.ask("POST", "sync", body)
            sent += 1
            if status == 200:
                _, _, _, _, merged, _, version, download, _ = answer
                self.receive(download)
                if not merged and version == 0:
                    self.begin_life()  # this life went on elsewhere
                return
            field = answer["error"]["field"] if isinstance(answer, dict) else ""
            if status is None or status in LATER or status >= 500:
                time.sleep(after)
            elif field == "born" or (status == 410 and sent == 1):
                self.begin_life()
                body = self.numbered(upload)  # it cannot have been merged
            elif status == 410:
                self.begin_life()  # it may have been merged
                return
            else:
                raise RuntimeError(answer)  # a person has to look at this

    def numbered(self, upload: list[Any]) -> bytes:
        """Return a sync with the next number of this life."""
        self.sequence += 1
        head = ["sync", 2, self.fingerprint, 8, self.life, self.born, self.sequence]
        return pack([*head, upload, {}])

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int | None, int, Any]:
        """Return the status (None without an answer), when to try again, and the answer."""
        try:
            self.server.request(method, self.path + path, body, self.headers)
            response = self.server.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            self.server.close()
            return None, 1, None
        after = int(response.headers.get("Retry-After") or 1)
        if response.status == 200:
            return 200, after, unpack(data)[0]
        said = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, after, json.loads(data) if said else None


def main() -> None:
    """Play 300 rounds of a world with a hidden theta."""
    if len(sys.argv) != 6:
        print(__doc__)
        return
    agent, rng = Agent(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]), random.Random(0)
    d = agent.params["dimension"]
    taste, syncs = [rng.gauss(0, 1) for _ in range(d)], 0
    for _ in range(300):
        arms = [[rng.gauss(0, 1) for _ in range(d)] for _ in range(5)]
        arm = arms[agent.choose(arms)]
        syncs += agent.observe(arm, dot(taste, arm) + rng.gauss(0, 0.1))
    print(f"{syncs} syncs, version {agent.version}, theta {agent.theta}")


if __name__ == "__main__":
    main()
