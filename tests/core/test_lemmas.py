"""The paper's lemmas, on whole federations, against dense matrices of what really happened."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.messages import Download
from tests.core.histories import assert_psd_order

Array = NDArray[np.float64]


@dataclass
class Federation:
    """FSCLB agents and server, and every arm that they have seen, unsketched."""

    recipe: fb.Recipe
    sent: list[Array] = field(default_factory=list)
    unsent: list[list[Array]] = field(default_factory=list)
    uploads: int = 0

    def __post_init__(self) -> None:
        self.agents, self.server = self.recipe.fleet(), self.recipe.server()
        self.unsent = [[] for _ in self.agents]
        self.downloaded: list[Array] = [self.ridge_matrix() for _ in self.agents]

    @property
    def ridge(self) -> float:
        return float(self.recipe.params["ridge"])

    def ridge_matrix(self) -> Array:
        return self.ridge * np.eye(self.recipe.dimension)

    def server_matrix(self) -> Array:
        return self.ridge_matrix() + compensated(self.server.summary)

    def observed(self) -> Array:
        rows = self.sent + [x for pending in self.unsent for x in pending]
        return gram(rows, self.recipe.dimension)

    def play(self, who: int, arms: Array) -> bool:
        agent = self.agents[who]
        k = agent.choose(arms)
        self.unsent[who].append(arms[k])
        upload = agent.observe(k, float(arms[k, 0]))
        if upload is None:
            return False
        self.uploads += 1
        self.sent += self.unsent[who]
        self.unsent[who] = []
        (answer,) = self.server.receive(upload)
        assert isinstance(answer.message, Download)
        agent.receive(answer.message)
        self.downloaded[who] = self.ridge_matrix() + compensated(answer.message.summary)
        return True

    def pending(self, who: int) -> Array:
        state = self.agents[who].state()
        rows, shed = state["pending.rows"], state["pending.shed"]
        return np.asarray(rows.T @ rows + shed * np.eye(self.recipe.dimension))


def compensated(summary: object) -> Array:
    assert isinstance(summary, Sketch)
    return summary.rows.T @ summary.rows + summary.shed * np.eye(summary.dimension)


def gram(rows: list[Array], dimension: int) -> Array:
    stacked = np.array(rows).reshape(-1, dimension)
    return stacked.T @ stacked


@st.composite
def federations(draw: st.DrawFn) -> tuple[Federation, np.random.Generator, Array]:
    d = draw(st.integers(2, 7))
    size = draw(st.integers(2, d + 1))
    buffer = draw(st.none() | st.integers(size, 2 * d + 2))
    recipe = fb.FSCLB(
        dimension=d,
        sketch_size=size,
        agents=draw(st.integers(1, 4)),
        alpha=draw(st.sampled_from([0.05, 0.5, 1.0, 5.0])),
        ridge=draw(st.sampled_from([0.1, 1.0, 10.0])),
        radius=draw(st.sampled_from([0.0, 0.5])),
        cadence="paper" if buffer is None else "buffered",
        buffer=buffer,
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = np.asarray(draw(st.sampled_from([np.ones(d), 2.0 ** -np.arange(d)])))
    return Federation(recipe), rng, scales


ROUNDS = 60


@given(federations())
def test_server_matrix_never_decreases(case: tuple[Federation, np.random.Generator, Array]) -> None:
    federation, rng, scales = case
    before = federation.server_matrix()
    for _ in range(ROUNDS):
        arms = rng.standard_normal((3, len(scales))) * scales
        if federation.play(int(rng.integers(len(federation.agents))), arms):
            after = federation.server_matrix()
            assert_psd_order(before, after, scale=float(np.trace(after)))
            before = after


@given(federations())
def test_server_matrix_is_sandwiched(case: tuple[Federation, np.random.Generator, Array]) -> None:
    """Lemma "FL SCFD inequality": lambda I + sent <= V_ser <= (lambda + Delta) I + sent."""
    federation, rng, scales = case
    d = len(scales)
    for _ in range(ROUNDS):
        arms = rng.standard_normal((3, d)) * scales
        if federation.play(int(rng.integers(len(federation.agents))), arms):
            truth = gram(federation.sent, d) + federation.ridge_matrix()
            matrix, summary = federation.server_matrix(), federation.server.summary
            assert isinstance(summary, Sketch)
            scale = float(np.trace(matrix))
            assert_psd_order(truth, matrix, scale=scale)
            assert_psd_order(matrix, truth + summary.shed * np.eye(d), scale=scale)


@given(federations())
def test_covariance_comparison(case: tuple[Federation, np.random.Generator, Array]) -> None:
    """Nobody keeps back more than alpha times what the server holds.

    And while an agent that has just talked plays alone, what it decides with is at least everything
    observed anywhere, divided by 1 + M alpha.
    """
    federation, rng, scales = case
    d, M, alpha = len(scales), len(federation.agents), federation.recipe.params["alpha"]
    alone_since_talking = False
    who = 0
    for t in range(ROUNDS):
        if t % 6 == 0:
            who, alone_since_talking = int(rng.integers(M)), False
        talked = federation.play(who, rng.standard_normal((3, d)) * scales)
        matrix, held = federation.server_matrix(), federation.downloaded[who]
        scale = 1e3 * float(np.trace(matrix)) * (1 + alpha)  # the trigger's margin is 1e-9
        for m in range(M):
            assert_psd_order(federation.pending(m), alpha * matrix, scale=scale)
        alone_since_talking |= talked
        if alone_since_talking:
            everything = federation.observed() + federation.ridge_matrix()
            assert_psd_order(everything / (1 + M * alpha), held, scale=scale)


@given(federations())
def test_double_sketch_error(case: tuple[Federation, np.random.Generator, Array]) -> None:
    """Delta / lambda <= epsilon_l: the paper's lemma without its factor, the number of uploads."""
    federation, rng, scales = case
    d, size = len(scales), federation.recipe.params["sketch_size"]
    for _ in range(ROUNDS):
        federation.play(int(rng.integers(len(federation.agents))), rng.standard_normal((3, d)))
    spectrum = np.linalg.eigvalsh(federation.observed())
    bound = fb.theory.epsilon_l(spectrum, sketch_size=size, ridge=federation.ridge)
    summary = federation.server.summary
    assert isinstance(summary, Sketch)
    assert summary.shed / federation.ridge <= bound + 1e-9


@given(federations())
def test_communication_bound(case: tuple[Federation, np.random.Generator, Array]) -> None:
    """Theorem 5.1, with the server's own shed for the spectral error, as the proof uses it."""
    federation, rng, scales = case
    d, params = len(scales), federation.recipe.params
    longest = 0.0
    for _ in range(ROUNDS):
        arms = rng.standard_normal((3, d)) * scales
        longest = max(longest, float(np.linalg.norm(arms, axis=1).max()))
        federation.play(int(rng.integers(len(federation.agents))), arms)
    summary = federation.server.summary
    assert isinstance(summary, Sketch)
    assert federation.uploads <= fb.theory.communication_bound(
        dimension=d,
        agents=params["agents"],
        alpha=params["alpha"],
        ridge=params["ridge"],
        bounds=fb.Bounds(arm_norm=longest, horizon=ROUNDS),
        spectral_error=summary.shed / params["ridge"],
    )
