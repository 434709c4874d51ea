"""What agents that join are told is made once of each state."""

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.models.downloads import Downloads
from fedbandit.service.models.model import Served, new_model

LEAN = fb.FSCLB.lean(dimension=4, agents=2)
ROUNDED = fb.FSCLB(dimension=4, sketch_size=3, agents=2, wire="int8", estimate="corrected")
FULL = fb.FSCLB(dimension=4, sketch_size=3, agents=2, estimate="corrected")


def served(recipe: fb.Recipe) -> Served:
    return Served(new_model("news", recipe)[0], recipe)


def learned(recipe: fb.Recipe) -> bytes:
    server, agent = recipe.server(), recipe.agent(0)
    agent.observe([0.3, 0.1, 0.0, 0.2], 1.0)
    server.receive(agent.collect())
    return wire.encode(server.whole())


def test_asking_again_makes_nothing_anew() -> None:
    downloads, model, state = Downloads(), served(LEAN), learned(LEAN)
    first, _ = downloads.of(model, state, b"", None, 2)
    assert first is not None
    assert downloads.of(model, state, b"", None, 2)[0] is first
    digest = wire.digest(first)
    assert downloads.of(model, state, b"", digest, 2) == (None, digest)
    assert downloads.of(model, state, b"", "0" * 64, 2)[0] is first


def test_another_state_another_estimate_and_another_model_are_told_as_they_are() -> None:
    downloads, model = Downloads(), served(LEAN)
    nothing = wire.encode(LEAN.server().whole())
    before, _ = downloads.of(model, nothing, b"", None, 2)
    after, _ = downloads.of(model, learned(LEAN), b"", None, 2)
    told, _ = downloads.of(model, learned(LEAN), bytes(8 * 4), None, 2)
    assert before is not None
    assert after is not None
    assert told is not None
    assert (before.statistics.count, after.statistics.count) == (0, 1)
    assert after.statistics.moment.any()
    assert not told.statistics.moment.any()


def test_a_model_made_anew_is_not_told_what_the_one_before_was() -> None:
    """Their states may have the same bytes, and agents want them in another format."""
    downloads, same = Downloads(), learned(FULL)
    full, _ = downloads.of(served(FULL), same, b"", None, 2)
    rounded, _ = downloads.of(served(ROUNDED), same, b"", None, 2)
    assert full is not None
    assert rounded is not None
    assert type(full.statistics.summary) is not type(rounded.statistics.summary)
