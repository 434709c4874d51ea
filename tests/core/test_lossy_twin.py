"""``compensation="coordinates"`` against its dense twin, decision for decision."""

from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.core.memory.lossy.fitted import message_bytes
from fedbandit.core.memory.lossy.summary import LossyGram
from fedbandit.worlds import World
from tests.core import literal_lossy as twin
from tests.core.literal_worlds import M, shifting, synthetic

D = 12
WORLDS: dict[str, World] = {
    "isotropic": synthetic(seed=1),
    "power law": synthetic(seed=4, spectrum="power-law", decay=1.5),
    "long arms": synthetic(seed=5, norm=4.0),
    "shifting": shifting,
}
PLANS: dict[str, dict[str, Any]] = {
    "paper's estimate": {"estimate": "paper"},
    "corrected": {"estimate": "corrected"},
    "rounded": {"estimate": "corrected", "wire": "fitted"},
    "budget": {"estimate": "corrected", "wire": "fitted", "budget": message_bytes(D) + 80},
    "whole rows": {"estimate": "corrected", "rows": "whole"},
    "whole rows, budget": {
        "estimate": "corrected",
        "wire": "fitted",
        "budget": message_bytes(D) + 80,
        "rows": "whole",
    },
}


def pair(name: str) -> tuple[fb.Recipe, twin.Plan]:
    chosen = PLANS[name]
    budget = chosen.get("budget")
    size = 5 if budget is None else min((80 // (D + 1)), D) + 1
    recipe = fb.RECIPES["FSCLB"](
        dimension=D,
        sketch_size=size if budget is None else "auto",
        agents=M,
        radius=0.3,
        cadence="buffered",
        compensation="coordinates",
        **chosen,
    )
    plan = twin.Plan(
        d=D,
        most=size - 1,
        corrected=chosen["estimate"] == "corrected",
        rounds="wire" in chosen,
        room=None if budget is None else 80.0,
        whole=chosen.get("rows") == "whole",
    )
    return recipe, plan


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_decisions_and_uploads_are_the_twins(world: World, name: str) -> None:
    recipe, plan = pair(name)
    fleet, server = recipe.fleet(), recipe.server()
    twins, dense = [twin.TwinAgent(plan) for _ in range(M)], twin.TwinServer(plan)
    uploads = 0
    for t, (who, arms, _, rewards) in enumerate(world.rounds(300)):
        k = fleet[who].choose(arms)
        assert k == twins[who].choose(arms), f"round {t}"
        upload = fleet[who].observe(k, float(rewards[k]))
        parcel = twins[who].observe(arms[k], float(rewards[k]))
        assert (upload is None) == (parcel is None), f"round {t}"
        if upload is not None and parcel is not None:
            uploads += 1
            assert upload.statistics.cut == parcel.cut
            (answer,) = server.receive(upload)
            fleet[who].receive(answer.message)
            dense.merge(parcel)
            twins[who].receive(dense.download())
    assert uploads > 10
    held, loose = server.summary, 1e-6 * (1.0 + float(np.trace(dense.held.G)))
    assert isinstance(held, LossyGram)
    np.testing.assert_allclose(held.matrix, dense.held.G, atol=loose)
    np.testing.assert_allclose(held.bound, dense.held.c, atol=loose)
    assert held.lost == pytest.approx(dense.held.lost, abs=loose)
    np.testing.assert_allclose(server.moment, dense.held.b, atol=loose)
