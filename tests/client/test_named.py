"""A connected agent decides among named actions, by the encoding that its model has."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import fedbandit as fb
from fedbandit.errors import InvalidParameter, SettledDecision, UnknownDecision
from fedbandit.features import Encoder
from fedbandit.testing import coordinator
from tests.client.twin import Twin, joined_to
from tests.edge.sidecar import sidecar

D = 32
SHOP = fb.Features({"price": "0..2000"}, id=True)
RECIPE = fb.FSCLB(dimension=D, sketch_size=20, agents=3, alpha=1e9, features=SHOP)
ACTIONS: list[dict[str, Any]] = [
    {"id": "tent", "price": 400, "kind": "sport"},
    {"id": "boat", "price": 1800, "kind": "sport"},
    {"id": "book", "price": 12, "kind": "home"},
]
CONTEXT = {"user": {"age": 0.3, "lang": "de"}}


def test_the_encoding_comes_with_the_model_and_sidecar_and_python_agree() -> None:
    with coordinator(RECIPE) as running, running.connect("a") as agent:
        assert agent.recipe.parts.features == SHOP
        for action in ACTIONS:
            agent.reward(agent.decide(context=CONTEXT, actions=[action]).id, action["price"] / 2000)
        decision = agent.decide(context=CONTEXT, actions=ACTIONS)
        assert decision.action == ACTIONS[decision.index]["id"]
        arms = Encoder(SHOP, D).encode(CONTEXT, ACTIONS).arms
        assert_array_equal(decision.mean, agent.decide(arms).mean)
        assert agent.sync(everything=True)
        expected = agent.decide(context=CONTEXT, actions=ACTIONS).mean
        assert_array_equal(agent.theta @ arms.T, expected)
        with sidecar(running.connect("b")) as client:
            asked = [
                {"id": each["id"], "features": {k: v for k, v in each.items() if k != "id"}}
                for each in ACTIONS
            ]
            body = {"contextFeatures": CONTEXT, "actions": asked, "top": 2}
            answer = client.post("/rank", json=body).json()
    told = {each["id"]: each["mean"] for each in answer["ranking"]}
    assert [told[each["id"]] for each in ACTIONS] == pytest.approx(list(expected))
    assert [each["eventId"] for each in answer["places"]] == [
        answer["eventId"],
        f"{answer['eventId']}:1",
    ]


def test_places_are_by_score_and_those_looked_at_are_learned_from() -> None:
    twin = Twin(RECIPE)
    with joined_to(twin) as agent:
        decision = agent.decide(context=CONTEXT, actions=ACTIONS, top=2, id="page")
        scores = decision.mean + decision.bonus
        best = sorted(range(3), key=lambda k: -scores[k])[:2]
        assert {each.index for each in decision.places} == set(best)
        assert [each.id for each in decision.places] == ["page", "page:1"]
        assert decision.places[0].index == decision.index
        agent.reward("page:1", 2.0)
        with pytest.raises(SettledDecision):
            agent.reward("page:1", 2.0)
        with pytest.raises(UnknownDecision):
            agent.reward("page:2", 1.0)
        arms = Encoder(SHOP, D).encode(CONTEXT, ACTIONS).arms
        assert agent.sync(everything=True)
        assert_array_equal(twin.server.moment, 2.0 * arms[decision.places[1].index])
        assert twin.server.count == 1
        assert len(agent.decide(arms, top=9).places) == 3


@pytest.mark.parametrize("choice", ["ucb", "thompson", fb.Mixed(0.5)])
def test_excluded_arms_have_no_chance(choice: fb.Mixed | str) -> None:
    recipe = fb.FedLinUCB(dimension=D, agents=1, choice=choice)  # type: ignore[arg-type]
    arms = np.random.default_rng(0).standard_normal((5, D)) * (np.arange(D) < 6)
    with joined_to(Twin(recipe)) as agent:
        for given in (arms, sparse.csr_array(arms)):
            for _ in range(20):
                decision = agent.decide(given, exclude=[0, 3], top=2)
                assert {each.index for each in decision.places} <= {1, 2, 4}
                assert_array_equal(decision.probabilities[[0, 3]], 0.0)
                assert decision.probabilities.sum() == pytest.approx(1.0)
                assert decision.mean.shape == decision.bonus.shape == (5,)
        named = agent.decide(context=CONTEXT, actions=ACTIONS, exclude=["boat", 2])
        assert named.action == "tent"
        for wrong in ([5], ["nobody"], [True], range(5)):
            with pytest.raises(InvalidParameter, match="exclude"):
                agent.decide(arms, exclude=wrong)


def test_the_probability_of_a_place_is_given_the_places_above() -> None:
    recipe = fb.FedLinUCB(dimension=D, agents=1, choice=fb.Mixed(0.4))
    with joined_to(Twin(recipe)) as agent:
        for _ in range(30):
            places = agent.decide(np.eye(4, D) * [[1], [2], [3], [4]], top=4).places
            left = [3, 2, 1, 0]  # from the best score down
            for place in places:
                likely = 0.6 * (place.index == left[0])
                assert place.probability == pytest.approx(0.4 / len(left) + likely)
                left.remove(place.index)


def test_arms_or_actions_but_not_both() -> None:
    with joined_to(Twin(RECIPE)) as agent:
        for wrong in ({}, {"arms": np.eye(2, D), "actions": ACTIONS}, {"context": CONTEXT},
                      {"arms": np.eye(2, D), "context": CONTEXT}):  # fmt: skip
            with pytest.raises(InvalidParameter, match="arms, or actions by name"):
                agent.decide(**wrong)
        with pytest.raises(InvalidParameter, match="top"):
            agent.decide(np.eye(2, D), top=0)
