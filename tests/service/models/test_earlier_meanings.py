"""A default of a recipe changes, and models, agents and journals of before go on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.identity import canonical
from fedbandit.errors import InvalidState
from fedbandit.service.storage.opening import open_store
from fedbandit.testing import coordinator

OLD = fb.FedLinUCB(dimension=3, agents=1)


def upgraded(*, same: bool) -> Callable[..., fb.Recipe]:
    """FedLinUCB of meaning 2: ``same`` algorithm but for a default, or another one."""

    def build(**params: Any) -> fb.Recipe:
        recipe = OLD_BUILD(**params)
        now = {2: canonical(recipe.name, 2, recipe.differing)}
        return replace(recipe, meaning=2, identities={**recipe.identities, **now} if same else now)

    return build


OLD_BUILD = RECIPES["FedLinUCB"]


def play(agent: fb.ConnectedAgent) -> None:
    agent.reward(agent.decide(np.eye(3)).id, 1.0)
    assert agent.sync(everything=True)


def test_what_was_made_before_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    opened = open_store(url, create=True)
    with coordinator(OLD, store=opened) as served, served.connect("a", state_dir=tmp_path) as agent:
        play(agent)
        token = served.token("b")
    with monkeypatch.context() as changed:
        changed.setitem(RECIPES, "FedLinUCB", upgraded(same=True))  # the coordinator first
        with coordinator(OLD, store=open_store(url)) as served:
            with served.connect("a", state_dir=tmp_path) as agent:
                assert agent.recipe.meaning == 2
                play(agent)
            changed.undo()  # and a device that was not upgraded
            with fb.connect(served.url, model=served.model, agent="b", token=token) as older:
                assert older.recipe.meaning == 1
                play(older)
            assert served.state().count == 3


def test_another_algorithm_of_that_name_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with coordinator(OLD) as served, served.connect("a", state_dir=tmp_path) as agent:
        play(agent)
    monkeypatch.setitem(RECIPES, "FedLinUCB", upgraded(same=False))
    with pytest.raises(InvalidState, match="FedLinUCB of meaning 1; this version of fedbandit has"):
        fb.connect("http://127.0.0.1:9", model=served.model, agent="a", state_dir=tmp_path)
    assert wire.fingerprint(RECIPES["FedLinUCB"](**OLD.params)) != wire.fingerprint(OLD)
