"""The message and the upload that docs/wire.md shows are what this library makes of their input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import missing
from fedbandit.core.kernels.rounding import rounded_to, step_for
from fedbandit.core.memory.lossy.fitted import Fitted, upload_charge
from fedbandit.core.memory.lossy.summary import nothing_lost
from fedbandit.wire.bits import packed

PAGE = (Path(__file__).parent.parent / "docs" / "wire.md").read_text("utf-8")
RIDGE, BUDGET, REWARDS = 1.0, 138, fb.Rewards(5, 2.5, 2.0)


def block_after(heading: str) -> list[str]:
    """Return the lines of the first block of code under a heading, comments left out."""
    text = PAGE.partition(f"{heading}\n")[2].partition("```\n")[2].partition("```")[0]
    return [line for line in (each.partition("#")[0].strip() for each in text.splitlines()) if line]


def test_the_message_byte_by_byte() -> None:
    shown = bytes.fromhex("".join(block_after("### A message byte by byte")))
    agent = fb.FedLinUCB(dimension=2, agents=2).agent(0)
    upload = agent.observe([1.0, 0.5], -2.0) or agent.collect()
    sync = wire.Sync("0123456789abcdef", bytes(range(16)), 1, upload)
    assert wire.encode_sync(sync) == shown
    assert f"has {len(shown)} bytes" in PAGE


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    lines = (line.partition("=") for line in block_after("#### An upload step by step"))
    return {name.strip(): json.loads(value) for name, _, value in lines}


@pytest.fixture(scope="module")
def agent() -> fb.Agent:
    """An agent that has received the download of the example; its trigger never fires."""
    recipe = fb.FSCLB.lean(dimension=3, agents=2, budget=BUDGET, alpha=100.0)
    codes = np.array([[4, 0, 0], [0, 2, 0]], np.int32)
    summary = Fitted(codes, 0.5, np.zeros(3, np.uint8), 0.0, 0.0, 1.1)
    agent = recipe.agent(0)
    agent.receive(fb.Download(fb.Statistics(summary, np.array([2.0, 1.0, 0.0]), 5, REWARDS), 1))
    return agent


@pytest.fixture(scope="module")
def upload(shown: dict[str, Any], agent: fb.Agent) -> fb.Upload:
    for x, reward in zip(shown["P"], shown["r"], strict=True):
        assert agent.observe(x, reward) is None
    return agent.collect()


def close(got: Any, told: Any) -> None:
    """Assert that numbers are those on the page, which has ten digits of them."""
    np.testing.assert_allclose(np.asarray(got), np.asarray(told), rtol=1e-9, atol=1e-15)


def signs(rows: Any, like: Any) -> Any:
    """Return the signs with which rows are these: singular vectors have either."""
    return np.sign(np.einsum("kd,kd->k", np.asarray(rows, float), np.asarray(like, float)))[:, None]


def test_the_upload_before_it_is_rounded(shown: dict[str, Any], agent: fb.Agent) -> None:
    rows = np.array(shown["P"])
    close(agent.theta, shown["theta0"])
    new = np.vdot(rows, rows)
    close([new, new + 5.0], [shown["new"], shown["seen"]])
    close(upload_charge(float(new), float(new) + 5.0, RIDGE), shown["charge"])
    held = (rows * rows).sum(axis=0)
    close(held, shown["h"])
    close(np.linalg.svd(rows / np.sqrt(RIDGE + held), compute_uv=False) ** 2, shown["g"])
    kept = nothing_lost(rows).leading(3, RIDGE, whole=True).kept(2)
    close(kept.rows * signs(kept.rows, shown["rows"]), shown["rows"])
    close(kept.lost, shown["lost_cut"])
    close(kept.bound, shown["c_cut"])
    close(shown["g"][2] * (RIDGE + held), shown["c_cut"])
    first = step_for(shown["charge"], 2, 3)
    close(first, shown["first"])
    bits = 1 + np.ceil(np.log2(np.abs(kept.rows).max(axis=1) / first + 1.5))
    close(3 * bits / 8 + 1, shown["bytes"])
    assert sum(shown["bytes"]) <= BUDGET - 112 - 15


def test_the_upload_that_is_sent(shown: dict[str, Any], upload: fb.Upload) -> None:
    summary, rows = upload.summary, np.array(shown["P"])
    assert isinstance(summary, Fitted)
    turned = signs(summary.codes, shown["codes"]).astype(np.int32)
    assert (summary.codes * turned).tolist() == shown["codes"]
    close(summary.step, shown["step"])
    added = 11 * (1 + 1e-9) * rounded_to.run(np.array(shown["rows"]), summary.step)[2]
    assert added == pytest.approx(shown["added"], rel=1e-6)  # of rows with ten digits
    assert shown["added"] <= shown["charge"]
    close(np.add(shown["c_cut"], shown["added"]), shown["c_rounded"])
    assert summary.levels.tolist() == shown["levels"]
    for name, got in (("top", summary.top), ("c", summary.bound), ("lost", summary.lost)):
        close(got, shown[name])
    assert summary.weight == pytest.approx(1.1)
    gap = missing(summary.bound, summary.lost)
    close(gap, shown["gap"])
    error = rows.T @ rows - summary.rows.T @ summary.rows - np.diag(gap)
    np.testing.assert_allclose(error @ shown["theta0"], shown["moved"], rtol=1e-8)
    close(rows.T @ shown["r"], shown["plain"])
    close(4 * np.sqrt(1.25 / 3) * np.sqrt(3 * summary.bound.max()), shown["limit"])
    assert np.linalg.norm(shown["moved"]) < shown["limit"]
    assert upload.statistics.cut == 0
    close(np.subtract(shown["plain"], shown["moved"]), shown["moment"])
    np.testing.assert_allclose(upload.moment, shown["moment"], rtol=2.0**-23)
    assert summary.bits.tolist() == shown["bits"]
    codes, bits = np.array(shown["codes"], np.int32), np.array(shown["bits"])
    assert packed(codes, bits).hex() == shown["packed"]
    assert msgspec.msgpack.decode(wire.encode(upload))[4][1].hex() == shown["short"]


def upper_half(number: float) -> float:
    """Return a number with the lower 32 bits of its binary64 set to 0."""
    return float((np.array([number]).view(np.uint64) & np.uint64(2**64 - 2**32)).view(float)[0])


def gap_of(c: Any, lost: float) -> Any:
    return lost * c / c.sum() if c.sum() else 0.0 * c


def cut_by_page(rows: Any, most: int, *, whole: bool, even: float = 2.0) -> tuple[Any, Any, float]:
    """Return the rows that cutting keeps, and what it adds to c and to lost."""
    held = (rows * rows).sum(axis=0)
    a = RIDGE + held
    _, values, vectors = np.linalg.svd(rows / np.sqrt(a), full_matrices=False)
    vectors[:, held == 0.0] = 0.0
    sound = values**2 > 2.0**-52 * values[0] ** 2 * min(rows.shape)
    values, vectors = values[sound], vectors[sound]
    g = np.append(values**2, np.zeros(most + 1))
    if g[most] == 0.0:
        return values[:, None] * vectors * np.sqrt(a), 0.0 * a, 0.0
    kept = np.sqrt(g[:most])[:, None] * vectors[:most] * np.sqrt(a)
    if not whole or (g[most] * a).sum() > even * ((rows * rows).sum() - (kept * kept).sum()):
        kept = np.sqrt(g[:most] - g[most])[:, None] * vectors[:most] * np.sqrt(a)
    gone = max(0.0, (rows * rows).sum() - (kept * kept).sum())
    add = g[most] * a if (g[most] * a).sum() <= len(a) * gone else np.full(len(a), gone)
    return kept, np.where(held > 0.0, add, 0.0), gone


class Page:
    """An agent of fitted rows that keeps to the words of the page, one step a line."""

    def __init__(
        self, theta0: Any, seen: float, *, size: int, room: float, buffer: int, whole: bool
    ) -> None:
        self.theta0, self.seen, self.d = theta0, seen, len(theta0)
        self.size, self.room, self.buffer, self.whole = size, room, buffer, whole
        self.rows, self.c, self.lost = np.zeros((0, self.d)), np.zeros(self.d), 0.0
        self.carried, self.plain = np.zeros(self.d), np.zeros(self.d)

    def observe(self, x: Any, reward: float) -> None:
        self.rows, self.plain = np.vstack([self.rows, x]), self.plain + reward * x
        if len(self.rows) < self.buffer or self.buffer > self.d:
            return
        before = self.rows
        self.rows, add, gone = cut_by_page(before, self.size - 1, whole=False)
        self.c, self.lost = self.c + add, self.lost + gone
        after = self.rows.T @ self.rows + np.diag(gap_of(add, gone))
        self.carried = self.carried + (before.T @ before - after) @ self.theta0

    def upload(self, n: int, mean_square: float) -> dict[str, Any]:
        new = (self.rows**2).sum() + self.lost
        most = max(new + self.seen, RIDGE)
        charge = 0.01 * RIDGE * (new / most) * (RIDGE / most) ** 0.25
        rows, add, gone = cut_by_page(self.rows, self.size - 1, whole=self.whole, even=1e300)
        first = 0.9 * np.sqrt(12 * charge / (11 * (np.sqrt(len(rows)) + np.sqrt(self.d)) ** 2))
        bits = 1 + np.ceil(np.log2(np.abs(rows).max(axis=1) / first + 1.5))
        fits = max(1, int((np.cumsum(self.d * bits / 8 + 1) <= self.room).sum()))
        left = fits if fits < len(rows) else self.size - 1
        rows, add, gone = cut_by_page(self.rows, left, whole=self.whole)
        c, lost = self.c + add, self.lost + gone
        step = 0.9 * np.sqrt(12 * charge / (11 * (np.sqrt(len(rows)) + np.sqrt(self.d)) ** 2))
        tried = upper_half(step)
        least = np.abs(rows).max() / 2**30
        while True:
            step = upper_half(max(step, least))
            codes = np.rint(rows / step)
            noise = rows - codes * step
            power = np.linalg.matrix_power(noise @ noise.T / step**2, 16)
            added = 11 * (1 + 1e-9) * step**2 * np.trace(power) ** (1 / 16)
            if added <= charge or step <= least:
                break
            step *= 0.8
        short = codes * step
        c = c + np.where((noise != 0.0).any(axis=0), added, 0.0)
        lost = max(0.0, lost + (rows**2).sum() - (short**2).sum())
        top = upper_half(c.max() * (1 + 2.0**-19))
        steps = top * 2.0 ** ((np.arange(1, 256) - 255) / 8)
        levels = [1 + int((steps < each).sum()) if each else 0 for each in c]
        c = np.array([steps[v - 1] if v else 0.0 for v in levels])
        before = self.rows.T @ self.rows + np.diag(gap_of(self.c, self.lost))
        error = before - (short.T @ short + np.diag(gap_of(c, lost)))
        moved = error @ self.theta0 + self.carried
        limit, length = 4 * np.sqrt(mean_square * n * c.max()), np.linalg.norm(moved)
        bound = 1.1 * short.T @ short + np.diag(c)
        weight = np.sqrt(
            moved @ np.linalg.solve(bound + 1e-9 * np.trace(bound) * np.eye(self.d), moved)
        )
        slack, most = 1e-12 * np.linalg.norm(self.plain), 4 * np.sqrt(mean_square * n)
        share = min(
            limit / length if length > limit + slack else 1.0,
            most / weight if weight > most else 1.0,
        )
        share = share if length > slack else 1.0
        cut = share < 1.0
        moment = self.plain - moved * share
        sent = {"codes": codes, "step": step, "levels": levels, "top": top, "lost": lost}
        return sent | {"moment": moment, "cut": int(cut), "fits": fits, "first": tried}


HARD: dict[str, dict[str, Any]] = {
    "rows are cut while they are pending": {"sketch_size": 3, "buffer": 4},
    "all are kept until they are sent": {"sketch_size": 3, "buffer": None},
    "nothing is cut": {"sketch_size": 6, "buffer": None},
    "theta0 predicts nonsense": {"sketch_size": 3, "buffer": None},
    "the budget has room for fewer rows": {"sketch_size": "auto", "budget": 112 + 25 + 16},
}


@pytest.mark.parametrize("kept", ["shrunk", "whole"])
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("seed", range(12))
def test_uploads_are_made_by_the_words_of_the_page(name: str, seed: int, kept: Any) -> None:
    asked, d, rng = HARD[name], 5, np.random.default_rng(seed)
    recipe = fb.FSCLB(
        dimension=d,
        agents=2,
        alpha=1e40,  # the trigger never fires
        cadence="buffered",
        estimate="corrected",
        compensation="coordinates",
        wire="fitted",
        rows=kept,
        **asked,
    )
    other, agent, server = recipe.agent(1), recipe.agent(0), recipe.server()
    taste = rng.standard_normal(d)
    for x in rng.standard_normal((9, d)):
        other.observe(x, float(x @ taste))
    server.receive(other.collect())
    download = server.download()
    if "nonsense" in name:
        whole = download.statistics
        download = fb.Download(replace(whole, moment=1e3 * whole.moment), download.version)
    assert isinstance(download.summary, Fitted)
    agent.receive(download)
    seen = float((download.summary.rows**2).sum() + download.summary.lost)
    size = 1 + 16 // (d + 1) if "budget" in asked else asked["sketch_size"]
    room = 16.0 if "budget" in asked else np.inf
    buffer = asked.get("buffer") or 3 * d
    whole_rows = kept == "whole"
    page = Page(agent.theta, seen, size=size, room=room, buffer=buffer, whole=whole_rows)
    arms = rng.standard_normal((11, d)) * (100.0 if "budget" in asked or seed % 2 else 1.0)
    arms[:, 2] = 0.0  # a coordinate that is never played
    rewards = arms @ taste + rng.standard_normal(len(arms))
    for x, reward in zip(arms, rewards.tolist(), strict=True):
        assert agent.observe(x, reward) is None
        page.observe(x, reward)
    known = download.statistics.rewards
    mean_square = max(float((rewards**2).mean()), known.squares / known.count)
    upload, told = agent.collect(), page.upload(len(arms), mean_square)
    summary = upload.summary
    assert isinstance(summary, Fitted)
    turned = signs(summary.codes, told["codes"])
    np.testing.assert_array_equal(summary.codes * turned, told["codes"])
    assert (summary.step, summary.levels.tolist()) == (told["step"], told["levels"])
    assert summary.top == pytest.approx(told["top"], rel=1e-6)
    assert abs(summary.lost - told["lost"]) <= 1e-13 * float((arms * arms).sum())
    longest = max(1.0, float(np.abs(told["moment"]).max()))
    assert np.abs(upload.moment - told["moment"]).max() <= 2.0**-23 * longest
    assert upload.statistics.cut == told["cut"] == ("nonsense" in name)
    if "budget" in asked:
        assert told["fits"] < size - 1


def test_a_step_that_is_too_large_is_followed_by_a_smaller_one() -> None:
    d, again = 5, 0
    recipe = fb.FSCLB.lean(dimension=d, agents=2, sketch_size=2, alpha=1e40)
    for size in np.linspace(0.3, 0.9, 80):  # all errors of rounding are the same, up to half a step
        agent = recipe.agent(0)
        page = Page(np.zeros(d), 0.0, size=2, room=np.inf, buffer=3 * d, whole=True)
        agent.observe(np.full(d, size), 1.0)
        page.observe(np.full(d, size), 1.0)
        summary, told = agent.collect().summary, page.upload(1, 1.0)
        assert isinstance(summary, Fitted)
        assert summary.step == told["step"]
        np.testing.assert_array_equal(np.abs(summary.codes), np.abs(told["codes"]))
        again += told["step"] < told["first"]
    assert again > 2
