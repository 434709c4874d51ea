"""Tests to run on a store, a transport, a recipe or a world of your own; needs pytest.

A contract is a class of tests. Subclass it in a test module, under a name that pytest collects, and
give the fixture that its docstring names::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "store")

``coordinator`` serves a model for as long as a block runs. ``small_worlds`` returns worlds that ask
more of a recipe than an ordinary one does.
"""

from fedbandit.errors import missing_extra

try:
    import pytest

    pytest.register_assert_rewrite(  # so that failures show what was compared
        "fedbandit.testing.fleet",
        "fedbandit.testing.past_contract",
        "fedbandit.testing.progress_contract",
        "fedbandit.testing.recipe_contract",
        "fedbandit.testing.store_contract",
        "fedbandit.testing.token_contract",
        "fedbandit.testing.transport_contract",
        "fedbandit.testing.world_contract",
    )
    from fedbandit.testing.coordinators import RunningCoordinator, coordinator
    from fedbandit.testing.fleet import Fleet, assert_same_state
    from fedbandit.testing.recipe_contract import RecipeContract
    from fedbandit.testing.small_worlds import ChangingArms, ReusedArrays, TiedArms, small_worlds
    from fedbandit.testing.store_contract import OpenStore, StoreContract
    from fedbandit.testing.transport_contract import OpenTransport, TransportContract
    from fedbandit.testing.world_contract import WorldContract, same_rounds
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] == "fedbandit":
        raise
    raise missing_extra(str(missing.name), "testing", "fedbandit.testing") from missing

__all__ = [
    "ChangingArms",
    "Fleet",
    "OpenStore",
    "OpenTransport",
    "RecipeContract",
    "ReusedArrays",
    "RunningCoordinator",
    "StoreContract",
    "TiedArms",
    "TransportContract",
    "WorldContract",
    "assert_same_state",
    "coordinator",
    "same_rounds",
    "small_worlds",
]
