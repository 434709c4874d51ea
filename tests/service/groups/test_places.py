"""Who is in which group: each agent alone while there are groups for that, and for good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fedbandit.service.groups.membership import group_at, group_of, key_for
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.models.undo import forget_agent, set_groups
from fedbandit.service.storage.contract import Store
from tests.service.groups.fleet import AGENTS, RECIPES, honest, made, observed, send

RECIPE = RECIPES["lean"]


@given(
    created=st.floats(0.0, 1e10),
    groups=st.integers(5, 256),
    agents=st.integers(0, 600),
)
def test_no_group_has_two_agents_more_than_another(
    created: float, groups: int, agents: int
) -> None:
    sizes = [0] * groups
    for place in range(agents):
        sizes[group_of(created, groups, "phone", place)] += 1
    assert max(sizes) - min(sizes) <= 1


def test_nobody_can_tell_who_comes_to_whom() -> None:
    """Of those that come after all groups have one, each is with anybody, as models differ."""
    beside = {
        [group_of(created, 24, "", place) for place in range(24)].index(
            group_of(created, 24, "", 24)
        )
        for created in map(float, range(400))
    }
    assert len(beside) == 24


def places(store: Store) -> dict[str, int | None]:
    return {name: each.place for name, each in store.agents("news").items()}


def sums(store: Store, model: str = "news") -> set[tuple[int, int]]:
    with store.lock(model) as locked:
        return {group_at(key) for key in locked.past.groups()}


@pytest.mark.parametrize("together", [True, False])
def test_agents_that_come_one_by_one_or_in_batches_are_alone(
    together: bool, store_url: str
) -> None:
    store = made(store_url, RECIPE, groups=24)
    sent = honest(RECIPE)
    for some in [sent] if together else [[each] for each in sent]:
        send(store_url, RECIPE, some)
    assert sorted(each for each in places(store).values() if each is not None) == list(range(16))
    assert len(sums(store)) == 16
    store.close()


def test_an_agent_stays_where_it_is_whatever_becomes_of_the_others(store_url: str) -> None:
    """Forgotten agents, other groups, a restart, and the model in another store."""
    store = made(store_url, RECIPE, groups=24)
    send(store_url, RECIPE, honest(RECIPE))
    before = places(store)
    for act in (
        lambda locked: forget_agent(locked, AGENTS[3]),
        lambda locked: set_groups(locked, 12, watched=False),
        lambda locked: set_groups(locked, 24, watched=True),
    ):
        with store.lock("news") as locked:
            act(locked)
        assert places(store) == before
    assert len(sums(store)) == 15  # made anew from parts, each where its agent is
    send(store_url, RECIPE, [(AGENTS[3], observed(RECIPE, 7)), ("tablet", observed(RECIPE, 8))], 9)
    assert places(store) == before | {"tablet": 16}
    archive = read_archive(archive_bytes(store.archive("news")), name="shop")
    assert {name: each.place for name, each in archive.merged.items()} == places(store)
    store.close()


def test_who_had_sent_something_before_there_were_places_is_found_by_name(store_url: str) -> None:
    store = made(store_url, RECIPE, groups=24)
    sent = honest(RECIPE)
    send(store_url, RECIPE, sent[:8])
    with store.lock("news") as locked:
        old = locked.merged_uploads(AGENTS[:8])
        unplaced = {name: structs.replace(each, place=None) for name, each in old.items()}
        model = locked.model
        locked.write(
            state=locked.state(), version=model.version, count=model.count, merged=unplaced
        )
        set_groups(locked, 24, watched=False)  # sums from parts: where names say
    by_name = {group_at(key_for(0.5, 24, name)) for name in AGENTS[:8]}
    assert sums(store) == by_name
    send(store_url, RECIPE, sent[16:24], 2)
    assert sums(store) == by_name
    assert set(places(store).values()) == {None}
    store.close()
