"""The encoder of one model: arms from a context and actions, and what it has seen of them."""

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fedbandit.errors import InvalidArms, complaint
from fedbandit.features.flat import Found, flat
from fedbandit.features.hashed import Array, Named, Term, arms_of, features_of, named, terms_of
from fedbandit.features.seen import Report, Seen
from fedbandit.features.spec import PLAIN, Features
from fedbandit.features.tables import actions_of, context_of

MOST_FEATURES: Final = 1000
MOST_PAIRS: Final = 1_000_000

_KNOWN = 4096  # actions whose features are kept, the latest ones
_SHORT = 1024  # bytes of features, as marshal writes them, that are kept: 30 MB at most in all
_FORMAT = 2  # of marshal: later ones write equal values in several ways


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The arms (K x d) of a decision, the ids of its actions, and the names behind the arms.

    ``given``: the features of the context, and those of each action, as they came.
    """

    arms: Array
    ids: tuple[str | None, ...]
    context: Named
    actions: tuple[Named, ...]
    features: Features
    given: tuple[object, tuple[object, ...]] = (None, ())

    def terms(self, action: int) -> list[Term]:
        """Return the terms whose sum is the arm of an action."""
        dimension = self.arms.shape[1]
        return terms_of(self.context, self.actions[action], dimension, self.features)


class Encoder:
    """Makes arms of named features, for a model of this dimension. Thread-safe.

    ``features``: the model's encoding; None for models without one, whose features are taken as
    they come.
    """

    def __init__(self, features: Features | None, dimension: int) -> None:
        self._features, self._dimension = features or PLAIN, dimension
        self._seen = Seen(self._features, dimension)
        self._known_action = lru_cache(maxsize=_KNOWN)(self._read_action)

    def encode(self, context: object, actions: object) -> Encoded:
        """Return arms for a context and actions; raise InvalidArms for what cannot be features.

        ``context``: a dict, nested or not, a list of dicts, or a frame or Series with one row.
        ``actions``: a list of dicts or a frame; what is under ``"id"`` names the action.
        """
        rows = actions_of(actions, self._features)
        ids = [_id_of(row, k) for k, row in enumerate(rows)]
        bare = [{name: each for name, each in row.items() if name != "id"} for row in rows]
        features: list[object] = [
            None if name is not None and not row else row
            for name, row in zip(ids, bare, strict=True)
        ]
        return self.encode_named(context_of(context, self._features), ids, features)

    def encode_named(
        self,
        context: object,
        ids: Sequence[str | None],
        actions: Sequence[object],
        *,
        fields: tuple[str, str] = ("context", "actions"),
        plain: bool = False,
    ) -> Encoded:
        """Return arms for actions whose ids are given; without features, the id is the feature.

        ``fields``: what errors call context and actions. ``plain``: the features are of Python's
        own types, as parsed JSON is; those of the latest actions are then kept.
        """
        self._check_ids(ids, fields[1])
        known = features_of(context, field=fields[0], features=self._features)
        action = self._plain_action if plain else self._action
        made = tuple(
            [
                action(given, name, f"{fields[1]}, {k if name is None else repr(name)}")
                for k, (name, given) in enumerate(zip(ids, actions, strict=True))
            ]
        )
        most = max(len(known), *map(len, made))
        if most > MOST_FEATURES or len(known) * sum(map(len, made)) > MOST_PAIRS:
            expected = (
                f"at most {MOST_FEATURES} of an action or the context, and {MOST_PAIRS:,} pairs"
            )
            got, fix = f"up to {most} features", "Send fewer features or actions."
            raise InvalidArms(complaint(fields[1], got=got, expected=expected, fix=fix))
        arms = arms_of(known, made, self._dimension, self._features)
        self._seen.note(known, made)
        given = context, tuple(actions)
        return Encoded(arms, tuple(ids), known, made, self._features, given)

    def report(self) -> Report:
        """Return what was seen so far: terms, collisions, what did not fit, what drowns others."""
        return self._seen.report()

    def terms(self) -> dict[str, tuple[int, float]]:
        """Return place and sign of every term that was seen, by name."""
        return self._seen.terms()

    def _action(self, given: object, name: str | None, who: str) -> Named:
        found = [] if given is None else flat(given, self._features, field=who)
        if name is not None and (given is None or self._features.id):
            found.append(Found("id", f"id={name}", 1.0))
        return named(found)

    def _plain_action(self, given: Any, name: str | None, who: str) -> Named:
        """Do the same for plain values, which most programs send again and again."""
        try:
            written = marshal.dumps(given, _FORMAT)  # as a key: a dict is none
        except ValueError:  # too deep
            return self._action(given, name, who)
        known = len(written) <= _SHORT
        return self._known_action(written, name, who) if known else self._action(given, name, who)

    def _read_action(self, written: bytes, name: str | None, who: str) -> Named:
        return self._action(marshal.loads(written), name, who)

    def _check_ids(self, ids: Sequence[str | None], field: str) -> None:
        told = [each for each in ids if each is not None]
        if "" in told:
            fix = "Give every action a name, or leave the id out."
            raise InvalidArms(complaint(field, got="an empty id", expected="a text", fix=fix))
        if len(set(told)) < len(told):
            fix = "Give every action its own id."
            raise InvalidArms(
                complaint(field, got="the same id twice", expected="ids that differ", fix=fix)
            )
        if self._features.id and len(told) < len(ids):
            fix = "Add an 'id' to every action."
            expected = "ids, which are features of this model"
            raise InvalidArms(
                complaint(field, got="an action without id", expected=expected, fix=fix)
            )


def _id_of(row: Mapping[str, Any], k: int) -> str | None:
    given = row.get("id")
    if isinstance(given, np.generic):
        given = given.item()
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    fix = "Give a text, a whole number or none."
    got = f"{given!r:.40} as the id of action {k}"
    raise InvalidArms(complaint("actions", got=got, expected="a text or a whole number", fix=fix))
