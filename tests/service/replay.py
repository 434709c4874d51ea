"""What a coordinator must hold, worked out from what it told: uploads merged batch by batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.frequent_directions import shrink


def receive_together(server: fb.Server, uploads: Sequence[fb.Upload]) -> None:
    """Merge uploads that waited together: sketches stacked and shrunk once, all else in order."""
    summary, version = server.summary, server.version
    for upload in uploads:
        server.receive(upload)
    if len(uploads) > 1 and isinstance(summary, fb.Sketch):
        others = [each.summary for each in uploads]
        sketches = [summary, *(each for each in others if isinstance(each, fb.Sketch))]
        rows, delta = shrink(np.vstack([each.rows for each in sketches]), summary.size)
        shed = sum(each.shed for each in sketches) + delta
        merged = replace(server.statistics, summary=fb.Sketch(rows, shed, summary.size))
        server.adopt(merged, version=server.version)
    assert server.version == version + len(uploads)


def replayed(recipe: fb.Recipe, order: Sequence[fb.Upload], told: Mapping[int, bytes]) -> fb.Server:
    """Return the server after all uploads, and find every state that was told on the way.

    ``told`` are encoded downloads by version, the last one among them. A batch ends where a state
    was told; between two of these, ends that nobody was told of are searched for.
    """
    server = recipe.server()
    assert max(told, default=0) == len(order)
    for start, end in pairwise(sorted({0, *told})):
        server = next(
            reached
            for cuts in _cuts(start, end)
            if wire.encode((reached := _after(recipe, server, order, cuts)).download()) == told[end]
        )
    return server


def _cuts(start: int, end: int) -> Iterator[list[int]]:
    """Return all ways to cut a run of versions into batches, those with few cuts first."""
    for number in range(end - start):
        for inner in combinations(range(start + 1, end), number):
            yield [start, *inner, end]


def _after(
    recipe: fb.Recipe, server: fb.Server, order: Sequence[fb.Upload], cuts: Sequence[int]
) -> fb.Server:
    reached = fb.Server.restore(recipe, server.state())
    for one, other in pairwise(cuts):
        receive_together(reached, order[one:other])
    return reached
