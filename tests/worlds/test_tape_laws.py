"""What every world promises: playing it again gives the same rounds, whoever plays and however."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fedbandit.testing import WorldContract, same_rounds
from fedbandit.worlds import (
    AnyWorld,
    Classification,
    Dataset,
    Drifting,
    Hashed,
    Items,
    Late,
    Round,
    Synthetic,
    World,
    tape,
)

CONTRACT = WorldContract()


@st.composite
def synthetics(draw: st.DrawFn) -> Synthetic:
    paying = draw(payments(meanless=True))
    constant = int(paying["mean"] is not None)
    features = draw(st.integers(1, 12))
    spectrum = draw(st.sampled_from(["isotropic", "low-rank", "power-law"]))
    extra: dict[str, Any] = {}
    if spectrum == "low-rank":
        extra["subspaces"] = draw(st.sampled_from(["shared", "own"]))
        extra["rank"] = draw(st.none() | st.integers(1, features))
    if spectrum == "power-law" and draw(st.booleans()):
        extra["decay"] = draw(st.floats(0, 5))
    return Synthetic(
        dimension=features + constant,
        norm=draw(st.none() | st.floats(0.01, 100)),
        spectrum=spectrum,
        **paying,
        **extra,
    )


@st.composite
def payments(draw: st.DrawFn, *, meanless: bool) -> dict[str, Any]:
    """Parameters that all simulated worlds have but for the dimension."""
    means: dict[str, st.SearchStrategy[float | None]] = {
        "gaussian": st.floats(-20, 20),
        "clicks": st.floats(0, 1),
        "ratings": st.floats(1, 5),
    }
    rewards = draw(st.sampled_from(list(means)))
    mean = means[rewards]
    return {
        "arms": draw(st.integers(1, 6)),
        "agents": draw(st.integers(1, 5)),
        "noise": draw(st.floats(0, 10)),
        "seed": draw(st.integers(0, 2**70)),
        "signal": draw(st.floats(0.1, 10)),
        "mean": draw(mean | st.none() if meanless and rewards == "gaussian" else mean),
        "rewards": rewards,
    }


@st.composite
def lates(draw: st.DrawFn) -> Late:
    paying = draw(payments(meanless=True))
    features = draw(st.integers(2, 12))
    return Late(
        dimension=features + (paying["mean"] is not None),
        at=draw(st.integers(0, 60)),
        rank=draw(st.integers(1, features - 1)),
        direction=draw(st.sampled_from(["axis", "dense"])),
        **paying,
    )


@st.composite
def driftings(draw: st.DrawFn) -> Drifting:
    paying = draw(payments(meanless=True))
    features = draw(st.integers(2, 12))
    drift = draw(st.sampled_from(["abrupt", "rotation", "walk"]))
    return Drifting(
        dimension=features + (paying["mean"] is not None),
        at=draw(st.integers(0, 60)),
        drift=drift,
        speed=None if drift == "abrupt" else draw(st.none() | st.floats(0, 100)),
        rank=draw(st.none() | st.integers(2, features)),
        **paying,
    )


@st.composite
def items(draw: st.DrawFn) -> Items:
    count = draw(st.integers(1, 8))
    return Items(
        dimension=count + draw(st.integers(1, 8)),
        items=count,
        popularity=draw(st.floats(0, 3)),
        **draw(payments(meanless=False)),
    )


@st.composite
def hashed(draw: st.DrawFn) -> Hashed:
    paying = draw(payments(meanless=False))
    return Hashed(
        dimension=draw(st.integers(1, 40)),
        fields=draw(st.integers(1, 4)),
        values=draw(st.integers(1, 5)),
        items=draw(st.integers(paying["arms"], 10)),
        categories=draw(st.integers(1, 4)),
        interactions=draw(st.floats(0, 2)),
        **paying,
    )


@st.composite
def classifications(draw: st.DrawFn) -> Classification:
    counts = draw(st.lists(st.integers(1, 9), min_size=2, max_size=4).filter(lambda c: max(c) > 1))
    labels = np.repeat(np.arange(len(counts)), counts)
    features = np.random.default_rng(draw(st.integers(0, 99))).normal(
        size=(len(labels), draw(st.integers(1, 4)))
    )
    data = Dataset("drawn", features, labels, tuple(f"class {k}" for k in range(len(counts))))
    return Classification(
        data=data,
        target=draw(st.integers(0, len(counts) - 1)),
        agents=draw(st.integers(1, 5)),
        seed=draw(st.integers(0, 2**70)),
    )


worlds: st.SearchStrategy[AnyWorld] = st.one_of(
    synthetics(), classifications(), lates(), driftings(), items(), hashed()
)


@given(worlds, st.integers(0, 40), st.integers(0, 40))
def test_a_shorter_run_is_a_prefix_and_a_repeat_is_the_same(world: World, n: int, m: int) -> None:
    longer = list(world.rounds(n + m))
    assert len(longer) == n + m
    assert same_rounds(list(world.rounds(n)), longer[:n])
    assert same_rounds(list(world.rounds(n + m)), longer)


@given(worlds)
def test_two_runs_at_once_do_not_disturb_each_other(world: World) -> None:
    CONTRACT.test_two_runs_at_once_do_not_disturb_each_other(world)


@given(worlds, st.integers(1, 500), st.integers(1, 17))
def test_the_size_of_a_block_changes_nothing(world: World, floats: int, rounds: int) -> None:
    usual = list(world.rounds(50))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tape, "FLOATS_PER_BLOCK", floats)
        patch.setattr(tape, "ROUNDS_PER_BLOCK", rounds)
        assert same_rounds(list(world.rounds(50)), usual)


@given(worlds)
def test_rounds_that_were_kept_stay_as_they_were(world: World) -> None:
    kept, copies = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tape, "ROUNDS_PER_BLOCK", 4)
        for shown in world.rounds(20):
            kept.append(shown)
            copies.append(Round(shown.agent, *(array.copy() for array in shown[1:])))
    assert same_rounds(kept, copies)


@given(worlds)
def test_a_pickled_world_is_the_same_world(world: AnyWorld) -> None:
    before = list(world.rounds(20))
    again = pickle.loads(pickle.dumps(world))
    assert again == world
    assert again.params == world.params
    assert same_rounds(list(again.rounds(20)), before)


@given(worlds)
def test_shapes_lengths_and_agents(world: World) -> None:
    CONTRACT.test_shapes_and_agents(world)
    CONTRACT.test_all_numbers_are_finite(world)
    assert all(shown.arms.flags.c_contiguous for shown in world.rounds(20))


@given(worlds)
def test_params_are_plain(world: AnyWorld) -> None:
    assert all(isinstance(value, int | float | str | None) for value in world.params.values())
    assert world.params["seed"] == world.seed


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Synthetic(dimension=5, arms=3, agents=4, seed=seed),
        lambda seed: Synthetic(dimension=5, arms=3, agents=4, seed=seed, spectrum="power-law"),
        lambda seed: Classification(data="satimage", seed=seed),
        lambda seed: Late(dimension=5, arms=3, agents=4, seed=seed, at=2, rank=2),
        lambda seed: Drifting(dimension=5, arms=3, agents=4, seed=seed, at=2),
        lambda seed: Items(dimension=5, arms=3, agents=4, seed=seed, items=3),
        lambda seed: Hashed(dimension=5, arms=3, agents=4, seed=seed),
    ],
)
def test_another_seed_is_another_tape(make: Any) -> None:
    tapes = [list(make(seed).rounds(5)) for seed in (0, 1, 2, 2**32, 2**64)]
    assert not any(same_rounds(a, b) for i, a in enumerate(tapes) for b in tapes[:i])


@pytest.mark.parametrize(
    "world",
    [
        Synthetic(dimension=400, arms=10, agents=3, spectrum="power-law"),
        Synthetic(dimension=400, arms=10, agents=3, spectrum="low-rank"),
        Classification(data="mfeat-zernike"),
        Late(dimension=400, arms=10, agents=3, at=30, rank=100, direction="dense"),
        Drifting(dimension=400, arms=10, agents=3, at=30, drift="walk"),
        Items(dimension=400, arms=10, agents=3, items=200),
        Hashed(dimension=400, arms=10, agents=3),
    ],
    ids=repr,
)
def test_the_number_of_threads_changes_nothing(world: World) -> None:
    with threadpool_limits(1):
        alone = list(world.rounds(70))
    with threadpool_limits(2):
        assert same_rounds(list(world.rounds(70)), alone)


@pytest.mark.parametrize(
    "world",
    [
        Synthetic(dimension=2, arms=2, agents=10),
        Classification(data="satimage", agents=10),
        Late(dimension=3, arms=2, agents=10, at=1000, rank=2),
        Drifting(dimension=2, arms=2, agents=10, at=1000),
        Items(dimension=3, arms=2, agents=10, items=2),
        Hashed(dimension=3, arms=2, agents=10),
    ],
    ids=repr,
)
def test_agents_are_about_uniform_and_independent_of_the_round_before(world: World) -> None:
    active = np.array([shown.agent for shown in world.rounds(20_000)])
    pairs = np.bincount(active[:-1] * 10 + active[1:], minlength=100)
    for counts in (np.bincount(active, minlength=10), pairs):
        expected = counts.sum() / len(counts)
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


@given(st.integers(1, 10**7))
def test_a_block_is_bounded_and_never_empty(floats_per_round: int) -> None:
    length = tape.block_length(floats_per_round)
    assert 1 <= length <= tape.ROUNDS_PER_BLOCK
    assert length == 1 or length * floats_per_round <= tape.FLOATS_PER_BLOCK
