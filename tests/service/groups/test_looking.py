"""Numbers that no honest agent sends keep nobody from looking at the groups."""

from dataclasses import replace

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.summary import Sketch
from fedbandit.service.groups.looking import look
from fedbandit.service.groups.sums import GroupSum, sum_of
from tests.service.groups.fleet import RECIPES, THETA, D, Fleet, each_kind, observed

TINY = (1e-306, 1e-313, 5e-324)


def along_theta(recipe: fb.Recipe, count: int, reward: float, tiny: float) -> fb.Upload:
    """Observations along theta, with losses that are hardly numbers."""
    x = THETA / np.linalg.norm(THETA)
    agent = recipe.agent(0)
    for _ in range(count):
        agent.observe(x, reward)
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    summary = upload.summary
    if isinstance(summary, Sketch):
        summary = replace(summary, shed=tiny)
    else:
        assert isinstance(summary, Fitted)
        levels = np.full(D, 255, np.uint8)
        summary = Fitted(summary.codes, summary.step, levels, tiny, 0.0, summary.weight)
    return fb.Upload(0, replace(upload.statistics, summary=summary))


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("tiny", TINY)
@each_kind
def test_losses_that_are_hardly_numbers_hide_no_lie(
    recipe: fb.Recipe, tiny: float, watched: bool
) -> None:
    fleet = Fleet(recipe, watched=watched)
    before = fleet.knows().theta @ THETA
    for reward in (0.5, -1.0, -1.0, -1.0):
        fleet.send(20, along_theta(recipe, 200, reward, tiny))
    assert fleet.server.theta @ THETA < 0.0
    assert fleet.knows().theta @ THETA > 0.7 * before
    for number in range(24):
        fleet.send(number % 12, observed(recipe, 100 + number))
    assert not fleet.groups._troubled
    assert fleet.groups._found.typical > 0.0


@pytest.mark.parametrize("wrong", [np.inf, np.nan, 1e300])
def test_a_sum_that_cannot_be_looked_at_is_left_out(wrong: float) -> None:
    recipe, place = RECIPES["FedLinUCB"], 5
    memory, whole = recipe.parts.memory, recipe.server()
    uploads = [observed(recipe, number) for number in range(12)]
    for upload in uploads:
        whole.receive(upload)
    sums: list[GroupSum] = [sum_of(memory, upload.statistics) for upload in uploads]
    clean = look(memory, whole, sums, [False] * 12, alarmed=True, enough=True)
    moment = np.where(np.arange(D) == 2, wrong, sums[place].moment)
    sums[place] = replace(sums[place], moment=moment)
    found = look(memory, whole, sums, [False] * 12, alarmed=False, enough=True)
    assert found.alarmed
    assert np.flatnonzero(found.found.doubted).tolist() == [place]
    assert found.found.theta is not None
    assert clean.found.theta is not None
    assert np.linalg.norm(found.found.theta - clean.found.theta) < 0.05
    sums[7] = replace(sums[7], moment=np.full(D, np.nan))
    if not np.isfinite(wrong):
        with pytest.raises(np.linalg.LinAlgError):
            look(memory, whole, sums, [False] * 12, alarmed=False, enough=True)


def test_what_was_found_last_is_told_while_no_look_succeeds() -> None:
    """Two sums that cannot be looked at: what comes after them changes nothing that is told."""
    fleet = Fleet(RECIPES["FedLinUCB"], watched=True)
    before = fleet.knows().theta
    for number in (20, 21):
        kept = fleet.groups._sums[24_000 + number]
        kept._total = replace(kept.total, moment=np.full(D, np.nan))
    x = THETA / np.linalg.norm(THETA)
    lie = fb.Statistics(fb.Gram(2000.0 * np.outer(x, x)), -2000.0 * x, 2000)
    fleet.send(22, fb.Upload(0, lie))
    assert fleet.server.theta @ THETA < 0.0
    assert np.allclose(fleet.knows().theta, before, atol=0.02)
