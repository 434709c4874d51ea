"""Whose bytes are passed on next: laws of the order, whatever others hold."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandit.web.watched import Slices


@dataclass(eq=False)
class Holder:
    """Holds so many slices of an address; ``passed`` is told of each."""

    address: str
    slices: int
    passed: Callable[["Holder"], None]
    rank: int = 0
    expected: bool = False
    fails: bool = field(default=False)

    def pass_on(self) -> bool:
        self.slices -= 1
        self.passed(self)
        if self.fails:
            raise RuntimeError
        return self.slices > 0


def _order(given: list[tuple[str, int, int]], then: Callable[[Slices, int], None]) -> list[str]:
    """Return whose slices were passed on, one after the other; ``then`` is called after each."""
    order: list[str] = []

    async def run() -> None:
        slices = Slices()

        def passed(holder: Holder) -> None:
            order.append(holder.address)
            then(slices, len(order))

        holders = [Holder(address, number, passed, rank) for address, number, rank in given]
        for each in holders:
            slices.add(each, each.address)
        while any(each.slices for each in holders):
            await asyncio.sleep(0)

    asyncio.run(run())
    return order


@settings(max_examples=50, deadline=None)
@given(
    others=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 4), st.integers(0, 2))),
    mine=st.integers(1, 3),
)
def test_each_slice_waits_for_one_of_every_other_address_at_most(
    others: list[tuple[str, int, int]], mine: int
) -> None:
    order = _order([*others, ("mine", mine, 0)], lambda *_: None)
    assert len(order) == sum(number for _, number, _ in others) + mine
    places = [place for place, address in enumerate(order) if address == "mine"]
    gaps = [b - a - 1 for a, b in zip([-1, *places], places, strict=False)]
    assert max(gaps) <= len({address for address, _, rank in others if not rank})


def test_an_expected_one_waits_for_one_other_slice_at_most() -> None:
    async def run() -> list[str]:
        order, slices = list[str](), Slices()
        for number in range(20):
            name = f"stranger {number}"
            slices.add(Holder(name, 5, lambda each: order.append(each.address)), name)
        mine = Holder("mine", 3, lambda each: order.append(each.address), expected=True)
        slices.add(mine, "mine")
        while len(order) < 103:
            await asyncio.sleep(0)
        return order

    order = asyncio.run(run())
    assert order[:6].count("mine") == 3


def test_those_that_come_anew_do_not_keep_others_waiting_for_ever() -> None:
    """Each slice that is passed on brings another address, as a flood does."""

    def more(slices: Slices, number: int) -> None:
        address = f"new {number}"
        slices.add(Holder(address, 1, lambda _: more(slices, number + 1)), address)

    order = _order([("flood", 1, 0), ("mine", 3, 0)], more)
    assert [address for address in order if address == "mine"] == ["mine"] * 3


def test_one_that_fails_stops_no_other() -> None:
    order: list[str] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        slices = Slices()
        for name, fails in (("bad", True), ("good", False)):
            slices.add(Holder(name, 1, lambda each: order.append(each.address), fails=fails), name)
        while "good" not in order:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert order == ["bad", "good"]
