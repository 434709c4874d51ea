"""What a simulation records, its determinism, and worlds that users write."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import errors
from fedbandit.testing import ChangingArms
from tests.core.builds import every_recipe

WORLD = fb.worlds.Synthetic(dimension=6, arms=4, agents=3, noise=0.1, seed=5)


@every_recipe
def test_what_is_recorded_adds_up(recipe: fb.Recipe) -> None:
    trace = fb.simulate(recipe, WORLD, rounds=300)
    tape = list(WORLD.rounds(300))
    assert len(trace) == len(trace.regret) == 300
    assert_array_equal(trace.agent, [this.agent for this in tape])
    assert_array_equal(trace.rewards, [t.rewards[k] for t, k in zip(tape, trace.arm, strict=True)])
    gaps = [t.means.max() - t.means[k] for t, k in zip(tape, trace.arm, strict=True)]
    np.testing.assert_allclose(trace.regret, np.cumsum(gaps))
    assert_array_equal(np.diff(trace.uploads, prepend=0) > 0, trace.uploaded)
    assert_array_equal(np.diff(trace.scalars, prepend=0) > 0, trace.uploaded)
    number = {"float32": 4, "float16": 2, "int8": 1, "fitted": 0.5}.get(
        recipe.params.get("wire", ""), 8
    )
    assert (trace.bytes >= number * (trace.scalars - 6 * trace.uploads)).all()
    assert (trace.seconds > 0).all()


def test_scalars_follow_the_papers_rule() -> None:
    d, size = 6, 3
    whole = fb.simulate(fb.FedLinUCB(dimension=d, agents=3), WORLD, rounds=300)
    assert_array_equal(whole.scalars, whole.uploads * 2 * (d * d + d))
    recipe = fb.FSCLB(dimension=d, sketch_size=size, agents=3)
    sketched = fb.simulate(recipe, WORLD, rounds=300)
    assert sketched.uploads[-1] > 20
    rows = size - 1
    most = (rows * d + d + 2) + (rows * d + rows + d + 2)
    per_upload = np.diff(sketched.scalars)[sketched.uploaded[1:]]
    assert per_upload.max() == most
    assert per_upload.min() >= 2 * (d + d + 2)


@every_recipe
def test_worlds_of_users_and_changing_numbers_of_arms(recipe: fb.Recipe) -> None:
    params = recipe.params | {"dimension": 2, "agents": 2}
    if "bounds" in params:
        params["bounds"] = fb.Bounds(**params["bounds"])
    world = ChangingArms(dimension=2, agents=2)
    trace = fb.simulate(fb.RECIPES[recipe.name](**params), world, rounds=50)
    assert (trace.arm <= np.arange(50) % 7).all()


PROGRAM = """
import fedbandit as fb, hashlib
world = fb.worlds.Synthetic(dimension=6, arms=4, agents=3, noise=0.1, seed=5)
trace = fb.simulate(fb.FSCLB(dimension=6, sketch_size=3, agents=3), world, rounds=300)
columns = [getattr(trace, name) for name in "regret reward arm uploads scalars bytes".split()]
print(hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest())
"""


def test_the_same_trace_in_another_process() -> None:
    seen = set()
    for hashing in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": hashing}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True
        )
        seen.add(run.stdout)
    assert len(seen) == 1


@dataclass
class Broken:
    """A world that is not what it says."""

    agent: int = 0
    means: Any = (1.0, 2.0)
    rewards: Any = (1.0, 2.0)
    length: int = 100

    dimension, agents = 2, 2

    def rounds(self, _n: int) -> Iterator[fb.Round]:
        for _ in range(self.length):
            yield fb.Round(self.agent, np.eye(2), self.means, self.rewards)


BROKEN = {
    "agent": (Broken(agent=5), "round 0: got agent 5; expected an agent from 0 to 1"),
    "short tape": (Broken(length=3), "round 3: got no more rounds; expected 9 rounds"),
    "means": (Broken(means=(1.0,)), "round 0: got means .*; expected 2 finite numbers"),
    "rewards": (Broken(rewards=(1.0, np.nan)), "round 0: got rewards .*; expected 2 finite"),
}


@pytest.mark.parametrize(("world", "complaint"), BROKEN.values(), ids=BROKEN)
def test_worlds_that_are_not_what_they_say(world: Broken, complaint: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=complaint):
        fb.simulate(fb.LinUCB(dimension=2, agents=2), world, rounds=9)


def test_lists_will_do_and_a_longer_tape_is_cut() -> None:
    trace = fb.simulate(fb.LinUCB(dimension=2, agents=2), Broken(), rounds=9)
    assert len(trace) == 9
    assert trace.regret[-1] <= 9.0


def test_what_does_not_fit_together() -> None:
    with pytest.raises(errors.InvalidParameter, match="dimension=6"):
        fb.simulate(fb.LinUCB(dimension=5, agents=3), WORLD, rounds=1)
    with pytest.raises(errors.InvalidParameter, match="agents=3"):
        fb.simulate(fb.LinUCB(dimension=6, agents=2), WORLD, rounds=1)
    for rounds in (-1, 1.5, True, "9"):
        with pytest.raises(errors.InvalidParameter, match="rounds"):
            fb.simulate(fb.LinUCB(dimension=6, agents=3), WORLD, rounds=rounds)  # type: ignore[arg-type]


def test_no_rounds_is_an_empty_trace() -> None:
    trace = fb.simulate(fb.LinUCB(dimension=6, agents=3), WORLD, rounds=0)
    assert len(trace) == 0
    assert repr(trace) == "Trace(rounds=0)"
