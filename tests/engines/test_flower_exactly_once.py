"""Whatever Flower loses, repeats or restarts: each observation is merged once. Without Flower."""

from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.engines.flower_messages import Answer, Ask, read, record_of
from fedbandit.engines.flower_node import Turns, node_agent
from fedbandit.engines.flower_server import MergingServer
from fedbandit.errors import InvalidMessage, InvalidState
from fedbandit.worlds import Synthetic

RECIPE = fb.FedLinUCB(dimension=3, agents=2)
WORLD = Synthetic(dimension=3, arms=4, agents=2, seed=5)
ROUNDS = 40


class Played:
    """A turn that remembers what was played and paid."""

    def __init__(self, round: fb.Round, seen: dict[int, tuple[np.ndarray, float]], t: int) -> None:
        self._round, self._seen, self._t = round, seen, t

    @property
    def arms(self) -> np.ndarray:
        return self._round.arms

    def play(self, arm: int) -> tuple[float, float]:
        reward = float(self._round.rewards[arm])
        self._seen[self._t] = (self._round.arms[arm], reward)
        return reward, 0.0


def turns(agent: int, seen: dict[int, tuple[np.ndarray, float]]) -> Turns:
    mine = [(t, each) for t, each in enumerate(WORLD.rounds(ROUNDS)) if each.agent == agent]

    def of(before: int) -> Iterator[Played]:
        for t, each in mine[before:]:
            yield Played(each, seen, t)

    return of


FAULTS = st.sampled_from(["none", "none", "ask lost", "answer lost", "answer twice", "late copy"])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), FAULTS, st.booleans()), max_size=25))
def test_each_observation_is_merged_once(events: list[tuple[int, str, bool]]) -> None:
    merging, seen = MergingServer(RECIPE), dict[int, tuple[np.ndarray, float]]()
    answers: list[tuple[int, Answer]] = []
    nodes = [100, 200]
    calm = ((k, "none", False) for k in cycle((0, 1)))
    with TemporaryDirectory() as place:
        for agent, fault, renamed in chain(events, calm):
            if merging.tally.over == {0, 1}:
                break
            if renamed:
                nodes[agent] += 1  # a SuperNode that registers anew has another id
            ask = merging.ask(nodes[agent])
            if fault == "ask lost":
                continue
            with node_agent(RECIPE, agent, Path(place)) as opened:  # from the disk each time
                answer = opened.answer(ask, turns(agent, seen))
            answers.append((nodes[agent], answer))
            if fault == "answer lost":
                continue
            merging.take(nodes[agent], read(Answer, record_of(answer)))
            if fault == "answer twice":
                assert not merging.take(nodes[agent], answer)
            if fault == "late copy":
                merging.take(*answers[0])
    server = merging.tally.server
    assert server.count == merging.tally.rounds == len(seen) == ROUNDS
    arms, rewards = (np.array(each) for each in zip(*seen.values(), strict=True))
    assert np.allclose(server.moment, rewards @ arms, rtol=1e-12, atol=1e-12)
    assert np.allclose(server.summary.matrix, arms.T @ arms, rtol=1e-12, atol=1e-12)
    assert merging.tally.reward == pytest.approx(rewards.sum())


def test_an_agent_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        node_agent(RECIPE, 0, tmp_path),
        pytest.raises(InvalidState, match=r"Agent 0 .* is in use"),
        node_agent(RECIPE, 0, tmp_path),
    ):
        pass


def test_a_damaged_state_is_told(tmp_path: Path) -> None:
    (tmp_path / "agent-0.state").write_bytes(b"\x93\x01")
    with pytest.raises(InvalidState, match="Delete the file"), node_agent(RECIPE, 0, tmp_path):
        pass


@pytest.mark.parametrize("field", ["download", "life", "merged"])
def test_a_record_without_a_field_is_refused(field: str) -> None:
    record = record_of(Ask(b"", b"", 0))
    del record[field]
    with pytest.raises(InvalidMessage, match=f"Ask.{field}: got None"):
        read(Ask, record)


def test_an_upload_of_another_agent_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    merging = MergingServer(RECIPE)
    with node_agent(RECIPE, 1, tmp_path) as opened:
        honest = opened.answer(merging.ask(1), turns(1, {}))
    record = record_of(honest) | {"agent": 0}
    with pytest.raises(InvalidMessage, match="not an upload of agent 0"):
        merging.take(1, read(Answer, record))
    assert merging.tally.server.version == 0
    assert merging.take(1, honest)
