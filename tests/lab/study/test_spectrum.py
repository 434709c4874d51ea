"""The spectrum of what was played, and its tail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.errors import InvalidParameter
from fedbandit.lab.study.spectrum import played_spectrum, sketched_spectrum, tail_share
from tests.lab.tiny import world

SPECTRA = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30)


@given(SPECTRA, st.integers(2, 40))
def test_the_tail_is_what_the_largest_leave_over(spectrum: list[float], size: int) -> None:
    total = sum(spectrum)
    kept = sum(sorted(spectrum, reverse=True)[: size - 1])
    expected = (total - kept) / total if total else 0.0
    assert tail_share(spectrum, sketch_size=size) == pytest.approx(expected, abs=1e-9)


@given(SPECTRA, st.integers(2, 30))
def test_a_larger_sketch_leaves_no_more(spectrum: list[float], size: int) -> None:
    smaller, larger = (tail_share(spectrum, sketch_size=each) for each in (size, size + 1))
    assert 0.0 <= larger <= smaller <= 1.0


def test_no_size_below_two() -> None:
    with pytest.raises(InvalidParameter, match=r"sketch_size must be .*; got 1"):
        tail_share([1.0], sketch_size=1)


def test_the_spectrum_is_of_the_arms_that_an_agent_plays() -> None:
    recipe, tape = fb.FedLinUCB(dimension=4, agents=2, radius=0.1), world()
    agents, server, arms = recipe.fleet(), recipe.server(), []
    for this in tape.rounds(1500):
        chosen = agents[this.agent].choose(this.arms)
        arms.append(this.arms[chosen])
        upload = agents[this.agent].observe(chosen, float(this.rewards[chosen]))
        for answer in server.receive(upload) if upload else ():
            agents[answer.agent].receive(answer.message)
    singular = np.linalg.svd(np.array(arms), compute_uv=False)
    found = played_spectrum(recipe, tape, rounds=1500)
    assert found == pytest.approx(singular**2)
    assert found.sum() == pytest.approx(1500)  # arms of length 1


def test_played_arms_are_not_those_shown() -> None:
    tape = world(dimension=8, arms=6)
    learns, picks = fb.FedLinUCB(dimension=8, agents=2), fb.Random(dimension=8, agents=2)
    head = [played_spectrum(recipe, tape, rounds=800)[0] for recipe in (learns, picks)]
    assert head[0] > 1.5 * head[1]


def test_directions_that_no_arm_has_are_exactly_zero() -> None:
    tape = world(dimension=9, arms=4, spectrum="low-rank", rank=3)
    found = played_spectrum(fb.FedLinUCB(dimension=9, agents=2), tape, rounds=200)
    assert np.count_nonzero(found) == 3


def test_a_sketch_holds_the_spectrum_up_to_what_it_shed() -> None:
    recipe = fb.FSCLB(dimension=8, sketch_size=4, agents=2)
    found = sketched_spectrum(recipe, world(dimension=8, arms=6), rounds=300)
    assert found.shed > 0.0
    kept = np.zeros(8)
    kept[: len(found.sketched)] = found.sketched
    # Frequent directions (Ghashami et al. 2016): 0 <= X^T X - S^T S <= shed I
    assert np.all(found.played - kept >= -1e-9)
    assert np.all(found.played - kept <= found.shed + 1e-9)


def test_only_a_recipe_with_a_sketch_has_one() -> None:
    with pytest.raises(InvalidParameter, match="keeps no sketch"):
        sketched_spectrum(fb.FedLinUCB(dimension=4, agents=2), world(), rounds=10)
