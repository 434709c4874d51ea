"""Devices draw by chance of their own, which goes on after a restart and is told with decisions."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit.client.state.journal import Journal, read
from fedbandit.client.state.records import OPENING, Decided, Header, Ran, decode_all, encode
from tests.client.faults import abandon
from tests.client.twin import Twin, joined_to

D, K = 6, 4
THOMPSON = fb.FSCLB(dimension=D, sketch_size=4, agents=2, choice="thompson")
MIXED = fb.FedLinUCB(dimension=D, agents=2, choice=fb.Mixed(0.5))
ARMS = np.random.default_rng(3).standard_normal((40, K, D))


def played(agent: fb.ConnectedAgent, these: range) -> list[tuple[int, float]]:
    found = []
    for t in these:
        decision = agent.decide(ARMS[t])
        found.append((decision.index, decision.probability))
        agent.reward(decision.id, float(t % 3))
    return found


@pytest.mark.parametrize("recipe", [THOMPSON, MIXED], ids=["thompson", "mixed"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_restarted_device_draws_what_it_would_have_drawn(
    tmp_path: Path, recipe: fb.Recipe, killed: bool
) -> None:
    twin = Twin(recipe)
    twin.down, first = True, joined_to(twin, recipe=recipe, state_dir=tmp_path / "one")
    before = played(first, range(20))
    if killed:
        abandon(first)
    else:
        first.close(timeout=0.01)
    shutil.copytree(tmp_path / "one", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    again = [joined_to(twin, recipe=recipe, state_dir=tmp_path / name) for name in ("one", "copy")]
    after = [played(agent, range(20, 40)) for agent in again]
    assert after[0] == after[1]
    assert len({arm for arm, _ in before + after[0]}) > 1
    for agent in again:
        agent.close(timeout=0.01)


def test_two_devices_draw_differently() -> None:
    twin = Twin(THOMPSON)
    twin.down = True
    with (
        joined_to(twin, recipe=THOMPSON) as one,
        joined_to(twin, recipe=THOMPSON) as other,
    ):
        picked = [[agent.decide(arms).index for arms in ARMS] for agent in (one, other)]
        assert picked[0] != picked[1]
        twin.down = False


def test_a_decision_tells_the_probabilities_of_all_arms() -> None:
    for recipe, estimated in ((THOMPSON, True), (MIXED, False)):
        with joined_to(Twin(recipe)) as agent:
            decision = agent.decide(ARMS[0])
        assert decision.estimated is estimated
        assert decision.probability == decision.probabilities[decision.index] > 0.0
        assert decision.probabilities.sum() == pytest.approx(1.0)
        if not estimated:
            likely = 0.5 / K + 0.5
            assert sorted(decision.probabilities) == pytest.approx([0.5 / K] * 3 + [likely])


def test_a_journal_from_before_there_were_draws_gets_chance_of_its_own(tmp_path: Path) -> None:
    twin = Twin(MIXED)
    joined_to(twin, state_dir=tmp_path).close()
    path = tmp_path / "journal"
    content = read(path, opening=OPENING)
    old = [
        Header(*(getattr(each, name) for name in Header.__struct_fields__[:-1]))
        if isinstance(each, Header)
        else each
        for each in decode_all(content.payloads)
    ]
    made = Journal.create(path, map(encode, old))
    made.rename(path)
    made.close()
    for _ in range(2):
        with joined_to(twin, state_dir=tmp_path) as agent:
            agent.decide(ARMS[0])
    records = list(decode_all(read(path, opening=OPENING).payloads))
    assert isinstance(records[0], Header)
    assert records[0].chance > 0
    assert max(each.number for each in records if isinstance(each, Ran | Decided)) == 2


def test_numbers_of_decisions_go_on(tmp_path: Path) -> None:
    twin = Twin(MIXED)
    for run in range(3):
        with joined_to(twin, state_dir=tmp_path) as agent:
            ids = [agent.decide(ARMS[0]).id for _ in range(2)]
        assert [int(each.rpartition("-")[2]) for each in ids] == [2 * run + 1, 2 * run + 2]


def test_without_draws_probabilities_are_one_and_nought() -> None:
    with joined_to(Twin(fb.FedLinUCB(dimension=D, agents=1))) as agent:
        decision = agent.decide(ARMS[0])
    assert_array_equal(decision.probabilities, np.eye(K)[decision.index])
    assert (decision.probability, decision.estimated) == (1.0, False)
