"""A sketch size that chooses itself: within its budget, and known to both sides."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.lossy.summary import LossyGram
from fedbandit.core.memory.narrow import WIDTHS, Width
from fedbandit.core.memory.sizing import Sizing, largest_size, lean_budget
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.statistics import Base
from fedbandit.errors import InvalidParameter

D, M = 16, 3
REWARDS = 33  # bytes of their sums, at most
World = fb.worlds.Synthetic
every_width = pytest.mark.parametrize("width", WIDTHS)


def sketch(squares: list[float], *, size: int, shed: float, lost: float = 0.0) -> Sketch:
    rows = np.eye(8)[: len(squares)] * np.sqrt(np.array(squares))[:, None]
    return Sketch(rows, shed, size, lost)


@given(
    squares=st.lists(st.floats(1e-6, 1e6), max_size=8),
    spare=st.integers(1, 4),
    most=st.integers(2, 9),
    shed=st.floats(0.0, 1e6),
    lost=st.floats(0.0, 1e6),
    ridge=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_it_is_the_smallest_size_that_sheds_no_more_than_is_allowed(
    squares: list[float], spare: int, most: int, shed: float, lost: float, ridge: float
) -> None:
    held = sketch(squares, size=max(2, most, len(squares) + spare), shed=shed, lost=lost)
    size = Sizing(most=most, tolerance=0.5).size(held, ridge)
    allowed = ridge + 0.5 * (held.squares.sum() + lost) / 8
    assert 2 <= size <= most
    if size < most:
        assert held.resized(size).shed <= allowed * (1 + 1e-12)
    if 2 < size <= len(squares):
        assert held.resized(size - 1).shed > allowed * (1 - 1e-12)


def play(
    recipe: fb.Recipe, world: World, rounds: int
) -> Iterator[tuple[fb.Server, fb.Upload, fb.Download]]:
    """Yield whatever is said, as it was after going through bytes."""
    fleet, server = recipe.fleet(), recipe.server()
    for who, arms, _, rewards in world.rounds(rounds):
        k = fleet[who].choose(arms)
        upload = fleet[who].observe(k, float(rewards[k]))
        if upload is not None:
            read = wire.decode(wire.encode(upload))
            assert isinstance(read, fb.Upload)
            (answer,) = server.receive(read)
            message = wire.decode(wire.encode(answer.message))
            assert isinstance(message, fb.Download)
            fleet[who].receive(message)
            yield server, read, message


def size_of(message: fb.Upload | fb.Download) -> int:
    return int(message.summary.size)  # type: ignore[attr-defined]


@every_width
def test_no_message_exceeds_its_budget(width: Width) -> None:
    number = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}[width]
    budget = 96 + 8 * D + 5 * (number * D + 4) + 3
    recipe = fb.FSCLB(
        dimension=D, sketch_size="auto", agents=M, budget=budget, wire=width, estimate="averaged"
    )
    sizes = []
    for server, upload, download in play(recipe, World(dimension=D, arms=6, agents=M), 600):
        for message in (upload, download):
            assert len(wire.encode(message)) <= budget + REWARDS
            assert 2 <= size_of(message) <= recipe.parts.memory.empty().summary.size
        assert size_of(download) <= server.summary.size
        sizes.append(size_of(download))
    assert len(sizes) > 20
    assert max(sizes) >= 5


def least_budget(d: int, width: str) -> int:
    """Return what the error says that one row needs."""
    with pytest.raises(InvalidParameter) as caught:
        largest_size(1, dimension=d, width=width)
    return int(str(caught.value).split("at least ")[1].split(" ")[0])


@every_width
@pytest.mark.parametrize("d", [1, 2, 15, 16, 255, 256, 70_000])
def test_the_largest_message_just_fits(d: int, width: Width) -> None:
    """With counts and versions as long as four bytes can say."""
    number = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}[width]
    row = number * d + (0 if width == "float64" else 4)
    budget = least_budget(d, width) + min(2, d - 1) * row
    size = largest_size(budget, dimension=d, width=width)
    assert size == min(3, d) + 1
    recipe = fb.FSCLB(dimension=d, sketch_size="auto", agents=1, budget=budget, wire=width)
    rows = np.zeros((size - 1, d))
    rows[np.arange(size - 1), np.arange(size - 1)] = np.arange(1.0, size)
    full = Sketch(rows, 0.1, size, 0.1)
    largest = 2**32 - 1
    observed = fb.Statistics(full, np.full(d, 0.1), largest)
    memory = recipe.parts.memory
    sent = memory.uploaded(observed, Base(memory.empty(), memory))
    for message in (
        fb.Upload(largest, sent),
        fb.Download(sent, largest),
    ):
        assert len(wire.encode(message)) <= budget
        assert len(wire.encode(message)) > budget - 40
    paid = replace(sent, rewards=fb.Rewards(largest, 0.1, 0.1))
    assert len(wire.encode(fb.Upload(largest, paid))) <= budget + REWARDS


@pytest.mark.parametrize("d", [1, 2, 5, 50, 400])
def test_the_lean_budget_has_room(d: int) -> None:
    recipe = fb.FSCLB.lean(dimension=d, agents=2)
    assert recipe.params["budget"] == lean_budget(d)
    assert 2 <= largest_size(lean_budget(d), dimension=d, width="fitted") <= d + 1


def downloads_on(**spectrum: Any) -> list[fb.Download]:
    recipe = fb.FSCLB(dimension=D, sketch_size="auto", agents=M, alpha=0.5, estimate="corrected")
    world = World(dimension=D, arms=6, agents=M, seed=2, **spectrum)
    return [download for _, _, download in play(recipe, world, 1000)]


def rows_of(message: fb.Download) -> int:
    assert isinstance(message.summary, Sketch)
    return len(message.summary.rows)


def test_it_grows_under_heavy_tails() -> None:
    """While little has been seen few rows do; then every direction turns out to matter."""
    sizes = [size_of(each) for each in downloads_on()]
    assert sizes[0] == 2
    assert sizes[-1] == D + 1


@pytest.mark.parametrize(
    ("spectrum", "most"),
    [({"spectrum": "low-rank", "rank": 2}, 2), ({"spectrum": "power-law", "decay": 3.0}, 8)],
)
def test_it_stays_small_under_light_tails(spectrum: dict[str, Any], most: int) -> None:
    """A rank of two needs two rows."""
    assert max(rows_of(each) for each in downloads_on(**spectrum)[20:]) <= most


def test_an_upload_has_the_size_that_the_agent_was_told() -> None:
    recipe = fb.FSCLB(dimension=D, sketch_size="auto", agents=1, estimate="corrected")
    told = [D + 1]
    for _, upload, download in play(recipe, World(dimension=D, arms=6, agents=1), 300):
        assert size_of(upload) == told[-1]
        told.append(size_of(download))
    assert len(set(told)) > 3


LEAN: dict[str, Callable[[], fb.Recipe]] = {
    "lean": lambda: fb.FSCLB.lean(dimension=D, agents=M),
    "paper's cadence": lambda: fb.FSCLB(
        dimension=D, sketch_size="auto", agents=M, wire="float16", estimate="corrected"
    ),
    "fixed": lambda: fb.FSCLB(
        dimension=D, sketch_size=5, agents=M, wire="bfloat16", estimate="averaged"
    ),
}


@pytest.mark.parametrize("build", LEAN.values(), ids=LEAN)
@settings(max_examples=8)
@given(cut=st.integers(0, 250), seed=st.integers(0, 5))
def test_saved_and_restored_it_goes_on_bit_for_bit(
    build: Callable[[], fb.Recipe], cut: int, seed: int
) -> None:
    recipe, world = build(), World(dimension=D, arms=6, agents=M, seed=seed)
    fleet, server = recipe.fleet(), recipe.server()
    again, other = recipe.fleet(), recipe.server()
    for t, (who, arms, _, rewards) in enumerate(world.rounds(300)):
        if t == cut:
            again = [fb.Agent.restore(recipe, agent.state()) for agent in fleet]
            other = fb.Server.restore(recipe, server.state())
        said = []
        for agents, home in ((fleet, server), (again, other)):
            k = agents[who].choose(arms)
            upload = agents[who].observe(k, float(rewards[k]))
            data = b"" if upload is None else wire.encode(upload)
            if upload is not None:
                (answer,) = home.receive(upload)
                agents[who].receive(answer.message)
                data += wire.encode(answer.message)
            said.append((k, data))
        assert said[0] == said[1]
    np.testing.assert_array_equal(server.moment, other.moment)


def test_what_the_server_holds_is_whole_and_what_it_sends_is_rounded() -> None:
    recipe = fb.FSCLB.lean(dimension=D, agents=M)
    for server, _, download in play(recipe, World(dimension=D, arms=6, agents=M), 200):
        whole = server.whole()
        assert whole.statistics is server.statistics
        assert whole.moment.tobytes() == server.moment.tobytes()
        assert (whole.count, whole.version) == (download.count, download.version)
        again = wire.decode(wire.encode(whole))
        assert isinstance(again, fb.Download)
        recipe.parts.memory.check(again.statistics)
        summary: Any = again.statistics.summary
        assert type(summary) is LossyGram
        assert summary.matrix.tobytes() == server.summary.matrix.tobytes()
        assert summary.bound.tobytes() == server.summary.bound.tobytes()
        assert (summary.lost, summary.weight) == (server.summary.lost, server.summary.weight)


@every_width
def test_a_budget_too_small_says_what_is_needed(width: Width) -> None:
    least = least_budget(7, width)
    assert largest_size(least, dimension=7, width=width) == 2
    with pytest.raises(InvalidParameter, match=f"at least {least} bytes"):
        largest_size(least - 1, dimension=7, width=width)
