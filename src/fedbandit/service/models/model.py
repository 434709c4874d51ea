"""Models: a recipe under a name, what it takes for possible, and its state as bytes."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from fedbandit import wire
from fedbandit.core.checks import whole
from fedbandit.core.identity import is_of_version_1, params_1, told_params
from fedbandit.core.memory.contract import Sent
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.recipe import Recipe
from fedbandit.errors import (
    InvalidState,
    complaint,
)
from fedbandit.service.bookkeeping.history import HOURLY, History, check_history
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS, Quotas, check_quotas
from fedbandit.service.bookkeeping.recipes import stored_recipe
from fedbandit.service.groups.membership import check_groups
from fedbandit.service.storage.contract import Model
from fedbandit.terms import check_limits, check_name, check_served
from fedbandit.wire import Limits

DEFAULT_LIMITS: Final = Limits(arm_norm=1e6, reward=1e6, count=10_000)
_ENVELOPE = 512  # more than all fields of a sync but its arrays


def new_model(
    name: str,
    recipe: Recipe,
    *,
    limits: Limits = DEFAULT_LIMITS,
    quotas: Quotas = NO_QUOTAS,
    history: History = HOURLY,
    groups: int = 0,
    relays: int = 0,
    weighed: bool = True,
    watched: bool = False,
) -> tuple[Model, bytes]:
    """Return a model that has merged nothing yet, and its state.

    ``groups`` of agents, so that few liars do not sway it (``groups.weighing``): 0 for none. Not
    ``weighed``: agents are told the median of the groups' estimates, as in models of before.
    ``watched``: from eight groups on, with larger shares while none stands out.
    """
    check_name("model", name)
    check_served(recipe)
    check_limits(limits)
    model = Model(
        name=name,
        incarnation=new_incarnation(),
        recipe=recipe.name,
        params=json.dumps(told_params(recipe)).encode(),
        fingerprint=wire.fingerprint(recipe),
        limits=limits,
        version=0,
        count=0,
        created=time.time(),
        quotas=check_quotas(quotas),
        history=check_history(history),
        groups=check_groups(groups, weighed=weighed),
        relays=whole("relays", relays, least=0),
        weighed=weighed and groups > 0,
        watched=watched and weighed and groups > 0,
    )
    return model, wire.encode(recipe.server().whole())


def new_incarnation() -> str:
    """Return what tells this model from any other that ever had its name."""
    return secrets.token_hex(8)


def recipe_of(model: Model) -> Recipe:
    """Build the recipe of a stored model, and make sure that it is the one that was stored."""
    recipe = stored_recipe(model.recipe, model.params)
    if model.fingerprint not in wire.fingerprints(recipe):
        got, expected = wire.fingerprint(recipe), model.fingerprint
        fix = "Use the version of fedbandit that made the model."
        who = f"fingerprint of model {model.name!r}"
        raise InvalidState(complaint(who, got=got, expected=expected, fix=fix))
    return recipe


@dataclass(frozen=True)
class Served:
    """A model as the coordinator holds it in memory: what does not change with uploads."""

    model: Model
    recipe: Recipe

    @cached_property
    def empty(self) -> Sent:
        """The summary of no observations: of which kind and shape uploads have to be."""
        summary: Sent = self.recipe.parts.memory.empty().summary
        return summary

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The recipe's parameters; asking the recipe copies them each time."""
        return self.recipe.params

    @cached_property
    def fingerprints(self) -> Mapping[int, str]:
        """What names the recipe in each format of the wire, for as long as the model lives."""
        old = {1: wire.fingerprint(self.recipe, format=1)} if is_of_version_1(self.recipe) else {}
        return {**old, 2: self.model.fingerprint}

    @cached_property
    def accepted(self) -> Mapping[int, frozenset[str]]:
        """What agents may call the recipe, by format: those of earlier meanings as well."""
        return {form: wire.fingerprints(self.recipe, format=form) for form in self.fingerprints}

    def params_in(self, form: int) -> bytes | None:
        """Return its parameters as JSON for agents of a format; None if they could not build it."""
        if form > 1:
            return self.model.params
        return json.dumps(params_1(self.recipe)).encode() if is_of_version_1(self.recipe) else None

    @cached_property
    def largest_body(self) -> int:
        """Bytes that no honest sync of this model exceeds."""
        d, memory = self.recipe.dimension, self.recipe.parts.memory
        if isinstance(memory, LossyMemory):
            rows, number = memory.size - 1, 4 if memory.rounds else wire.WIDTH
            return rows + d * (rows * number + 2 * wire.WIDTH) + _ENVELOPE
        rows = self.empty.size - 1 if isinstance(self.empty, Sketch) else d
        return wire.WIDTH * d * (rows + 1) + _ENVELOPE
