"""Uploads as honest agents send them, made from a seed."""

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.summary import sketch_of

RECIPE = fb.FSCLB(dimension=4, sketch_size=3, agents=2)
GRAM = fb.FedLinUCB(dimension=3, agents=2)
TRIANGLE = fb.FedLinUCB(dimension=3, agents=2, wire="int8")


def upload_for(recipe: fb.Recipe, seed: int, *, count: int = 6) -> fb.Upload:
    """Return an upload of ``count`` observations."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((count, recipe.dimension))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    moment = rng.uniform(-1, 1, count) @ arms
    empty = recipe.parts.memory.empty().summary
    summary: fb.Sketch | fb.Gram
    if isinstance(empty, fb.Sketch):
        summary = sketch_of(arms, shed=0.0, size=empty.size)
    else:
        matrix = arms.T @ arms
        summary = fb.Gram((matrix + matrix.T) / 2)
    return recipe.agent(0).packed(fb.Upload(0, fb.Statistics(summary, moment, count)))


def sync_for(
    recipe: fb.Recipe, seed: int, *, life: int = 0, sequence: int = 1, born: int = 0
) -> wire.Sync:
    """Return the envelope of one upload of a life that is named by a number."""
    name = life.to_bytes(16)
    return wire.Sync(wire.fingerprint(recipe), name, sequence, upload_for(recipe, seed), born)


def merged(recipe: fb.Recipe, uploads: list[fb.Upload]) -> fb.Server:
    """Return the server of the core that was given the uploads in this order."""
    server = recipe.server()
    for upload in uploads:
        server.receive(upload)
    return server


def same(download: fb.Download, server: fb.Server) -> bool:
    """Say whether a download is what a server would send, to the last bit."""
    return wire.encode(download) == wire.encode(server.download())
