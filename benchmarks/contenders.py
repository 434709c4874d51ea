"""Who is compared: the paper's algorithm both ways, and FedLinUCB as published and at its best."""

import fedbandit as fb
from benchmarks.play import AGENTS

RADIUS = 0.3
SIZES = ((50, 20), (100, 40), (400, 40), (1000, 50), (4000, 50))
"""Dimension and sketch size, as in the design notes."""


def buffered(dimension: int, sketch_size: int) -> fb.Recipe:
    return fb.FSCLB(
        dimension=dimension,
        sketch_size=sketch_size,
        agents=AGENTS,
        radius=RADIUS,
        cadence="buffered",
    )


def paper(dimension: int, sketch_size: int) -> fb.Recipe:
    return fb.FSCLB(dimension=dimension, sketch_size=sketch_size, agents=AGENTS, radius=RADIUS)


def best_fedlinucb(dimension: int) -> fb.Recipe:
    return fb.FedLinUCB(dimension=dimension, agents=AGENTS, radius=RADIUS)


def everyone(dimension: int, sketch_size: int) -> dict[str, fb.Recipe]:
    """Every learner in its best form, under the name that tables show."""
    plain = {"dimension": dimension, "agents": AGENTS, "radius": RADIUS}
    names = ("AsyncLinUCB", "DisLinUCB", "LinUCB", "SOFUL", "CBSCFD")
    sketched = {"SOFUL", "CBSCFD"}
    return {
        "FSCLB, buffered": buffered(dimension, sketch_size),
        "FSCLB, paper": paper(dimension, sketch_size),
        "FedLinUCB": best_fedlinucb(dimension),
    } | {
        name: fb.RECIPES[name](
            **plain, **({"sketch_size": sketch_size} if name in sketched else {})
        )
        for name in names
    }
