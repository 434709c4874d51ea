"""Shipped and literal algorithms play the same arms and upload at the same rounds."""

from collections.abc import Callable

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.core.memory.gram_memory import Determinant
from fedbandit.core.recipe import Recipe
from fedbandit.worlds import Round, World
from tests.core import literal
from tests.core.literal_worlds import M, shifting, synthetic

WORLDS: dict[str, World] = {
    "isotropic": synthetic(seed=1),
    "isotropic again": synthetic(seed=2),
    "low rank": synthetic(seed=3, spectrum="low-rank", rank=3),
    "power law": synthetic(seed=4, spectrum="power-law", decay=1.5),
    "long arms": synthetic(seed=5, norm=4.0),
    "short arms": synthetic(seed=6, norm=0.4),
    "shifting": shifting,
    "satimage": fb.worlds.Classification(data="satimage", target=3, agents=M, seed=0),
}
ROUNDS = 700


def assert_same(recipe: Recipe, world: World, expected: literal.Played, rounds: int) -> None:
    trace = fb.simulate(recipe, world, rounds=rounds)
    np.testing.assert_array_equal(trace.arm, expected.arm)
    np.testing.assert_array_equal(trace.uploaded, expected.uploaded)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(
    ("size", "alpha", "ridge"), [(5, 1.0, 1.0), (2, 0.3, 0.1), (11, 4.0, 10.0)]
)
def test_fsclb(world: World, size: int, alpha: float, ridge: float) -> None:
    d = world.dimension
    expected = literal.fsclb(
        list(world.rounds(ROUNDS)), d=d, size=size, M=M, alpha=alpha, lam=ridge, beta=0.3
    )
    recipe = fb.FSCLB(dimension=d, sketch_size=size, agents=M, alpha=alpha, ridge=ridge, radius=0.3)
    assert_same(recipe, world, expected, ROUNDS)
    assert any(expected.uploaded)
    assert not all(expected.uploaded)


KINDS: dict[str, Callable[[int], World]] = {
    "isotropic": lambda seed: synthetic(seed=seed),
    "power law": lambda seed: synthetic(seed=seed, spectrum="power-law", decay=1.0),
    "mfeat": lambda seed: fb.worlds.Classification(
        data="mfeat-zernike", target=2, agents=M, seed=seed
    ),
}


@pytest.mark.parametrize("seed", range(100, 105))
@pytest.mark.parametrize("kind", KINDS)
def test_fsclb_for_long(kind: str, seed: int) -> None:
    world, rounds = KINDS[kind](seed), 2000
    d = world.dimension
    expected = literal.fsclb(
        list(world.rounds(rounds)), d=d, size=6, M=M, alpha=1.0, lam=1.0, beta=0.3
    )
    recipe = fb.FSCLB(dimension=d, sketch_size=6, agents=M, radius=0.3)
    assert_same(recipe, world, expected, rounds)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(("size", "buffer"), [(5, 5), (5, 10), (4, 30)])
def test_fsclb_buffered(world: World, size: int, buffer: int) -> None:
    d = world.dimension
    expected = literal.fsclb_buffered(
        list(world.rounds(ROUNDS)),
        d=d,
        size=size,
        buffer=buffer,
        M=M,
        alpha=1.0,
        lam=1.0,
        beta=0.3,
    )
    recipe = fb.FSCLB(
        dimension=d, sketch_size=size, agents=M, radius=0.3, cadence="buffered", buffer=buffer
    )
    assert_same(recipe, world, expected, ROUNDS)


def test_a_buffer_as_small_as_the_sketch_is_the_papers_cadence() -> None:
    world = WORLDS["isotropic"]
    common = {"dimension": 12, "sketch_size": 5, "agents": M, "radius": 0.3}
    paper = fb.simulate(fb.RECIPES["FSCLB"](**common), world, rounds=ROUNDS)
    tight = fb.RECIPES["FSCLB"](**common, cadence="buffered", buffer=5)
    trace = fb.simulate(tight, world, rounds=ROUNDS)
    np.testing.assert_array_equal(trace.arm, paper.arm)
    np.testing.assert_array_equal(trace.scalars, paper.scalars)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("determinant", ["when-needed", "rank-one", "every-round"])
