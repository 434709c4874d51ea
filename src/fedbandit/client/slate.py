"""Which arms are played, in which places: one or several, some of the arms left out."""

from collections.abc import Callable, Iterable, Sequence
from math import nan

import msgspec
import numpy as np

from fedbandit.core.checks import arms_not_finite
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.parts.choice import Choice, Chosen, Policy
from fedbandit.errors import InvalidParameter, complaint


class Pick(msgspec.Struct, frozen=True, eq=False):
    """The arm in one place: its index, and the probability of every arm (K) for this place.

    ``number`` is that of the choice, ``offered`` the indices that there were to choose from.
    """

    index: int
    probabilities: Array
    number: int
    offered: Sequence[int]


def picks(
    rule: Choice,
    policy: Policy,
    arms: Array | SparseArms,
    *,
    chance: int,
    number: Callable[[], int],
    offered: Sequence[int],
    top: int,
) -> tuple[list[Pick], Chosen]:
    """Fill ``top`` places: each is a choice among what the places above have left.

    So a probability is that of an arm in its place, given the places above. Returns the choice of
    the first place too. ``number`` returns the number of the next choice.
    """
    if top == 1 and len(offered) == len(arms):  # the common case, without copies
        at = number()
        chosen = rule.choose(policy, arms, chance, at)
        odds = rule.probabilities(policy, chosen, chance, at)
        return [Pick(chosen.arm, odds, at, offered)], chosen
    left, made, first = list(offered), [], None
    for _ in range(min(top, len(left))):
        among = arms if len(left) == len(arms) else _only(arms, left)
        at = number()
        chosen = rule.choose(policy, among, chance, at)
        odds = np.zeros(len(arms))
        odds[left] = rule.probabilities(policy, chosen, chance, at)
        made.append(Pick(left[chosen.arm], odds, at, tuple(left)))
        first = first or chosen
        del left[chosen.arm]
    assert first is not None
    return made, first


def with_all_arms(policy: Policy, arms: Array | SparseArms, chosen: int) -> Chosen:
    """Return a choice among some arms as one that has all of them and their widths."""
    with np.errstate(all="ignore"):
        if isinstance(arms, SparseArms):
            widths = policy.reading.sparse_squared_widths(arms)
        else:
            widths = policy.reading.squared_widths(arms)
    if not np.isfinite(widths).all():
        raise arms_not_finite(arms.dense() if isinstance(arms, SparseArms) else arms)
    return Chosen(chosen, nan, arms if isinstance(arms, SparseArms) else arms.copy(), widths)


def means(policy: Policy, arms: Array | SparseArms) -> Array:
    """Return the estimated reward of every arm (K)."""
    return arms.times(policy.theta) if isinstance(arms, SparseArms) else arms @ policy.theta


def offered_of(many: int, ids: Sequence[str | None], exclude: Iterable[int | str]) -> Sequence[int]:
    """Return the indices that are not excluded; raise InvalidParameter for what is no arm."""
    if exclude == ():
        return range(many)
    known = {name: k for k, name in enumerate(ids) if name is not None}
    out = set()
    for each in exclude:
        at = known.get(each) if isinstance(each, str) else each
        if not isinstance(at, int | np.integer) or isinstance(at, bool) or not 0 <= at < many:
            expected = f"ids of actions, or indices from 0 to {many - 1}"
            fix = "Exclude arms of this decision only."
            raise InvalidParameter(complaint("exclude", got=repr(each), expected=expected, fix=fix))
        out.add(int(at))
    left = tuple(k for k in range(many) if k not in out)
    if not left:
        fix, expected = "Exclude fewer.", "at least one arm that is not excluded"
        raise InvalidParameter(complaint("exclude", got="every arm", expected=expected, fix=fix))
    return left


def _only(arms: Array | SparseArms, rows: Sequence[int]) -> Array | SparseArms:
    if isinstance(arms, SparseArms):
        return arms.only(rows)
    return np.ascontiguousarray(arms[list(rows)])
