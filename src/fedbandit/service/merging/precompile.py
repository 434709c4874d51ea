"""Merging once before the first sync: kernels are compiled then, not in a transaction."""

import numpy as np

from fedbandit import wire
from fedbandit.core.algorithms.baselines import FedLinUCB
from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.messages import Upload
from fedbandit.core.statistics import Statistics
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.validation.upload import check_sync


def precompile() -> None:
    """Merge uploads of each kind as they come over the wire, and answer one who joins.

    They have rows enough for a sketch to shrink. Costs seconds where nothing was compiled on this
    machine before, else a fraction of one.
    """
    rows = np.eye(2, 4)
    for recipe, summary in (
        (FSCLB(dimension=4, sketch_size=3, agents=1), Sketch(rows, 0.0, 3)),
        (FedLinUCB(dimension=4, agents=1), Gram(rows.T @ rows)),
        (FSCLB.lean(dimension=4, agents=1), LossyRows(rows, np.zeros(4), 0.0)),
    ):
        server, served = recipe.server(), Served(new_model("warm-up", recipe)[0], recipe)
        upload = recipe.agent(0).packed(Upload(0, Statistics(summary, np.ones(4), 2)))
        sent = wire.encode_sync(wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
        for number in (1, 1, 2):
            syncs = [wire.decode_sync(sent) for _ in range(number)]
            for sync in syncs:
                check_sync(served, sync)
            merge(recipe, server, [sync.upload for sync in syncs])
        wire.encode(server_at(recipe, wire.encode(server.whole())).download())