def test_fedlinucb(world: World, determinant: Determinant) -> None:
    d = world.dimension
    expected = literal.fedlinucb(list(world.rounds(ROUNDS)), d=d, M=M, alpha=1.0, lam=1.0, beta=0.3)
    recipe = fb.FedLinUCB(dimension=d, agents=M, radius=0.3, determinant=determinant)
    assert_same(recipe, world, expected, ROUNDS)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_async_linucb(world: World) -> None:
    d = world.dimension
    expected = literal.async_linucb(
        list(world.rounds(ROUNDS)), d=d, M=M, up=1.5, down=3.0, lam=1.0, beta=0.3
    )
    recipe = fb.AsyncLinUCB(
        dimension=d, agents=M, upload_growth=1.5, download_growth=3.0, radius=0.3
    )
    assert_same(recipe, world, expected, ROUNDS)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_dislinucb(world: World) -> None:
    d = world.dimension
    expected = literal.dislinucb(list(world.rounds(ROUNDS)), d=d, M=M, D=8.0, lam=1.0, beta=0.3)
    assert_same(fb.DisLinUCB(dimension=d, agents=M, wait=8.0, radius=0.3), world, expected, ROUNDS)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_linucb(world: World) -> None:
    d = world.dimension
    expected = literal.linucb(list(world.rounds(ROUNDS)), d=d, M=M, lam=0.5, beta=0.3)
    recipe = fb.LinUCB(dimension=d, agents=M, ridge=0.5, radius=0.3)
    assert_same(recipe, world, expected, ROUNDS)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("build", [fb.SOFUL, fb.CBSCFD])
def test_sketched_learners(world: World, build: Callable[..., Recipe]) -> None:
    d = world.dimension
    expected = literal.sketched(
        list(world.rounds(ROUNDS)),
        d=d,
        size=5,
        M=M,
        lam=1.0,
        beta=0.3,
        compensated=build is fb.CBSCFD,
    )
    recipe = build(dimension=d, sketch_size=5, agents=M, radius=0.3)
    assert_same(recipe, world, expected, ROUNDS)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_sketch_that_sheds_nothing_is_fedlinucb(world: World) -> None:
    d = world.dimension
    whole = fb.simulate(fb.FedLinUCB(dimension=d, agents=M, radius=0.3), world, rounds=1500)
    sketch = fb.FSCLB(dimension=d, sketch_size=d + 1, agents=M, radius=0.3)
    trace = fb.simulate(sketch, world, rounds=1500)
    np.testing.assert_array_equal(trace.arm, whole.arm)
    np.testing.assert_array_equal(trace.uploaded, whole.uploaded)


@pytest.mark.parametrize("seed", range(3))
def test_one_agent_that_always_talks_is_linucb(seed: int) -> None:
    world = fb.worlds.Synthetic(dimension=12, arms=6, agents=1, seed=seed)
    talking = fb.FedLinUCB(dimension=12, agents=1, alpha=1e-12, radius=0.3)
    trace = fb.simulate(talking, world, rounds=1000)
    alone = fb.simulate(fb.LinUCB(dimension=12, radius=0.3), world, rounds=1000)
    assert trace.uploaded.all()
    np.testing.assert_array_equal(trace.arm, alone.arm)


def test_centralised_is_one_linucb_that_sees_everything() -> None:
    world = WORLDS["isotropic"]
    merged = [Round(0, *this[1:]) for this in world.rounds(ROUNDS)]
    expected = literal.linucb(merged, d=12, M=1, lam=1.0, beta=0.3)
    assert_same(fb.Centralised(dimension=12, agents=M, radius=0.3), world, expected, ROUNDS)
