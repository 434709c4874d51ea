"""Agents written from docs/wire.md, without this library, agree with ours to rounding."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.service.models.model import new_model
from fedbandit.service.tokens import digest_of, token_of
from fedbandit.testing import RunningCoordinator, coordinator

EXAMPLES = Path(__file__).parent.parent / "examples" / "wire"
CLOSE = 1e-12

RECIPES = {
    "FedLinUCB": fb.FedLinUCB(dimension=5, agents=2),
    "FSCLB": fb.FSCLB(dimension=6, sketch_size=3, agents=2),
    "FSCLB averaged": fb.FSCLB(
        dimension=6, sketch_size=3, agents=2, estimate="averaged", radius="auto"
    ),
    "FSCLB corrected": fb.FSCLB(
        dimension=6, sketch_size=3, agents=2, estimate="corrected", cadence="buffered", buffer=4
    ),
    "FSCLB auto": fb.FSCLB(
        dimension=12,
        sketch_size="auto",
        budget=384,
        agents=2,
        cadence="buffered",
        estimate="averaged",
    ),
    "FSCLB.lean": fb.FSCLB.lean(dimension=6, agents=2),
}


@pytest.fixture(scope="module")
def written() -> Iterator[Any]:
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("sketch_agent")
    sys.path.remove(str(EXAMPLES))


class Twins:
    """An agent of the example beside one of ours, which is given the same arms and answers."""

    def __init__(self, written: Any, recipe: fb.Recipe, running: RunningCoordinator) -> None:
        host, _, port = running.url.removeprefix("http://").partition(":")
        kind = written.agent_for(recipe.params)
        self.uploads: list[Any] = []
        self.answers: list[Any] = []
        self.ours, self.recipe = recipe.agent(0), recipe
        twins = self

        class Recorded(kind):  # type: ignore[misc, valid-type]
            def sync(self, upload: list[Any]) -> None:
                twins.uploads.append(upload)
                super().sync(upload)

            def receive(self, download: Any) -> None:
                twins.answers.append(download)
                super().receive(download)

        self.pack = sys.modules["minimal_agent"].pack
        self.theirs = Recorded(host, int(port), running.model, "written", running.token("written"))
        self.follow()

    def follow(self) -> None:
        """Give our agent what theirs was sent."""
        for answer in self.answers:
            download = wire.decode(self.pack(answer))
            assert isinstance(download, fb.Download)
            self.ours.receive(download)
        self.answers.clear()

    def compare(self, arms: np.ndarray) -> int:
        policy = self.ours.policy
        scores = arms @ policy.theta
        scores += policy.radius * np.sqrt(policy.reading.squared_widths(arms))
        theirs, theta = self.theirs.scores(arms.tolist()), np.array(self.theirs.theta)
        assert np.abs(theta - policy.theta).max() <= CLOSE * max(1.0, np.abs(theta).max())
        assert np.abs(theirs - scores).max() <= CLOSE * max(1.0, np.abs(scores).max())
        chosen = int(self.theirs.choose(arms.tolist()))
        assert chosen == self.ours.choose(arms)
        return chosen

    def observe(self, arm: np.ndarray, reward: float) -> bool:
        due, upload = self.theirs.observe(arm.tolist(), reward), self.ours.observe(arm, reward)
        assert due == (upload is not None)
        if upload is not None:
            sent = wire.decode(self.pack(self.uploads.pop()))
            assert isinstance(sent, fb.Upload)
            self._compare_uploads(sent, upload)
            self.follow()
        return bool(due)

    def _compare_uploads(self, theirs: fb.Upload, ours: fb.Upload) -> None:
        memory, reads = self.recipe.parts.memory, []
        for each in (theirs, ours):
            opened = memory.opened(each.statistics)
            reading, units = memory.read(opened.summary), np.eye(self.recipe.dimension)
            reads.append(np.array([[reading.solve(e), reading.estimate(e)] for e in units]))
        assert np.abs(reads[0] - reads[1]).max() <= CLOSE * np.abs(reads[1]).max()
        # a moment in float32 may round the other way
        close = 2.0**-23 if isinstance(ours.summary, Fitted) else CLOSE
        most = max(1.0, float(np.abs(ours.moment).max()))
        assert np.abs(theirs.moment - ours.moment).max() <= close * most
        assert theirs.count == ours.count
        assert theirs.statistics.cut == ours.statistics.cut


@pytest.mark.parametrize("name", RECIPES)
def test_a_written_agent_agrees_with_ours(name: str, written: Any) -> None:
    recipe, rng, syncs = RECIPES[name], np.random.default_rng(1), 0
    taste = rng.standard_normal(recipe.dimension)
    with coordinator(recipe) as running, running.connect("another") as another:
        twins = Twins(written, recipe, running)
        for t in range(150):
            arms = rng.standard_normal((4, recipe.dimension))
            chosen = twins.compare(arms)
            syncs += twins.observe(arms[chosen], float(arms[chosen] @ taste) + rng.normal() / 10)
            if t % 3 == 0:
                decision = another.decide(arms)
                another.reward(decision.id, float(arms[decision.index] @ taste))
                if t % 30 == 0:
                    another.sync()
        twins.theirs.server.close()
    assert syncs > 10


def test_a_life_of_a_model_that_was_made_anew_goes_on_as_another(written: Any) -> None:
    recipe = RECIPES["FSCLB"]
    with coordinator(recipe) as running:
        host, _, port = running.url.removeprefix("http://").partition(":")
        asked = (host, int(port), running.model, "a", running.token("a"))
        for born in range(2):
            agent = written.agent_for(recipe.params)(*asked)
            assert agent.born == born
            while not agent.observe([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.0):
                pass
            if born == 0:
                agent.server.close()
        running.store.delete(running.model)
        running.store.create(*new_model(running.model, recipe))
        running.store.add_token(token_of(digest_of(asked[-1]), model=running.model, agent="a"))
        while not agent.observe([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 1.0):
            pass
        assert (agent.born, agent.sequence, running.state().version) == (0, 1, 1)
        agent.server.close()
