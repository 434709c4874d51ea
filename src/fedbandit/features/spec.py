"""The encoding of a model: what is declared of its features, as a part of its recipe.

All agents of a model must make the same arms of the same features. So the encoding is a parameter
of the recipe: stored with the model, told to agents when they join, and a part of its identity.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal

from fedbandit.errors import InvalidParameter, complaint, unknown
from fedbandit.features.declared import Declaration, declaration

VERSION: Final = 1
"""The rule by which features become arms; see ``features.hashed``."""

Interactions = Literal["all", "none"] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Features:
    """How named features become arms.

    ``declared``: of features by name, ``"0..2000"`` or ``(0, 2000)``, a range, which becomes -1 to
    1; ``"centre 40 scale 15"``; ``"number"``, taken as it is; ``"category"``, for numbers that are
    names too; or a list of words, the only ones that are used. A feature that is not declared is
    taken as it comes: numbers as they are, texts as categories. ``user.age`` is the name of ``age``
    inside ``user``.

    ``id``: the id of an action is a feature of its own, so that what the other features leave
    unexplained is learned for each action. ``interactions``: which features of the context are
    paired with features of actions: ``"all"``, ``"none"``, or pairs of names, the context's first.
    Without a pair, a context cannot change which action is best. ``only_declared``: a feature that
    is not declared is refused, by its name. ``version``: of the rule.
    """

    declared: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    id: bool = False
    interactions: Interactions = "all"
    only_declared: bool = False
    version: int = VERSION

    def __post_init__(self) -> None:
        if not isinstance(self.declared, Mapping):
            fix = "Write fb.Features({'price': '0..2000'})."
            got, expected = repr(self.declared), "what is declared, by name"
            raise InvalidParameter(complaint("features", got=got, expected=expected, fix=fix))
        if self.version != VERSION:
            got, fix = f"version {self.version!r}", "Use the version of fedbandit that made it."
            raise InvalidParameter(complaint("features", got=got, expected=str(VERSION), fix=fix))
        for name in ("id", "only_declared"):
            if not isinstance(getattr(self, name), bool):
                got, fix = repr(getattr(self, name)), f"Write {name}=True."
                raise InvalidParameter(
                    complaint(f"features, {name}", got=got, expected="True or False", fix=fix)
                )
        read = {name: declaration(name, each) for name, each in _unnested(self.declared)}
        object.__setattr__(self, "declared", dict(sorted(read.items())))
        object.__setattr__(self, "interactions", _pairs(self.interactions))

    def of(self, name: str) -> Declaration | None:
        """Return what is declared of a feature; None if nothing is."""
        found: Declaration | None = self.declared.get(name)
        return found

    @property
    def params(self) -> dict[str, Any]:
        """The encoding as JSON can hold it, without what is at its default."""
        told: dict[str, Any] = {"version": self.version}
        if self.declared:
            told["declared"] = {name: each.text for name, each in self.declared.items()}
        if self.interactions != "all":
            pairs = self.interactions
            told["interactions"] = pairs if pairs == "none" else [list(pair) for pair in pairs]
        return told | {name: True for name in ("id", "only_declared") if getattr(self, name)}


def _unnested(given: Mapping[Any, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield declarations by name: those of ``{"user": {"age": ...}}`` are of ``user.age``."""
    for key, each in given.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(each, Mapping):
            yield from _unnested(each, name)
        else:
            yield name, each


AnyFeatures = Features | Mapping[str, Any] | None
"""How the parameter ``features`` of recipes is given."""


def features_from(given: object) -> Features | None:
    """Return an encoding from itself, from what ``params`` has, or from declarations alone."""
    if given is None or isinstance(given, Features):
        return given
    if isinstance(given, Mapping):
        if not isinstance(given.get("version"), int):  # a feature may have this name
            return Features(given)
        known = ("version", "declared", "id", "interactions", "only_declared")
        for name in given:
            if name not in known:
                raise unknown("parameter of features", str(name), known)
        return Features(**given)
    fix = "Write features=fb.Features({'price': '0..2000'})."
    got, expected = repr(given), "fb.Features"
    raise InvalidParameter(complaint("features", got=got, expected=expected, fix=fix))


def _pairs(given: object) -> Literal["all", "none"] | tuple[tuple[str, str], ...]:
    if given in ("all", "none"):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        pairs = [tuple(pair) for pair in given if isinstance(pair, list | tuple)]
        if len(pairs) == len(given) and all(
            len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in pairs
        ):
            return tuple(sorted({(str(one), str(other)) for one, other in pairs}))
    expected = "'all', 'none' or pairs of names, the context's first"
    fix = "Write, for example, interactions=[('user.lang', 'topic')]."
    raise InvalidParameter(
        complaint("features, interactions", got=repr(given), expected=expected, fix=fix)
    )


PLAIN: Final = Features()
"""Nothing declared: what models without an encoding have."""
