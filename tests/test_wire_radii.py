"""V, theta and the radius as docs/wire.md says them, for every estimate, radius and summary."""

from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.worlds import Synthetic

D = 6
SKETCH: dict[str, Any] = {"dimension": D, "sketch_size": 3, "agents": 3}
GRAM: dict[str, Any] = {"dimension": D, "agents": 3}
RECIPES = {
    "FSCLB paper": fb.FSCLB(**SKETCH, radius="paper"),
    "FSCLB tight": fb.FSCLB(**SKETCH, radius="tight"),
    "FSCLB auto": fb.FSCLB(**SKETCH, radius="auto", ridge=0.5),
    "FSCLB int8 paper": fb.FSCLB(**SKETCH, radius="paper", wire="int8", alpha=0.5),
    "averaged tight": fb.FSCLB(**SKETCH, radius="tight", estimate="averaged", ridge=2.0),
    "averaged auto": fb.FSCLB(**SKETCH, radius="auto", estimate="averaged", wire="float16"),
    "corrected tight": fb.FSCLB(**SKETCH, radius="tight", estimate="corrected", wire="float32"),
    "coordinates paper": fb.FSCLB(**SKETCH, radius="paper", compensation="coordinates"),
    "lean auto": fb.FSCLB.lean(**GRAM),
    "lean tight": fb.FSCLB.lean(**GRAM, radius="tight", sketch_size=3),
    "lean 0.3": fb.FSCLB.lean(**GRAM, radius=0.3, sketch_size=2),
    "FedLinUCB paper": fb.FedLinUCB(**GRAM, radius="paper"),
    "FedLinUCB auto": fb.FedLinUCB(**GRAM, radius="auto", ridge=3.0, wire="float64"),
    "FedLinUCB int8 paper": fb.FedLinUCB(**GRAM, radius="paper", wire="int8"),
}


class Told:
    """What the document makes of a download."""

    def __init__(self, recipe: fb.Recipe, download: fb.Download) -> None:
        self.p, self.s, self.z = recipe.params, download.summary, 0.0
        self.b, self.count, self.rewards = (
            download.moment,
            download.count,
            download.statistics.rewards,
        )
        self.ridge, self.paper = self.p["ridge"], self.p.get("estimate", "paper") == "paper"
        self._read(self.s)
        self.theta = np.linalg.solve(self.v_estimate, self.b)

    def _read(self, s: Any) -> None:
        eye, ridge, self.doubled = np.eye(D), self.ridge, 1.0
        if hasattr(s, "matrix"):
            self.v = self.v_estimate = ridge * eye + s.matrix
            self.k, self.f = D - ridge * np.trace(np.linalg.inv(self.v)), 1.0
            rounded = getattr(s, "width", "float64") != "float64"
            self.z, self.doubled = (float(s.shed), 2.0) if rounded else (0.0, 1.0)
            self.tight = rounded
        elif hasattr(s, "bound"):
            rows, c = s.rows.T @ s.rows, s.bound
            m = s.lost * c / c.sum() if c.sum() else 0.0 * c
            self.v = s.weight * rows + np.diag(ridge + c)
            self.v_estimate = self.v if self.paper else rows + np.diag(ridge + m)
            self.k = D - ridge * np.trace(np.linalg.inv(self.v_estimate))
            self.z, self.f, self.tight = float(c.max()), 1.0, False
            if not self.paper:
                self.z = (sqrt(c.max()) + sqrt(m.max()) + sqrt(ridge)) ** 2
                self.f = max(s.weight, ((ridge + c) / (ridge + m)).max())
        else:
            rows, lost = s.rows.T @ s.rows, s.lost or 0.0
            self.v = (ridge + s.shed) * eye + rows
            self.v_estimate = self.v if self.paper else (ridge + lost / D) * eye + rows
            squares = np.linalg.eigvalsh(rows)
            u = D * s.shed if self.paper else lost
            self.k = min(D, (squares / (squares + ridge)).sum() + u / (ridge + s.shed))
            narrow = self.paper and hasattr(s, "width")
            self.z, self.tight = (2 if narrow else 1) * s.shed, False
            self.f = 1.0 if self.paper else max(1.0, (ridge + s.shed) / (ridge + lost / D))
        if self.p.get("estimate") == "corrected":
            self.doubled = 2.0

    def radius(self) -> float:
        asked, ridge = self.p["radius"], self.ridge
        if not isinstance(asked, str):
            return float(asked)
        if asked == "auto":
            q, n = self.rewards.squares, self.rewards.count
            sigma = q / max(1, n) - self.theta @ self.b / max(1, self.count)
            length = float(np.linalg.norm(self.theta))
            size = length * sqrt(ridge / max(1e-9, self.k))
            return sqrt(max(0.0, float(sigma))) + 2 * size or 1.0
        bounds, m, alpha = self.p["bounds"], self.p["agents"], self.p["alpha"]
        r, s, x, t, delta = (
            bounds[name] for name in ("noise", "parameter_norm", "arm_norm", "horizon", "delta")
        )
        tight = asked == "tight" or self.tight
        e = sqrt(ridge + self.z) if tight else sqrt(ridge) + sqrt(self.z / ridge)
        spread = sqrt(1 + m * alpha) + m * sqrt(2 * alpha)
        noise = r * sqrt(D * log((1 + t * x**2 / (min(alpha, 1) * ridge)) / delta))
        return float(self.f * (spread * (noise + sqrt(ridge) * s) + self.doubled * e * s))


@pytest.mark.parametrize("name", RECIPES)
def test_agents_decide_as_the_document_says(name: str) -> None:
    recipe = RECIPES[name]
    agents, server, compared = recipe.fleet(), recipe.server(), 0
    for this in Synthetic(dimension=D, arms=4, agents=3, seed=2).rounds(150):
        agent = agents[this.agent]
        arm = agent.choose(this.arms)
        upload = agent.observe(arm, float(this.rewards[arm]))
        if upload is None:
            continue
        server.receive(wire.decode(wire.encode(upload)))  # type: ignore[arg-type]
        download = wire.decode(wire.encode(server.download()))
        assert isinstance(download, fb.Download)
        agent.receive(download)
        told, policy = Told(recipe, download), agent.policy
        assert np.abs(told.theta - policy.theta).max() <= 1e-12
        assert told.radius() == pytest.approx(policy.radius, rel=1e-11)
        widths = np.einsum("ki,ij,kj->k", this.arms, np.linalg.inv(told.v), this.arms)
        assert np.abs(widths - policy.reading.squared_widths(this.arms)).max() <= 1e-12
        compared += 1
    assert compared > 5
