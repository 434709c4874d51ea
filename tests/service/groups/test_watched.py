"""Groups that are watched: honest fleets are told what all sent, and who stands out is left out."""

from dataclasses import replace

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidParameter
from fedbandit.service.board.views import model_view
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.membership import WATCHED_FROM
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.batch import StoreMerger
from fedbandit.service.merging.sync import ModelRef, SyncRequest
from fedbandit.service.models import undo
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.refusal import Refusal
from fedbandit.service.relay.upstream import begin
from fedbandit.service.storage.contract import Store
from tests.service.groups.fleet import (
    AGENTS,
    GROUPS,
    LIAR,
    RECIPES,
    THETA,
    check_shown,
    each_kind,
    each_recipe,
    honest,
    lie,
    made,
    observed,
    send,
    told,
)
from tests.service.running import BODY, client_of, sync_path

LOG = "warm-0123456789ab"


def watched(url: str, recipe: fb.Recipe) -> Store:
    return made(url, recipe, watched=True)


def own_theta(store: Store, recipe: fb.Recipe) -> Array:
    """The estimate from everything, as an agent has it that is told the whole as it is."""
    agent = recipe.agent(0)
    agent.receive(server_at(recipe, store.state("news")[1]).download())
    return agent.theta


def check_as_all_say(store: Store, recipe: fb.Recipe, url: str) -> None:
    """What is told is the estimate from everything, to a twentieth of its length."""
    away = told(url, recipe).theta - own_theta(store, recipe)
    assert np.linalg.norm(away) < 0.05 * np.linalg.norm(THETA)


@each_recipe
def test_an_honest_fleet_is_told_what_all_have_sent(recipe: fb.Recipe, store_url: str) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    check_as_all_say(store, recipe, store_url)
    if recipe is not RECIPES["FSCLB"]:  # a sketch has lost what groups have kept
        assert len(store.model("news").told) == 8 * recipe.dimension  # V is as it is
    store.close()


@each_recipe
def test_a_liar_is_left_out_and_named_until_it_is_taken_out(
    recipe: fb.Recipe, store_url: str
) -> None:
    store, sent = watched(store_url, recipe), honest(recipe)
    send(store_url, recipe, sent)
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    assert np.linalg.norm(own_theta(store, recipe) - fair) > 0.3
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    check_shown(store, LIAR)
    send(store_url, recipe, [(AGENTS[0], observed(recipe, 7))], first=2000)  # another coordinator
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    copy = read_archive(archive_bytes(store.archive("news")), name="copy")
    assert (copy.model.watched, copy.model.told) == (True, store.model("news").told)
    with store.lock("news") as locked:
        undo.forget_agent(locked, LIAR)
    check_as_all_say(store, recipe, store_url)
    store.close()


@each_kind
def test_few_agents_are_told_the_whole_whatever_they_send(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, [(agent, observed(recipe, 1)) for agent in AGENTS[:6]])
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    assert store.model("news").told == b""
    groups, (model, state) = WeighedGroups(recipe, watched=True), store.state("news")
    assert not groups.standing_out(server_at(recipe, state))
    groups.read(store.groups("news"))
    assert not groups.standing_out(server_at(recipe, state))
    with store.lock("news") as locked:  # a sum of before beside each: still as few
        undo.set_history(locked, replace(model.history, by_agent=False))
    with store.lock("news") as locked:
        undo.set_history(locked, model.history)
    send(store_url, recipe, [(agent, observed(recipe, 2)) for agent in AGENTS[:6]], first=2000)
    send(store_url, recipe, [(LIAR, lie(recipe))], first=3000)
    assert len(store.groups("news")) >= WATCHED_FROM
    assert store.model("news").told == b""
    store.close()


@each_kind
def test_groups_that_were_watched_are_weighed_once_that_is_asked_for(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    for watching in (False, True):
        with store.lock("news") as locked:
            undo.set_groups(locked, GROUPS, watched=watching)
        model = store.model("news")
        assert (model.weighed, model.watched) == (True, watching)
        check_as_all_say(store, recipe, store_url)
    store.close()


@each_kind
def test_a_running_coordinator_takes_up_what_is_asked_for(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    with client_of(store_url) as client:
        for number, groups in enumerate((GROUPS, 0, GROUPS), start=1):
            with store.lock("news") as locked:
                undo.set_groups(locked, groups, watched=groups > 0)
            sync = wire.Sync(wire.fingerprint(recipe), bytes(16), number, observed(recipe, number))
            asked = [
                client.post(
                    sync_path(agent=AGENTS[1]), content=wire.encode_sync(sync), headers=BODY
                )
                for _ in range(2)  # the first finds that the model was changed
            ]
            assert asked[-1].status_code == 200
            assert (store.model("news").told == b"") == (groups == 0)
    store.close()


@each_kind
def test_a_rollback_takes_a_liar_out_and_goes_on_watching(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    version = store.model("news").version
    for first in (1000, 2000):
        send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=first)
        assert store.model("news").told
        with store.lock("news") as locked:
            undo.roll_back(locked, version)
        assert store.model("news").watched
        check_as_all_say(store, recipe, store_url)
    store.close()


def test_a_relay_passes_on_a_model_whose_groups_nobody_asked_for(store_url: str) -> None:
    store = watched(store_url, RECIPES["lean"])
    with store.lock("news") as locked:
        begin(locked)
    assert not store.model("news").groups
    store.close()


@each_recipe
def test_a_log_that_was_merged_counts_in_full_whatever_its_mass(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = watched(store_url, recipe)
    model = store.model("news")
    merger, ref = StoreMerger(store), ModelRef("news", model.incarnation)
    for number in range(1, 41):
        sync = wire.Sync(model.fingerprint, bytes(16), number, observed(recipe, 99 + number))
        (outcome,) = merger.merge(ref, [SyncRequest(LOG, wire.encode_sync(sync))])
        assert not isinstance(outcome, Refusal)
    send(store_url, recipe, honest(recipe), first=1000)
    with store.lock("news") as locked:
        undo.forget_agent(locked, AGENTS[0])  # all sums are made anew
    check_as_all_say(store, recipe, store_url)
    send(store_url, recipe, [(LIAR, lie(recipe))] * 9, first=2000)
    assert LOG not in str(model_view(store, "news", "day")["doubted"])
    assert LIAR in str(model_view(store, "news", "day")["doubted"])
    store.close()


def test_no_agent_has_the_name_of_a_log(store_url: str) -> None:
    recipe = RECIPES["lean"]
    store = watched(store_url, recipe)
    with client_of(store_url) as client:
        sync = wire.Sync(wire.fingerprint(recipe), bytes(16), 1, observed(recipe, 1))
        answer = client.post(sync_path(agent=LOG), content=wire.encode_sync(sync), headers=BODY)
    assert (answer.status_code, store.model("news").version) == (422, 0)
    with pytest.raises(InvalidParameter, match="no log"):
        fb.connect("http://127.0.0.1:9", model="news", agent=LOG)
    store.close()
