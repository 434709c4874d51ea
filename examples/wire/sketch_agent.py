"""The same from docs/wire.md alone for FSCLB (wire="float64") and FSCLB.lean.

``minimal_agent.py`` has the protocol. Here is what sketches need: reading them, shrinking pending
rows by one-sided Jacobi, and for FSCLB.lean cutting and rounding.
"""

import math
import struct
from typing import Any

from minimal_agent import Agent, Rows, cholesky, dot, forward, log_det, solve

EPSILON = 2.0**-52


def upper_half(number: float) -> float:
    """Return a number with the lower 32 bits of its binary64 set to 0."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    (short,) = struct.unpack("<d", struct.pack("<Q", bits & 0xFFFFFFFF00000000))
    return float(short)


def trace(rows: Rows) -> float:
    """Return the sum of the squares of all numbers."""
    return sum(dot(row, row) for row in rows)


def turn(rows: Rows, i: int, j: int) -> bool:
    """Make two rows orthogonal; return False if they were."""
    x, y = rows[i], rows[j]
    a, b, c = dot(x, x), dot(y, y), dot(x, y)
    if abs(c) <= 1e-15 * math.sqrt(a * b):
        return False
    z = (b - a) / (2 * c)
    t = math.copysign(1.0, z) / (abs(z) + math.sqrt(1 + z * z))
    k = 1 / math.sqrt(1 + t * t)
    rows[i] = [k * (p - t * q) for p, q in zip(x, y, strict=True)]
    rows[j] = [k * (t * p + q) for p, q in zip(x, y, strict=True)]
    return True


def jacobi(rows: Rows) -> Rows:
    """Return orthogonal rows with the same Gram matrix, the longest first."""
    rows = [list(row) for row in rows]
    for _ in range(30):
        turns = [turn(rows, i, j) for i in range(len(rows)) for j in range(i)]
        if not any(turns):
            break
    rows.sort(key=lambda row: -dot(row, row))
    least = EPSILON * len(rows) * dot(rows[0], rows[0]) if rows else 0.0
    return [row for row in rows if dot(row, row) > least]


def lowered(rows: Rows, most: int) -> tuple[Rows, float]:
    """Return at most ``most`` of orthogonal rows, and what was taken from all their squares."""
    delta = dot(rows[most], rows[most]) if len(rows) > most else 0.0
    kept = [(row, dot(row, row)) for row in rows[:most]]
    return [
        [a * math.sqrt(1 - delta / square) for a in row] for row, square in kept if square > delta
    ], delta


def triangle(rows: Rows) -> Rows:
    """Return at most d rows with the same Gram matrix, by Gram and Schmidt on the columns."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    d, made = len(columns), []
    for i in range(d):
        length = math.sqrt(dot(columns[i], columns[i]))
        if length == 0.0:
            continue
        unit, row = [a / length for a in columns[i]], [0.0] * d
        for j in range(i, d):
            row[j] = dot(unit, columns[j])
            columns[j] = [a - row[j] * u for a, u in zip(columns[j], unit, strict=True)]
        made.append(row)
    return made


def times(rows: Rows, diagonal: list[float], y: list[float]) -> list[float]:
    """Return (S^T S + diag) y."""
    made = [a * b for a, b in zip(diagonal, y, strict=True)]
    for row in rows:
        along = dot(row, y)
        made = [a + along * b for a, b in zip(made, row, strict=True)]
    return made


def minus(x: list[float], y: list[float]) -> list[float]:
    """Return x - y."""
    return [a - b for a, b in zip(x, y, strict=True)]


