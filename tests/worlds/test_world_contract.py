"""The contract of every world, on those that are shipped."""

import pytest

from fedbandit.testing import WorldContract, small_worlds
from fedbandit.worlds import Classification, Synthetic, World

WORLDS: dict[str, World] = {
    "power law": Synthetic(dimension=5, arms=3, agents=4, spectrum="power-law"),
    "satimage": Classification(data="satimage", agents=3),
    **small_worlds(dimension=4, agents=3),
}


class TestEveryWorld(WorldContract):
    @pytest.fixture(params=WORLDS)
    def world(self, request: pytest.FixtureRequest) -> World:
        return WORLDS[request.param]
