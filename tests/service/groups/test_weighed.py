"""A coordinator weighs the groups of a model, in every store: told, restarted, taken out, moved."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.cli import main
from fedbandit.errors import DataError
from fedbandit.service.board.views import model_view
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.kept import KeptSums
from fedbandit.service.groups.membership import key_of
from fedbandit.service.groups.sums import sum_of, unpacked
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.metrics import measured
from fedbandit.service.models import undo
from fedbandit.service.models.archive import archive_bytes, read_archive
from fedbandit.service.models.model import new_model
from fedbandit.service.models.resorting import summed, sums_of_states
from fedbandit.service.relay.upstream import begin
from fedbandit.service.storage.opening import open_store
from fedbandit.service.storage.rows import read_rules, written_rules
from tests.service.groups.fleet import (
    AGENTS,
    GROUPS,
    LIAR,
    OFTEN,
    RECIPES,
    THETA,
    D,
    Fleet,
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
from tests.service.running import client_of, post


@each_kind
def test_an_honest_fleet_is_told_about_what_it_would_be_without_groups(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = made(store_url, recipe)
    send(store_url, recipe, honest(recipe))
    _, state = store.state("news")
    told_theta, plain = told(store_url, recipe).theta, server_at(recipe, state).theta
    assert np.linalg.norm(told_theta - plain) < 0.05
    assert not model_view(store, "news", "day")["doubted"]
    assert measured(store)["news"]["fedbandit_model_doubted"] == 0
    store.close()


@each_recipe
def test_a_liar_is_left_out_after_a_restart_too_until_it_is_forgotten(
    recipe: fb.Recipe, store_url: str
) -> None:
    store, sent = made(store_url, recipe), honest(recipe)
    send(store_url, recipe, sent)
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    send(store_url, recipe, [(AGENTS[0], observed(recipe, 7))], first=2000)  # another coordinator
    _, state = store.state("news")
    led = server_at(recipe, state).theta
    now = told(store_url, recipe).theta
    assert np.linalg.norm(led - fair) > 0.3
    assert np.linalg.norm(now - fair) < 0.15
    check_shown(store, LIAR)
    with store.lock("news") as locked:
        copy = read_archive(archive_bytes(store.archive("news")), name="copy")
        undo.forget_agent(locked, LIAR)
    store.install(copy)
    assert np.allclose(told(store_url, recipe, "copy").theta, now, atol=1e-6)
    assert not model_view(store, "news", "day")["doubted"]
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.05
    with store.lock("news") as locked:  # as it was before the lies
        undo.roll_back(locked, len(sent))
    assert np.allclose(told(store_url, recipe).theta, fair, atol=0.02)
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=3000)
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    store.close()


@given(seed=st.integers(0, 999), others=st.booleans())
@settings(max_examples=10)
def test_what_is_not_stored_is_little_of_what_honest_groups_sent(seed: int, others: bool) -> None:
    recipe, rng = RECIPES["lean"], np.random.default_rng(seed)
    groups, stored, written = WeighedGroups(recipe, clock=float), dict[int, bytes](), 0
    whole, sent = recipe.server(), list[tuple[int, fb.Statistics]]()
    groups.read(stored, 1000.0)
    if others:
        groups.read(stored, 1000.0)  # another coordinator has written meanwhile
    for turn in range(60):
        count = 40 if turn < 20 else int(rng.integers(1, 9))
        some = [(int(rng.integers(6)), observed(recipe, int(rng.integers(99)), count).statistics)]
        if rng.random() < 0.2:
            some = [(6, lie(recipe).statistics)]
        whole.receive(fb.Upload(0, some[0][1]))
        changed = groups.absorb(some, 1000.0)
        groups.told(whole)
        sent, stored, written = sent + some, stored | changed, written + len(changed)
        masses = {number: unpacked(data).mass for number, data in summed(recipe, sent).items()}
        median = float(np.median(list(masses.values())))
        for number, mass in masses.items():
            behind = mass - (unpacked(stored[number]).mass if number in stored else 0.0)
            assert behind <= 1e-4 if others else behind <= 0.1 * median + 1e-4
    assert written == 60 or not others
    little = [(0, observed(recipe, 1, 1).statistics)]  # the first may be one too many
    stored_each = [bool(groups.absorb(little, 1000.0)) for _ in range(2)]
    assert all(stored_each) == others


@pytest.mark.parametrize(("watched", "most"), [(False, 24), (True, 10)])
def test_looks_take_a_twentieth_of_the_time_or_a_fiftieth_and_are_never_in_debt_for_long(
    watched: bool, most: int
) -> None:
    """A clock on which what is told takes two seconds, and a look one more."""
    recipe, now, weighed = RECIPES["FedLinUCB"], 0.0, 0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    groups, whole = WeighedGroups(recipe, watched=watched, clock=clock), recipe.server()
    for number in range(8):
        upload = observed(recipe, number)
        whole.receive(upload)
        groups.absorb([(key_of(8, number), upload.statistics)], 0.0)
    groups.told(whole)
    for turn in range(200):
        upload = observed(recipe, turn)
        whole.receive(upload)
        groups.absorb([(key_of(8, turn % 8), upload.statistics)], 0.0)
        before = groups._at
        groups.told(whole)
        weighed += groups._at is not before
    assert most / 3 <= weighed <= most


@each_recipe
@pytest.mark.parametrize("watched", [True, False])
def test_a_liar_does_not_have_every_upload_of_others_stored(
    recipe: fb.Recipe, watched: bool
) -> None:
    fleet = Fleet(recipe, watched=watched, honest=36)
    for _ in range(6):
        fleet.send(20, lie(recipe))
    assert fleet.server.theta @ THETA < 0.0 < fleet.knows().theta @ THETA
    stored = [fleet.send(number % 12, observed(recipe, 200 + number, 2)) for number in range(24)]
    assert sum(map(bool, stored)) <= 4


@each_recipe
def test_an_agent_without_features_stops_nobody(recipe: fb.Recipe, store_url: str) -> None:
    store, nothing = made(store_url, recipe), recipe.agent(0)
    for _ in range(5):
        nothing.observe(np.zeros(D), 0.0)
    silent = nothing.receive(fb.Collect())
    assert isinstance(silent, fb.Upload)
    sent = honest(recipe)
    send(store_url, recipe, [sent[0], ("silent", fb.Upload(0, silent.statistics)), *sent[1:]])
    send(store_url, recipe, [("silent", fb.Upload(0, silent.statistics))], first=500)
    assert store.model("news").version == len(sent) + 2
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))], first=1000)
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    store.close()


@each_kind
def test_groups_that_are_set_later_find_liars_that_come_later(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = made(store_url, recipe, groups=0)
    send(store_url, recipe, honest(recipe)[:16])
    with store.lock("news") as locked:
        undo.set_groups(locked, GROUPS)
    send(store_url, recipe, honest(recipe)[16:], first=500)
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    with store.lock("news") as locked:
        assert locked.past.groups()
        undo.set_groups(locked, 0)
        assert not locked.past.groups()
    assert np.linalg.norm(told(store_url, recipe).theta - fair) > 0.3
    store.close()


@each_kind
def test_a_liar_stays_found_and_is_named_when_groups_are_set_anew_or_an_agent_is_forgotten(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = made(store_url, recipe, history=History(every=1e-9, keep=40))
    send(store_url, recipe, honest(recipe))
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    version = store.model("news").version

    def check() -> None:
        assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
        found = model_view(store, "news", "day")["doubted"]
        assert any(LIAR in each["agents"] for each in found)

    with store.lock("news") as locked:
        locked.past.take_snapshot(1.0)
        undo.set_groups(locked, 17)
    check()
    send(store_url, recipe, honest(recipe)[:16], first=2000)
    check()
    with store.lock("news") as locked:
        undo.set_history(locked, replace(OFTEN))  # parts are kept from now on
    send(store_url, recipe, honest(recipe)[16:20], first=3000)
    with store.lock("news") as locked:
        undo.forget_agent(locked, AGENTS[0])
    check()
    with store.lock("news") as locked:
        undo.roll_back(locked, version)  # to when there were other groups, and no parts
    check()
    send(store_url, recipe, honest(recipe)[:5], first=4000)
    with store.lock("news") as locked:
        undo.forget_agent(locked, AGENTS[1])
    check()
    store.close()


@each_kind
def test_groups_of_before_become_groups_that_are_weighed(recipe: fb.Recipe, store_url: str) -> None:
    store = open_store(store_url, create=True)
    history = History(every=1e-9, keep=40)
    store.create(*new_model("news", recipe, groups=GROUPS, history=history, weighed=False))
    sent = honest(recipe)
    send(store_url, recipe, sent)
    fair = told(store_url, recipe).theta
    send(store_url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    send(store_url, recipe, sent[:1], first=1500)
    with store.lock("news") as locked:
        undo.set_groups(locked, GROUPS)
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    check_shown(store, LIAR)
    with store.lock("news") as locked:
        undo.roll_back(locked, len(sent) + 3)  # a snapshot of groups that were not weighed
    assert np.linalg.norm(told(store_url, recipe).theta - fair) < 0.15
    store.close()


@each_kind
def test_what_changes_while_a_coordinator_runs_leaves_everything_in_one_sum(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = made(store_url, recipe, history=History(every=1e-9, keep=40))
    sent = honest(recipe)
    with client_of(store_url) as client:
        for number, (agent, upload) in enumerate(sent, start=1):
            if number in (2, 16, 18):  # by an operator, between two uploads
                with store.lock("news") as locked:
                    undo.set_groups(locked, 0)
                    undo.set_groups(locked, GROUPS)
            if number == 20:
                with store.lock("news") as locked:
                    undo.set_history(locked, OFTEN)
            sync = wire.Sync(wire.fingerprint(recipe), agent.encode().ljust(16), number, upload)
            post(client, sync, agent=agent)
    with store.lock("news") as locked:
        stored = sum(unpacked(each).count for each in locked.past.groups().values())
        assert stored <= locked.model.count
        undo.forget_agent(locked, AGENTS[0])
        stored = sum(unpacked(each).count for each in locked.past.groups().values())
        assert stored <= locked.model.count
    store.close()


@each_kind
def test_a_snapshot_of_groups_is_rolled_back_to_without_them(
    recipe: fb.Recipe, store_url: str
) -> None:
    store = made(store_url, recipe, history=History(every=1e-9, keep=40))
    sent = honest(recipe)
    send(store_url, recipe, sent[:8])
    with store.lock("news") as locked:
        undo.set_groups(locked, 0)
        undo.set_history(locked, OFTEN)
    send(store_url, recipe, sent[8:12], first=500)
    with store.lock("news") as locked:
        undo.roll_back(locked, 7)
    send(store_url, recipe, sent[8:9], first=600)
    with store.lock("news") as locked:
        undo.forget_agent(locked, AGENTS[8])
    assert store.model("news").count == 7 * 40
    store.close()


def test_a_state_of_many_features_is_a_sum_of_rows() -> None:
    recipe, rng = fb.FSCLB.lean(dimension=130, agents=20, alpha=1e9), np.random.default_rng(0)
    server, agent = recipe.server(), recipe.agent(0)
    for arm in rng.standard_normal((300, 130)):
        agent.observe(arm / 12.0, float(arm[0]))
    upload = agent.receive(fb.Collect())
    assert isinstance(upload, fb.Upload)
    server.receive(upload)
    groups = KeptSums(recipe.parts.memory)
    groups.read(sums_of_states(recipe, 1, {}, server))
    (key,) = groups.keys
    assert np.isclose(groups[key].total.mass, sum_of(recipe.parts.memory, server.statistics).mass)


def test_what_came_before_parts_is_not_lost_with_fewer_groups(store_url: str) -> None:
    """Parts of groups of before are named "/0", "/1", ..., whatever groups there are now."""
    recipe = RECIPES["FedLinUCB"]
    store = open_store(store_url, create=True)
    history = History(every=1e-9, keep=40)
    store.create(*new_model("news", recipe, groups=24, history=history, weighed=False))
    send(store_url, recipe, honest(recipe)[:4])
    with store.lock("news") as locked:
        undo.set_history(locked, OFTEN)
        undo.set_groups(locked, 0)
    send(store_url, recipe, honest(recipe)[4:6], first=500)
    with store.lock("news") as locked:
        undo.roll_back(locked, 3)
    send(store_url, recipe, honest(recipe)[4:5], first=600)
    with store.lock("news") as locked:
        undo.forget_agent(locked, AGENTS[4])
    assert store.model("news").count == 3 * 40
    store.close()


def test_a_relay_is_not_given_groups(tmp_path: object) -> None:
    store = open_store(f"sqlite:///{tmp_path}/relay.db", create=True)
    store.create(*new_model("news", RECIPES["lean"]))
    with store.lock("news") as locked:
        begin(locked)
        with pytest.raises(DataError, match="set groups there"):
            undo.set_groups(locked, GROUPS)
    store.close()


def test_show_names_whom_to_look_at(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, url = RECIPES["FedLinUCB"], f"sqlite:///{tmp_path}/s.db"
    store = made(url, recipe)
    send(url, recipe, honest(recipe))
    send(url, recipe, [(LIAR, lie(recipe))] * 3, first=1000)
    store.close()
    assert main(["model", "show", "news", "--store", url]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"groups: {GROUPS}; those that contradict the others count less" in said
    assert "contradicts the others, and less than 1 % of what it sent counts" in said
    assert LIAR in said.split("look at")[1]


def test_rules_of_before_have_groups_that_are_not_weighed() -> None:
    assert not read_rules('{"groups":5}', "news").weighed
    old, _ = new_model("news", RECIPES["lean"], groups=5, weighed=False)
    assert not read_rules(written_rules(old), "news").weighed
    assert read_rules(written_rules(replace(old, weighed=True)), "news").weighed