class SketchAgent(Agent):
    """An agent of FSCLB with compensation="uniform" and wire="float64", for every estimate."""

    def forget_pending(self) -> None:
        """Begin with no rows pending."""
        self.rows: Rows = []
        self.shed = self.lost = 0.0
        self.moment, self.rewards = [0.0] * self.params["dimension"], [0, 0.0, 0.0]

    def receive(self, download: Any) -> None:
        """Decide with a download from now on."""
        _, _, summary, moment, self.count, self.version, more = download
        self.known = more.get("rewards", [0, 0.0, 0.0])
        self.read(summary)
        self.b = self.vector(moment[1])
        self.root, self.estimate_root = cholesky(self.v), cholesky(self.estimate)
        self.theta = solve(self.estimate_root, self.b)
        asked = self.params["radius"]
        self.radius = self.auto() if asked == "auto" else asked

    def read(self, summary: Any) -> None:
        """Take V, and the matrix that theta is solved with, from a sketch."""
        _, (shape, data), shed, self.size, lost = summary
        d, ridge = self.params["dimension"], self.params["ridge"]
        numbers = struct.unpack(f"<{shape[0] * d}d", data)
        rows = [list(numbers[i * d : i * d + d]) for i in range(shape[0])]
        mean = shed if self.params["estimate"] == "paper" else lost / d
        self.v = self.matrix(rows, 1.0, [ridge + shed] * d)
        self.estimate = self.matrix(rows, 1.0, [ridge + mean] * d)
        squares = [dot(row, row) for row in rows]
        self.shown = min(d, sum(s / (s + ridge) for s in squares) + d * mean / (ridge + shed))

    def vector(self, data: bytes) -> list[float]:
        """Return the numbers of a vector."""
        return list(struct.unpack(f"<{len(data) // 8}d", data))

    def matrix(self, rows: Rows, weight: float, diagonal: list[float]) -> Rows:
        """Return weight S^T S + diag."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        if not rows:
            columns = [[] for _ in diagonal]
        made = [[weight * dot(one, other) for other in columns] for one in columns]
        for i, more in enumerate(diagonal):
            made[i][i] += more
        return made

    def auto(self) -> float:
        """Return the radius that is measured."""
        (n, _, q), ridge = self.known, self.params["ridge"]
        noise = q / max(1, n) - dot(self.theta, self.b) / max(1, self.count)
        size = math.sqrt(dot(self.theta, self.theta) * ridge / max(1e-9, self.shown))
        return math.sqrt(max(0.0, noise)) + 2 * size or 1.0

    def observe(self, x: list[float], reward: float) -> bool:
        """Keep the arm as a row; shrink when there are too many; sync if that is due."""
        self.check(x, reward)
        self.rows.append(list(x))
        self.moment = [a + reward * b for a, b in zip(self.moment, x, strict=True)]
        self.rewards = [self.rewards[0] + 1, self.rewards[1] + reward, self.rewards[2] + reward**2]
        self.make_room()
        due = self.growth() > self.threshold() or self.rewards[0] >= self.most
        if due:
            self.sync(self.upload())
        return due

    def buffer(self) -> int:
        """Return how many rows are pending at most."""
        d, given = self.params["dimension"], self.params["buffer"]
        if self.params["cadence"] == "paper":
            return int(self.size)
        size = self.largest_size()
        return int(given or (4 * size if 4 * size <= d else 3 * d))

    def largest_size(self) -> int:
        """Return the largest sketch size of an upload."""
        d, size, budget = (self.params[name] for name in ("dimension", "sketch_size", "budget"))
        if size != "auto":
            return int(size)
        return 1 + int(d if budget is None else min(d, self.rows_for(budget, d)))

    def rows_for(self, budget: int, d: int) -> int:
        """Return how many rows a message of so many bytes has room for."""
        return (budget - 96 - 8 * d) // (8 * d)

    def make_room(self) -> None:
        """Shrink rows that are too many; with a buffer of more than d only without a loss."""
        if len(self.rows) < self.buffer():
            return
        if self.buffer() > self.params["dimension"]:
            self.rows = triangle(self.rows)
        else:
            self.shrink()

    def shrink(self) -> None:
        """Make the rows orthogonal, and fewer than the sketch size."""
        before, d = self.rows, self.params["dimension"]
        self.rows, delta = lowered(jacobi(before), self.size - 1)
        gone = max(0.0, trace(before) - trace(self.rows))
        self.shed, self.lost = self.shed + delta, self.lost + gone
        if self.params["estimate"] == "corrected":
            t = self.reference()
            error = minus(times(before, [0.0] * d, t), times(self.rows, [gone / d] * d, t))
            self.moment = minus(self.moment, error)

    def reference(self) -> list[float]:
        """Return the estimate that errors are multiplied with."""
        length = math.sqrt(dot(self.theta, self.theta))
        most = self.params["bounds"]["parameter_norm"]
        most *= 1 if self.params["radius"] in ("paper", "tight") else 4
        return self.theta if length <= most else [a * most / length for a in self.theta]

    def growth(self) -> float:
        """Return by how much pending rows, and what they have shed, raise log det V."""
        raised = self.matrix(self.rows, 1.0, [self.shed] * len(self.v))
        return self.grown(raised)

    def grown(self, pending: Rows) -> float:
        """Return log det(V + pending) - log det V."""
        both = [[a + b for a, b in zip(*r, strict=True)] for r in zip(self.v, pending, strict=True)]
        return log_det(cholesky(both)) - log_det(self.root)

    def upload(self) -> list[Any]:
        """Return what was observed since the last upload, as a sketch."""
        self.shrink()
        d, k = self.params["dimension"], len(self.rows)
        data = struct.pack(f"<{k * d}d", *[a for row in self.rows for a in row])
        tracked = self.params["estimate"] != "paper" or self.params["sketch_size"] == "auto"
        lost = self.lost if tracked else None
        summary = ["sketch", [[k, d], data], self.shed, self.size, lost]
        more: dict[str, Any] = {"rewards": self.rewards}
        if self.params["estimate"] == "corrected" and self.reference() is not self.theta:
            more["cut"] = 1
        moment = [[d], struct.pack(f"<{d}d", *self.moment)]
        return ["upload", 2, 0, summary, moment, self.rewards[0], more]


class LeanAgent(SketchAgent):
    """An agent of FSCLB.lean: compensation="coordinates", wire="fitted", estimate="corrected"."""

    def read(self, summary: Any) -> None:
        """Take V, and the matrix that theta is solved with, from fitted rows."""
        _, bits, packed, step, levels, top, lost, weight = summary
        d, ridge = self.params["dimension"], self.params["ridge"]
        rows = [[step * code for code in row] for row in codes_of(bits, packed, d)]
        bound = [bound_of(level, top) for level in levels]
        self.v = self.matrix(rows, weight, [ridge + c for c in bound])
        missing = missing_of(bound, lost)
        self.estimate = self.matrix(rows, 1.0, [ridge + m for m in missing])
        self.seen = trace(rows) + lost
        inverse = cholesky(self.estimate)
        units = ([float(i == j) for j in range(d)] for i in range(d))
        solved = (forward(inverse, unit) for unit in units)
        self.shown = d - ridge * sum(dot(column, column) for column in solved)

    def vector(self, data: bytes) -> list[float]:
        """Return the numbers of a short vector."""
        (scale,) = struct.unpack("<d", bytes(4) + data[:4])
        return [scale * code for code in struct.unpack(f"<{len(data) // 4 - 1}f", data[4:])]

    def buffer(self) -> int:
        """Return how many rows are pending at most: nothing is lost up to d = 512."""
        return 3 * int(self.params["dimension"])

    def reference(self) -> list[float]:
        """Return the estimate that errors are multiplied with."""
        return self.theta if self.params["radius"] != "tight" else super().reference()

    def rows_for(self, budget: int, d: int) -> int:
        """Return how many rows a message of so many bytes has room for."""
        return (budget - 112 - 5 * d) // (d + 1)

    def upload(self) -> list[Any]:
        """Return what was observed since the last upload, cut and rounded."""
        d, ridge, whole = self.params["dimension"], self.params["ridge"], self.rows
        seen = max(trace(whole) + self.seen, ridge)
        charge = 0.01 * ridge * trace(whole) / seen * (ridge / seen) ** 0.25
        rows, bound, lost = self.cut(charge)
        codes, step, added = rounded(rows, charge)
        short = [[step * code for code in row] for row in codes]
        for j in range(d):
            if any(row[j] != other[j] for row, other in zip(rows, short, strict=True)):
                bound[j] += added
        lost = max(0.0, lost + trace(rows) - trace(short))
        levels, top = levels_of(bound)
        bound = [bound_of(level, top) for level in levels]
        t = self.reference()
        error = times(whole, [0.0] * d, t)
        error = minus(error, times(short, missing_of(bound, lost), t))
        cut = self.too_long(error, max(bound))
        more: dict[str, Any] = {"rewards": self.rewards}
        if cut < 1:
            more["cut"] = 1
        moment = minus(self.moment, [cut * a for a in error])
        bits, packed = packed_codes(codes)
        summary = ["fitted", bits, packed, step, bytes(levels), top, lost, 1.1]
        return ["upload", 2, 0, summary, [[d], short_vector(moment)], self.rewards[0], more]

    def cut(self, charge: float) -> tuple[Rows, list[float], float]:
        """Return as many rows as a message has room for, the bound, and the trace that is lost."""
        d, ridge, budget = (self.params[name] for name in ("dimension", "ridge", "budget"))
        held = [sum(row[j] ** 2 for row in self.rows) for j in range(d)]
        metric = [math.sqrt(ridge + h) for h in held]
        divided = [[a / m for a, m in zip(row, metric, strict=True)] for row in self.rows]
        whole = jacobi(divided)
        rows, delta = lowered(whole, self.largest_size() - 1)
        if self.params.get("rows") == "whole":
            rows = whole[: len(rows)]
        count = len(rows)
        if budget is not None and rows:
            step, room, count = step_for(charge, len(rows), d), budget - 112 - 5 * d, 0
            for row in rows:
                largest = max(abs(a * m) for a, m in zip(row, metric, strict=True))
                room -= (1 + math.ceil(math.log2(largest / step + 1.5))) * d / 8 + 1
                count += room >= 0
            count = max(1, count)
        rows, delta = lowered(whole, min(count, self.largest_size() - 1))
        kept = [[a * m for a, m in zip(row, metric, strict=True)] for row in rows]
        if self.params.get("rows") == "whole":
            longer = [
                [a * m for a, m in zip(row, metric, strict=True)] for row in whole[: len(rows)]
            ]
            if delta * sum(m * m for m in metric) <= 2 * (sum(held) - trace(longer)):
                kept = longer
        gone = max(0.0, sum(held) - trace(kept)) if delta else 0.0
        loss = [delta * m * m for m in metric]
        if sum(loss) > d * gone:
            loss = [gone] * d
        return kept, [c if h else 0.0 for c, h in zip(loss, held, strict=True)], gone

    def too_long(self, error: list[float], most: float) -> float:
        """Return what a correction is multiplied with so that it is not longer than it may be."""
        known = [sums for sums in (self.rewards, self.known) if sums[0]]
        mean = max(q / n for n, _, q in known)
        limit = 4 * math.sqrt(mean) * math.sqrt(self.rewards[0] * most)
        length, slack = math.sqrt(dot(error, error)), math.sqrt(dot(self.moment, self.moment))
        return limit / length if length > limit + 1e-12 * slack else 1.0


def missing_of(bound: list[float], lost: float) -> list[float]:
    """Return lost c / sum c."""
    total = sum(bound)
    return [c * (lost / total) if total else 0.0 for c in bound]


def bound_of(level: int, top: float) -> float:
    """Return what a level stands for."""
    return top * 2.0 ** ((level - 255) / 8) if level else 0.0


def levels_of(bound: list[float]) -> tuple[list[int], float]:
    """Return the least levels that are not below a bound, and their top."""
    top = upper_half(max(bound) * (1 + 2.0**-19)) if any(bound) else 0.0
    return [next(n for n in range(1, 256) if bound_of(n, top) >= c) if c else 0 for c in bound], top


def step_for(charge: float, rows: int, d: int) -> float:
    """Return the step whose rounding is expected to add this much to a bound."""
    return 0.9 * math.sqrt(12 * charge / (11 * (math.sqrt(rows) + math.sqrt(d)) ** 2))


def rounded(rows: Rows, charge: float) -> tuple[list[list[int]], float, float]:
    """Return codes, their step, and what rounding adds to a bound."""
    if not rows:
        return [], 1.0, 0.0
    least = max(abs(a) for row in rows for a in row) / 2.0**30
    step = step_for(charge, len(rows), len(rows[0]))
    while True:
        step = upper_half(max(step, least))
        codes = [[round(a / step) for a in row] for row in rows]
        noise = [
            [a - step * code for a, code in zip(row, whole, strict=True)]
            for row, whole in zip(rows, codes, strict=True)
        ]
        added = 11 * (1 + 1e-9) * largest_eigenvalue([[dot(x, y) for y in noise] for x in noise])
        if added <= charge or step <= least:
            return codes, step, added
        step *= 0.8


def largest_eigenvalue(matrix: Rows) -> float:
    """Return (trace A^16)^(1/16), which is not below it."""
    scale = max((abs(a) for row in matrix for a in row), default=0.0)
    if scale == 0.0:
        return 0.0
    power = [[a / scale for a in row] for row in matrix]
    for _ in range(3):
        columns = [list(column) for column in zip(*power, strict=True)]
        power = [[dot(row, column) for column in columns] for row in power]
    return scale * math.pow(trace(power), 1 / 16)


def packed_codes(codes: list[list[int]]) -> tuple[bytes, bytes]:
    """Return how many bits a number of each row has, and all numbers one after the other."""
    widths, text = [], ""
    for row in codes:
        width = 1 + max(abs(code) for code in row).bit_length()
        widths.append(width)
        text += "".join(f"{code + 2 ** (width - 1):0{width}b}" for code in row)
    text += "0" * (-len(text) % 8)
    return bytes(widths), bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))


def codes_of(bits: bytes, packed: bytes, d: int) -> list[list[int]]:
    """Return the codes of fitted rows."""
    text, at, rows = "".join(f"{byte:08b}" for byte in packed), 0, []
    for width in bits:
        starts = range(at, at + d * width, width)
        rows.append([int(text[i : i + width], 2) - 2 ** (width - 1) for i in starts])
        at += d * width
    return rows


def short_vector(numbers: list[float]) -> bytes:
    """Return numbers as a short vector: a scale, and each over it as a binary32."""
    fraction, exponent = math.frexp(max(map(abs, numbers)))
    scale = 2.0 ** max(exponent - (fraction == 0.5), -1000) if fraction else 1.0
    codes = [a / scale if abs(a / scale) >= 2.0**-100 else 0.0 for a in numbers]
    return struct.pack("<d", scale)[4:] + struct.pack(f"<{len(codes)}f", *codes)


def agent_for(params: dict[str, Any]) -> type[Agent]:
    """Return the class for a recipe."""
    if "sketch_size" not in params:
        return Agent
    return SketchAgent if params["compensation"] == "uniform" else LeanAgent
