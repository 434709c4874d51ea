"""Merging once before anybody waits: what is compiled is compiled then, not in a transaction."""

import numpy as np

from fedbandit import wire
from fedbandit.core.messages import Upload
from fedbandit.core.recipes import FSCLB, FedLinUCB
from fedbandit.core.summary import Gram, Sketch
from fedbandit.service.merging import merge


def merge_once() -> None:
    """Merge uploads of each kind as they come over the wire; enough rows for a sketch to shrink.

    Costs seconds where nothing was compiled on this machine before, else a fraction of one.
    """
    rows = np.eye(2, 4)
    for recipe, summary in (
        (FSCLB(dimension=4, sketch_size=3, agents=1), Sketch(rows, 0.0, 3)),
        (FedLinUCB(dimension=4, agents=1), Gram(rows.T @ rows)),
    ):
        server, sent = recipe.server(), wire.encode(Upload(0, summary, np.zeros(4), 2))
        for number in (1, 1, 2):
            uploads = [wire.decode(sent) for _ in range(number)]
            merge(recipe, server, [each for each in uploads if isinstance(each, Upload)])
