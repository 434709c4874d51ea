"""What agents that join are told is made once of each state."""

from hashlib import sha256

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.models.downloads import Downloads, Made
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


def of(downloads: Downloads, model: Served, state: bytes, told: bytes = b"") -> Made:
    """What is told of a state, by whose digest it is asked for; told what is not of it, with it."""
    return downloads.of(model, sha256(state).digest(), lambda: (state, told))


def test_asking_again_makes_and_reads_nothing_anew() -> None:
    downloads, model, state = Downloads(), served(LEAN), learned(LEAN)
    made = of(downloads, model, state)
    assert of(downloads, model, state) is made

    def read() -> tuple[bytes, bytes]:
        raise AssertionError("it is known")

    assert downloads.of(model, sha256(state).digest(), read) is made
    assert made.digests[2] == wire.digest(made.download)
    assert made.encoded[2] == wire.encode(made.download)


def test_another_state_another_estimate_and_another_model_are_told_as_they_are() -> None:
    downloads, model = Downloads(), served(LEAN)
    nothing, something = wire.encode(LEAN.server().whole()), learned(LEAN)
    before, after = of(downloads, model, nothing).download, of(downloads, model, something).download
    told = of(Downloads(), model, something, bytes(8 * 4)).download
    assert (before.statistics.count, after.statistics.count) == (0, 1)
    assert after.statistics.moment.any()
    assert not told.statistics.moment.any()


def test_a_state_that_is_written_while_one_asks_is_not_taken_for_the_one_before() -> None:
    downloads, model = Downloads(), served(LEAN)
    nothing, something = wire.encode(LEAN.server().whole()), learned(LEAN)
    later = downloads.of(model, sha256(nothing).digest(), lambda: (something, b""))
    assert later.download.statistics.count == 1
    assert of(downloads, model, something) is later
    assert of(downloads, model, nothing).download.statistics.count == 0


def test_a_model_made_anew_is_not_told_what_the_one_before_was() -> None:
    """Their states may have the same bytes, and agents want them in another format."""
    downloads, same = Downloads(), learned(FULL)
    full = of(downloads, served(FULL), same).download
    rounded = of(downloads, served(ROUNDED), same).download
    assert type(full.statistics.summary) is not type(rounded.statistics.summary)
