"""Every recipe, in every form that is tested for what all of them have to do."""

from collections.abc import Callable

import pytest

import fedbandit as fb

D, M = 6, 3
BUILDS: dict[str, Callable[[], fb.Recipe]] = {
    "FSCLB": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M),
    "FSCLB, buffered": lambda: fb.FSCLB(
        dimension=D, sketch_size=3, agents=M, cadence="buffered", buffer=8, alpha=9.0
    ),
    "FSCLB, paper": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "FSCLB, tight": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M, radius="tight"),
    "FSCLB, auto": lambda: fb.FSCLB(dimension=D, sketch_size=3, agents=M, radius="auto"),
    "FSCLB, coordinates": lambda: fb.FSCLB(
        dimension=D, sketch_size=3, agents=M, compensation="coordinates"
    ),
    "FSCLB.lean": lambda: fb.FSCLB.lean(dimension=D, agents=M),
    "FSCLB.lean, small": lambda: fb.FSCLB.lean(
        dimension=D, agents=M, sketch_size=3, radius="tight"
    ),
    "FSCLB, thompson": lambda: fb.FSCLB(
        dimension=D,
        sketch_size=3,
        agents=M,
        choice=fb.Thompson(0.5, seed=2),
        features=fb.Features({"price": "0..2000", "kind": ["a", "b"]}, id=True),
    ),
    "FSCLB.lean, mixed": lambda: fb.FSCLB.lean(
        dimension=D, agents=M, choice=fb.Mixed(0.2, over="thompson")
    ),
    "FedLinUCB": lambda: fb.FedLinUCB(dimension=D, agents=M),
    "FedLinUCB, auto": lambda: fb.FedLinUCB(dimension=D, agents=M, radius="auto"),
    "FedLinUCB, published": lambda: fb.FedLinUCB(
        dimension=D, agents=M, determinant="every-round", radius="paper"
    ),
    "FedLinUCB, rank-one": lambda: fb.FedLinUCB(dimension=D, agents=M, determinant="rank-one"),
    "FedLinUCB, triangle": lambda: fb.FedLinUCB(dimension=D, agents=M, wire="float64"),
    "FedLinUCB, float32": lambda: fb.FedLinUCB(dimension=D, agents=M, wire="float32"),
    "FedLinUCB, float16": lambda: fb.FedLinUCB(
        dimension=D, agents=M, wire="float16", determinant="rank-one"
    ),
    "FedLinUCB, int8": lambda: fb.FedLinUCB(dimension=D, agents=M, wire="int8", radius="paper"),
    "AsyncLinUCB": lambda: fb.AsyncLinUCB(dimension=D, agents=M, radius="paper"),
    "DisLinUCB": lambda: fb.DisLinUCB(dimension=D, agents=M, wait=3.0),
    "LinUCB": lambda: fb.LinUCB(dimension=D, agents=M, radius="paper"),
    "Centralised": lambda: fb.Centralised(dimension=D, agents=M),
    "SOFUL": lambda: fb.SOFUL(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "CBSCFD": lambda: fb.CBSCFD(dimension=D, sketch_size=3, agents=M, radius="paper"),
    "Random": lambda: fb.Random(dimension=D, agents=M, seed=4),
}
every_recipe = pytest.mark.parametrize("recipe", [b() for b in BUILDS.values()], ids=BUILDS)
